// EXAONE 4 (LG AI Research, 2025, arXiv:2507.11407): what attention and MLP give is normed, not what they read, and
// each head of queries and keys; where there are windows, layers without one are not rotated.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/post_norm_block.h"

namespace hone::models {
namespace {

using config::Node;

struct Exaone4Config : LlamaConfig {
  using Base = LlamaConfig;
  config::Open sliding_window_pattern{Node::scalar("default")};

  static constexpr auto fields() {
    using C = Exaone4Config;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("sliding_window_pattern", &C::sliding_window_pattern,
                         "Without layer_types, every how manieth layer sees all; default 4. With it, no matter.")});
  }
  void validate(Problems& problems) const;
};

bool lets_slide(const LlamaConfig& c) { return is_default(c.sliding_window) || !c.sliding_window.node.is_null(); }

std::vector<std::string> types_by_pattern(const Exaone4Config& c, Problems& problems) {
  std::int64_t pattern = 4;
  const Node& given = c.sliding_window_pattern.node;
  if (lets_slide(c) && !is_default(c.sliding_window_pattern))
    config::Values<std::int64_t>::read(given, pattern, {problems, "sliding_window_pattern", {.low = 1, .high = 10000}});
  std::vector<std::string> types;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(32), 10000);
  for (std::int64_t i = 1; i <= layers; ++i)
    types.push_back(lets_slide(c) && i % pattern != 0 ? "sliding_attention" : "full_attention");
  return types;
}

LlamaConfig completed(const Exaone4Config& given, Problems& problems) {
  LlamaConfig c = given;
  if (!c.layer_types) c.layer_types = types_by_pattern(given, problems);
  return c;
}

LlamaShape resolve(const Exaone4Config& c, Problems& problems) {
  LlamaShape s;
  const std::size_t before = problems.size();
  const LlamaConfig all = completed(c, problems);
  if (problems.size() > before || !resolve_base(all, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  refuse_keys(c.model_type, {{"attention_bias", c.attention_bias.value_or(false)}}, problems);
  if (lets_slide(c))
    for (const std::int64_t window : s.windows) s.unrotated.push_back(window == 0);
  return s;
}

void Exaone4Config::validate(Problems& problems) const { resolve(*this, problems); }

class Exaone4 final : public DecodingLlama<PostNormBlock<>> {
 public:
  Exaone4(const Exaone4Config& config, const HeadRequest& head)
      : DecodingLlama(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = to_hf_config(config_, s, dtype());
    if (!lets_slide(config_)) node.at_or_add("sliding_window") = Node();  // all layers are rotated by that
    node.at_or_add("sliding_window_pattern") = lets_slide(config_) && !is_default(config_.sliding_window_pattern)
                                                   ? config_.sliding_window_pattern.node
                                                   : config::Values<std::int64_t>::write(lets_slide(config_) ? 4 : 0);
    sort_keys(node);
    return node;
  }

 private:
  Exaone4Config config_;
};

}  // namespace

void register_exaone4(Registries& hone) {
  hone.models.add<Exaone4, Exaone4Config>("exaone4", "EXAONE 4: norms behind attention and MLP, and of each head.");
}

}  // namespace hone::models
