// EXAONE 4 (LG AI Research, 2025, arXiv:2507.11407): what attention and MLP give is normed, not what they read, and
// each head of queries and keys; where there are windows, layers without one are not rotated.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/exaone_keys.h"
#include "models/post_norm_block.h"

namespace hone::models {
namespace {

using config::Node;

struct Exaone4Config : ExaoneKeys<LlamaConfig> {
  using Base = ExaoneKeys<LlamaConfig>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const Exaone4Config& c, Problems& problems) {
  LlamaShape s;
  const std::size_t before = problems.size();
  const LlamaConfig all = with_types(c, problems);
  if (problems.size() > before || !resolve_base(all, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  refuse_keys(c.model_type, {{"attention_bias", c.attention_bias.value_or(false)}}, problems);
  leave_unrotated(c, s);
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
    write_pattern(config_, node);
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
