// Multi-head latent attention (DeepSeek-AI, 2024, arXiv:2405.04434) as DeepSeek-V2, -V3, GLM-4.7-Flash and Mistral 4
// have it: what config.json says of it beside the keys of experts, the plain numbers that it means, and the layer.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <cstdint>
#include <optional>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/grouped_experts.h"
#include "models/llama_attention.h"
#include "nn/latent.h"

namespace hone::models {

struct LatentConfig : GroupedConfig {
  using Base = GroupedConfig;
  std::optional<std::int64_t> kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, qk_head_dim, v_head_dim;
  config::Open q_lora_rank{config::Node::scalar("default")};
  std::optional<bool> rope_interleave;

  static constexpr auto fields() {
    using C = LatentConfig;
    constexpr config::Range size{.low = 1, .high = 65536};
    return std::tuple_cat(
        GroupedConfig::fields(),
        std::tuple{
            field("kv_lora_rank", &C::kv_lora_rank,
                  "Size of the latent that keys and values are made of; default 512, 256 in mistral4.", size),
            field("q_lora_rank", &C::q_lora_rank,
                  "Size of the latent that queries are made of; null = none. Default 1536, 768 in glm4_moe_lite, 1024 "
                  "in mistral4."),
            field("qk_nope_head_dim", &C::qk_nope_head_dim,
                  "What of a query's and a key's head is not rotated; default 128, 192 in glm4_moe_lite, 64 in "
                  "mistral4.",
                  size),
            field("qk_rope_head_dim", &C::qk_rope_head_dim, "What of it is; default 64. The same key for all heads.",
                  config::Range{.low = 2, .high = 65536}),
            field("qk_head_dim", &C::qk_head_dim, "The sum of the two.", size),
            field("v_head_dim", &C::v_head_dim, "Size of a value's head; default 128, 256 in glm4_moe_lite.", size),
            field(
                "rope_interleave", &C::rope_interleave,
                "Whether neighbours are rotated together, and not values half a head apart; default true. deepseek_v2 "
                "always does.")});
  }
  void validate(Problems& problems) const;
};

struct LatentSizes : nn::LatentHeads {
  std::int64_t query_latent = 0;  // 0: none
  std::int64_t query_size() const { return plain + rotated; }
};

struct LatentShape : GroupedShape {
  LatentSizes latent;
};
// head_size is what of a head is rotated.
LatentShape resolve(const LatentConfig& config, Problems& problems);
config::Node to_hf_config(const LatentConfig& config, const LatentShape& shape, const std::string& dtype);

class LatentAttention final : public Module {
 public:
  LatentAttention(const LatentShape& shape, const LlamaRopes& ropes, std::int64_t layer);
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const;
  void describe(nn::PreNormLayer& layer, const Pass& pass) const;

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias = false);
  Tensor turned(const Tensor& x_NHP, const ops::RopeTable& table) const;

  const LatentShape& s;
  const nn::Rope& rope_;
  nn::Linear* q_proj = nullptr;  // without a latent of queries
  nn::Linear *q_a_proj = nullptr, *q_b_proj = nullptr;
  nn::RmsNorm* q_a_layernorm = nullptr;
  nn::Linear& kv_a_proj = projection("kv_a_proj_with_mqa", s.hidden, s.latent.latent + s.latent.rotated, s.qkv_bias);
  nn::RmsNorm& kv_a_layernorm;
  nn::Linear& kv_b_proj = projection("kv_b_proj", s.latent.latent, s.heads*(s.latent.plain + s.latent.values));
  nn::Linear& o_proj = projection("o_proj", s.heads* s.latent.values, s.hidden, s.output_bias);
};

}  // namespace hone::models
