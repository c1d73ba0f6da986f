// Gemma 1 to 4. Gemma 1 to 3 keep what a norm adds to one; llama.cpp the sum.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hub/gguf/changes.h"

namespace hone::gguf {
namespace {

constexpr Rule kNorms[] = {{"model.norm", "output_norm", plus_one},
                           {"model.layers.{}.input_layernorm", "blk.{}.attn_norm", plus_one}};
constexpr Rule kOneNorm[] = {{"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", plus_one}};
constexpr Rule kFourNorms[] = {{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", plus_one},
                               {"model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", plus_one},
                               {"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", plus_one}};
constexpr Rule kGemmaHeadNorms[] = {{"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", plus_one},
                                    {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", plus_one}};
constexpr Rule kGemma4[] = {
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
    {"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
    {"model.layers.{}.post_feedforward_layernorm_1", "blk.{}.post_ffw_norm_1"},
    {"model.layers.{}.post_feedforward_layernorm_2", "blk.{}.post_ffw_norm_2"},
    {"model.layers.{}.pre_feedforward_layernorm_2", "blk.{}.pre_ffw_norm_2"},
    {"model.layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight"},
    {"model.layers.{}.per_layer_input_gate", "blk.{}.inp_gate"},
    {"model.layers.{}.per_layer_projection", "blk.{}.proj"},
    {"model.layers.{}.post_per_layer_input_norm", "blk.{}.post_norm"},
    {"model.layers.{}.router.proj", "blk.{}.ffn_gate_inp"},
    {"model.layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale"},
    {"model.layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale"},
    {"model.layers.{}.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps.weight"},
    {"model.layers.{}.experts.down_proj", "blk.{}.ffn_down_exps.weight"},
    {"model.embed_tokens_per_layer", "per_layer_token_embd"},
    {"model.per_layer_model_projection", "per_layer_model_proj"},
    {"model.per_layer_projection_norm", "per_layer_proj_norm"}};

void gemma2_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  keys.number("attn_logit_softcapping", config.number("attn_logit_softcapping"));
  keys.number("final_logit_softcapping", config.number("final_logit_softcapping"));
  sliding_keys(keys, config, 2);
}

void gemma3_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  if (config.has("final_logit_softcapping"))
    keys.number("final_logit_softcapping", config.number("final_logit_softcapping"));
  sliding_keys(keys, config, 2);
}

// The layers of Gemma 4 that share the keys and values of earlier ones may have an MLP twice as wide.
void gemma4_wide_keys(ArchKeys& keys, const Config& config, std::int64_t shared) {
  if (!config.flag("use_double_wide_mlp", false)) return;
  std::vector<std::int32_t> sizes;
  for (std::int64_t i = 0; i < config.layers(); ++i)
    sizes.push_back(static_cast<std::int32_t>(config.integer("intermediate_size") *
                                              (i < config.layers() - shared ? 1 : 2)));
  keys.set("feed_forward_length", sizes);
}

// Of the layers of Gemma 4 that see all tokens: by a key of their own, or layer by layer; nothing: as the others'.
std::optional<std::int64_t> of_full_layers(const Config& config, const char* key, const char* in_layer) {
  if (config.has(key)) return config.integer(key);
  if (!config.has("per_layer_config")) return std::nullopt;
  const std::vector<bool> slides = config.sliding_layers();
  for (const auto& [layer, own] : config.at("per_layer_config").items()) {
    const auto index = static_cast<std::size_t>(parse_int(layer).value_or(0));
    if (index < slides.size() && !slides[index] && own.contains(in_layer)) return own[in_layer].get<std::int64_t>();
  }
  return std::nullopt;
}
std::int64_t full_head_size(const Config& config) {
  return of_full_layers(config, "global_head_dim", "head_dim").value_or(config.integer("head_dim"));
}

void gemma4_head_keys(ArchKeys& keys, const Config& config) {
  const std::int64_t size = full_head_size(config), sliding = config.integer("head_dim");
  keys.size("attention.key_length", size), keys.size("attention.value_length", size);
  keys.size("attention.key_length_swa", sliding), keys.size("attention.value_length_swa", sliding);
  keys.size("rope.dimension_count", size), keys.size("rope.dimension_count_swa", sliding);
  const auto full = of_full_layers(config, "num_global_key_value_heads", "num_key_value_heads");
  if (!full) return;
  std::vector<std::int32_t> heads;
  for (const bool slides : config.sliding_layers())
    heads.push_back(static_cast<std::int32_t>(slides ? config.kv_heads() : *full));
  keys.set("attention.head_count_kv", heads);
}

void gemma4_keys(ArchKeys& keys, const Config& config) {
  gemma3_keys(keys, config);
  const std::int64_t shared = config.maybe_integer({"num_kv_shared_layers"}).value_or(0);
  keys.size("attention.shared_kv_layers", shared);
  keys.size("embedding_length_per_layer_input", config.maybe_integer({"hidden_size_per_layer_input"}).value_or(0));
  keys.set("attention.sliding_window_pattern", config.sliding_layers());
  if (const auto inner = config.maybe_integer({"expert_intermediate_size", "moe_intermediate_size"}))
    keys.size("expert_feed_forward_length", *inner);
  gemma4_wide_keys(keys, config, shared);
  gemma4_head_keys(keys, config);
}

// Of a head that sees all tokens only a part is rotated: what is not gets a factor that stops it.
std::vector<Extra> gemma4_factors(const Config& config) {
  const std::int64_t size = full_head_size(config);
  const auto rotated = static_cast<std::int64_t>(static_cast<double>(size) *
                                                 config.rope().number("partial_rotary_factor") / 2);
  Extra extra{"rope_freqs.weight", std::vector<float>(static_cast<std::size_t>(size / 2), 1e30f)};
  std::fill_n(extra.values.begin(), rotated, 1.0f);
  return {extra};
}

// llama.cpp divides scores by the root of head_dim, but in the largest models by that of hidden_size / heads.
std::string scale_lack(const Config& config, std::int64_t layers_of_27b) {
  const std::int64_t size = config.layers() == layers_of_27b ? config.integer("hidden_size") / config.heads()
                                                             : config.head_size();
  const double got = config.maybe_number({"query_pre_attn_scalar"}).value_or(256);
  return got == static_cast<double>(size) ? "" : fmt::format("query_pre_attn_scalar {}, expected {}", got, size);
}

std::string gemma2_lack(const Config& config) {
  if (const std::string lack = own_head_lack(config); !lack.empty()) return lack;
  const bool capped = config.has("attn_logit_softcapping") && config.has("final_logit_softcapping");
  return capped ? scale_lack(config, 46) : "scores that are not capped";
}

std::string gemma4_lack(const Config& config) {
  if (const std::string lack = attention_bias_lack(config); !lack.empty()) return lack;
  const Config rope = config.rope();
  return rope.has("factor") && rope.number("factor") != 1 ? "a factor of proportional positions" : "";
}

std::string gemma3_lack(const Config& config) {
  if (config.has("attn_logit_softcapping")) return "attn_logit_softcapping";
  return scale_lack(config, 62);
}

}  // namespace

std::vector<Family> gemma_families() {
  constexpr std::string_view kGelu = "gelu_pytorch_tanh";
  return {
      {"gemma", "gemma", {kNorms, kOneNorm, plain_heads(), llama_rules()}, common_keys, kGelu, nullptr, {"default"},
       own_head_lack},
      {"gemma2", "gemma2", {kNorms, kFourNorms, plain_heads(), llama_rules()}, gemma2_keys, kGelu, nullptr,
       {"default"}, gemma2_lack},
      {"gemma3_text", "gemma3", {kNorms, kFourNorms, kGemmaHeadNorms, plain_heads(), llama_rules()}, gemma3_keys, kGelu,
       nullptr, {"default", "linear"}, gemma3_lack},
      {"gemma4_text", "gemma4", {kGemma4, head_norms(), plain_heads(), llama_rules()}, gemma4_keys, kGelu,
       gemma4_factors, {"proportional"}, gemma4_lack},
  };
}

}  // namespace hone::gguf
