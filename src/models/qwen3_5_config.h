// What config.json of a Qwen3-Next or a Qwen3.5 text model may say beyond Llama's keys, and the plain numbers that it
// means.
#pragma once

#include "models/delta_shape.h"
#include "models/expert_keys.h"

namespace hone::models {

// Of layers with memories.
struct DeltaKeys : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t linear_conv_kernel_dim = 4, linear_key_head_dim = 128, linear_value_head_dim = 128,
               linear_num_key_heads = 16, linear_num_value_heads = 32;
  std::optional<std::int64_t> full_attention_interval;
  // Of files that are whole: what else was trained beside the model.
  std::optional<std::int64_t> mtp_num_hidden_layers;
  std::optional<bool> mtp_use_dedicated_embeddings, attn_output_gate;
  std::optional<std::string> mamba_ssm_dtype, output_gate_type;

  static constexpr auto fields() {
    using C = DeltaKeys;
    constexpr config::Range size{.low = 1, .high = 65536};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("linear_conv_kernel_dim", &C::linear_conv_kernel_dim,
                  "Tokens that the convolution before a memory (linear attention: gated delta net) reads.",
                  {.low = 2, .high = 64}),
            field("linear_key_head_dim", &C::linear_key_head_dim, "Size of a memory's queries and keys.", size),
            field("linear_value_head_dim", &C::linear_value_head_dim, "Size of a memory's values.", size),
            field("linear_num_key_heads", &C::linear_num_key_heads, "Heads of queries and keys of memories.", size),
            field("linear_num_value_heads", &C::linear_num_value_heads,
                  "Heads of values, with a memory each; a multiple of the heads of keys.", size),
            field("full_attention_interval", &C::full_attention_interval,
                  "Without layer_types, every how manieth layer has attention, the others memories; default 4.",
                  {.low = 1, .high = 10000}),
            field("attn_output_gate", &C::attn_output_gate, "Must be true: attention's result is gated."),
            field("mtp_num_hidden_layers", &C::mtp_num_hidden_layers,
                  "Layers that guess further tokens; they are left out, in transformers as here."),
            field("mtp_use_dedicated_embeddings", &C::mtp_use_dedicated_embeddings, "Has no effect, likewise."),
            field("mamba_ssm_dtype", &C::mamba_ssm_dtype, "No effect: memories are computed in fp32."),
            field("output_gate_type", &C::output_gate_type, "Of a memory's result: swish, which is silu.")});
  }
};

struct Qwen35Config : DeltaKeys {
  using Base = DeltaKeys;
  std::vector<std::int64_t> mlp_only_layers;

  static constexpr auto fields() {
    return std::tuple_cat(Base::fields(), std::tuple{field("mlp_only_layers", &Qwen35Config::mlp_only_layers,
                                                           "Has no effect: no layer has experts.")});
  }
  void validate(Problems& problems) const;
};

// With routed experts: qwen3_next and qwen3_5_moe_text.
struct Qwen35MoeConfig : ExpertKeys<DeltaKeys> {
  using Base = ExpertKeys<DeltaKeys>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};

struct Qwen35Shape : LlamaShape, ExpertShape, DeltaShape {
  bool joined = false;  // what a memory reads is made by two products, by heads of keys
};
Qwen35Shape resolve(const Qwen35Config& config, Problems& problems);
Qwen35Shape resolve(const Qwen35MoeConfig& config, Problems& problems);

config::Node to_hf_config(const Qwen35Config& config, const Qwen35Shape& shape, const std::string& dtype);
config::Node to_hf_config(const Qwen35MoeConfig& config, const Qwen35Shape& shape, const std::string& dtype);

}  // namespace hone::models
