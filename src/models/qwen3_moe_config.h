// What config.json of a Qwen2-MoE or Qwen3-MoE model may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include "models/expert_keys.h"

namespace hone::models {

struct Qwen3MoeConfig : ExpertKeys<LlamaConfig> {
  using Base = ExpertKeys<LlamaConfig>;
  std::optional<std::int64_t> num_local_experts;
  std::optional<bool> qkv_bias;

  static constexpr auto fields() {
    using C = Qwen3MoeConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("num_local_experts", &C::num_local_experts,
                         "The same as num_experts, as transformers 5 writes it.", {.low = 1, .high = 65536}),
                   field("qkv_bias", &C::qkv_bias, "qwen2_moe: biases of queries, keys and values; default true.")});
  }
  void validate(Problems& problems) const;
};

struct Qwen3MoeShape : LlamaShape, ExpertShape {};
Qwen3MoeShape resolve(const Qwen3MoeConfig& config, Problems& problems);

config::Node to_hf_config(const Qwen3MoeConfig& config, const Qwen3MoeShape& shape, const std::string& dtype);

}  // namespace hone::models
