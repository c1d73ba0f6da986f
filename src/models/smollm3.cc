// SmolLM3 (Bakouch et al., 2025): Llama with layers that are not rotated (NoPE; Yang et al., 2025, arXiv:2501.18795).
#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct SmolLm3Config : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::vector<std::int64_t>> no_rope_layers;
  std::int64_t no_rope_layer_interval = 4;

  static constexpr auto fields() {
    using C = SmolLm3Config;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("no_rope_layers", &C::no_rope_layers,
                  "Of each layer 1 where q and k are rotated, 0 where they are not.", {.low = 0, .high = 1}),
            field("no_rope_layer_interval", &C::no_rope_layer_interval,
                  "Without no_rope_layers: every how manieth layer is not rotated.", {.low = 1, .high = 10000})});
  }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const SmolLm3Config& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  for (std::int64_t i = 0; i < s.layers; ++i) s.unrotated.push_back((i + 1) % c.no_rope_layer_interval == 0);
  if (c.no_rope_layers) {
    const bool enough = std::ssize(*c.no_rope_layers) == s.layers;
    problems.require(
        enough, "no_rope_layers",
        fmt::format("got {} entries, expected num_hidden_layers ({})", c.no_rope_layers->size(), s.layers));
    for (std::int64_t i = 0; enough && i < s.layers; ++i) s.unrotated[i] = (*c.no_rope_layers)[i] == 0;
  }
  if (c.layer_types || !c.use_sliding_window.value_or(false)) return s;
  std::int64_t window = 0;
  if (!is_default(c.sliding_window) && !c.sliding_window.node.is_null())
    config::Values<std::int64_t>::read(c.sliding_window.node, window, {problems, "sliding_window", {.low = 1}});
  for (std::int64_t i = 0; i < s.layers; ++i) s.windows[i] = s.unrotated[i] ? window : 0;
  return s;
}

void SmolLm3Config::validate(Problems& problems) const { resolve(*this, problems); }

class SmolLm3 final : public LlamaStack {
 public:
  SmolLm3(const SmolLm3Config& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    node.at_or_add("no_rope_layer_interval") = config::Values<std::int64_t>::write(config_.no_rope_layer_interval);
    std::vector<std::int64_t> rotated;
    for (const bool is_not : s.unrotated) rotated.push_back(is_not ? 0 : 1);
    node.at_or_add("no_rope_layers") = config::Values<std::vector<std::int64_t>>::write(rotated);
    sort_keys(node);
    return node;
  }

 private:
  SmolLm3Config config_;
};

}  // namespace

void register_smollm3(Registries& hone) {
  hone.models.add<SmolLm3, SmolLm3Config>("smollm3", "Llama with layers that are not rotated.");
}

}  // namespace hone::models
