// Llama and what is Llama with other numbers.
#include <fmt/format.h>

#include "hub/gguf/changes.h"

namespace hone::gguf {
namespace {

constexpr Rule kLlama[] = {{"model.embed_tokens", "token_embd"},
                           {"model.norm", "output_norm"},
                           {"lm_head", "output"},
                           {"model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
                           {"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
                           {"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
                           {"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
                           {"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
                           {"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
                           {"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"}};
constexpr Rule kPlainHeads[] = {{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
                                {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"}};
constexpr Rule kPermutedHeads[] = {{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", permuted_queries},
                                   {"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", permuted_keys}};
constexpr Rule kHeadNorms[] = {{"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
                               {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"}};
// A norm behind attention where llama.cpp has one before the MLP of the same place.
constexpr Rule kPostAttentionNorm[] = {
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"}};

void granite_keys(ArchKeys& keys, const Config& config) {
  nlohmann::json json = config.json();
  json.erase("head_dim");
  llama_keys(keys, Config(json));
  for (const auto& [key, from] : {std::pair{"attention.scale", "attention_multiplier"},
                                  {"embedding_scale", "embedding_multiplier"},
                                  {"residual_scale", "residual_multiplier"},
                                  {"logit_scale", "logits_scaling"}})
    if (config.has(from) && config.number(from) != 0) keys.number(key, config.number(from));
}

void ministral3_keys(ArchKeys& keys, const Config& config) {
  llama_keys(keys, config);
  const Config rope = config.rope();
  keys.number("rope.scaling.yarn_log_multiplier", rope.number("mscale_all_dim"));
  keys.number("attention.temperature_scale", rope.number("llama_4_scaling_beta"));
}

std::string ministral3_lack(const Config& config) {
  if (config.rope_type() != "yarn") return "rotary positions without yarn";
  return "";
}

// llama.cpp leaves every fourth layer without positions, whatever the file says.
std::string smollm3_lack(const Config& config) {
  if (!config.has("no_rope_layers")) return "";
  const nlohmann::json& rotated = config.at("no_rope_layers");
  for (std::size_t i = 0; i < rotated.size(); ++i)
    if ((rotated[i] != 0) == ((i + 1) % 4 == 0))
      return fmt::format("no_rope_layers that leave out others than every fourth layer (layer {})", i);
  return "";
}

std::string arcee_lack(const Config& config) {
  return config.flag("mlp_bias", false) ? "mlp_bias" : attention_bias_lack(config);
}

std::string seed_oss_lack(const Config& config) {
  for (const char* key : {"attention_out_bias", "mlp_bias"})
    if (config.flag(key, false)) return key;
  return "";
}

std::string olmo2_lack(const Config& config) {
  const std::string lack = head_size_lack(config);
  return lack.empty() ? attention_bias_lack(config) : lack;
}

void olmo2_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  sliding_keys(keys, config, 0);
}

void exaone4_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  keys.size("vocab_size", config.integer("vocab_size"));
  sliding_keys(keys, config, 0);
}

}  // namespace

std::span<const Rule> llama_rules() { return kLlama; }
std::span<const Rule> plain_heads() { return kPlainHeads; }
std::span<const Rule> permuted_heads() { return kPermutedHeads; }
std::span<const Rule> head_norms() { return kHeadNorms; }

std::vector<Family> llama_families() {
  const std::vector<std::span<const Rule>> permuted{kPermutedHeads, kLlama}, plain{kPlainHeads, kLlama},
      normed{kPlainHeads, kHeadNorms, kLlama}, post_normed{kPostAttentionNorm, kPlainHeads, kHeadNorms, kLlama};
  const std::vector<std::string_view> ropes{"default", "linear", "yarn", "llama3"};
  return {
      {"llama", "llama", permuted, llama_keys, "silu", llama3_factors, ropes},
      {"mistral", "llama", permuted, llama_keys, "silu", llama3_factors, ropes},
      {"smollm3", "smollm3", permuted, llama_keys, "silu", llama3_factors, ropes, smollm3_lack},
      {"granite", "granite", permuted, granite_keys, "silu", llama3_factors, ropes, head_size_lack},
      {"arcee", "arcee", permuted, llama_keys, "relu2", llama3_factors, ropes, arcee_lack},
      {"ministral3", "mistral3", permuted, ministral3_keys, "silu", nullptr, {"yarn"}, ministral3_lack},
      {"qwen2", "qwen2", plain, common_keys, "silu", nullptr, {"default", "linear", "yarn"}, head_size_lack},
      {"qwen3", "qwen3", normed, common_keys, "silu", nullptr, {"default", "linear", "yarn"}, attention_bias_lack},
      {"olmo2", "olmo2", post_normed, olmo2_keys, "silu", nullptr, {"default", "linear", "yarn"}, olmo2_lack},
      {"olmo3", "olmo2", post_normed, olmo2_keys, "silu", nullptr, {"default", "linear", "yarn"}, olmo2_lack},
      {"exaone4", "exaone4", post_normed, exaone4_keys, "silu", llama3_factors, ropes, head_size_lack},
      {"seed_oss", "seed_oss", [] {
         static constexpr Rule kNorm[] = {{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"}};
         return std::vector<std::span<const Rule>>{kNorm, kPlainHeads, kLlama};
       }(), common_keys, "silu", nullptr, {"default", "linear", "yarn"}, seed_oss_lack},
  };
}

}  // namespace hone::gguf
