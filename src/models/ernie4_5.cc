// ERNIE 4.5 (Baidu, 2025), without experts: Llama that rotates neighbours, and whose products all have biases or none.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct Ernie45Config : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<bool> use_bias, rope_3d;
  std::optional<double> compression_ratio;
  std::optional<std::int64_t> freq_allocation;

  static constexpr auto fields() {
    using C = Ernie45Config;
    return std::tuple_cat(LlamaConfig::fields(),
                          std::tuple{field("use_bias", &C::use_bias, "Biases in attention and in the MLP."),
                          field("rope_3d", &C::rope_3d, "Must be false."),
                          field("compression_ratio", &C::compression_ratio, "Must be 1."),
                          field("freq_allocation", &C::freq_allocation, "Has no effect: it is of rope_3d.")});
  }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const Ernie45Config& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type,
              {{"attention_bias", c.attention_bias.value_or(false)},
               {"attention_dropout", c.attention_dropout.value_or(0) > 0}},
              problems);
  problems.require(!c.rope_3d.value_or(false), "rope_3d", "got true, expected false, as transformers has it");
  problems.require(c.compression_ratio.value_or(1) == 1, "compression_ratio", "expected 1, as transformers has it");
  s.qkv_bias = s.output_bias = s.mlp_bias = c.use_bias.value_or(false);
  s.rotates_neighbours = true;
  return s;
}

void Ernie45Config::validate(Problems& problems) const { resolve(*this, problems); }

class Ernie45 final : public LlamaModel<LlamaBlock> {
 public:
  Ernie45(const Ernie45Config& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    std::erase_if(node.entries(), [](const config::Node::Entry& entry) { return entry.first == "attention_dropout"; });
    node.at_or_add("use_bias") = config::Values<bool>::write(s.mlp_bias);
    sort_keys(node);
    return node;
  }

 private:
  Ernie45Config config_;
};

}  // namespace

void register_ernie4_5(Registries& hone) {
  hone.models.add<Ernie45, Ernie45Config>("ernie4_5", "ERNIE 4.5 without experts: Llama that rotates neighbours.");
}

}  // namespace hone::models
