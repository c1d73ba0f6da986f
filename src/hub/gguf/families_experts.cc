// Models with routed experts.
#include "hub/gguf/changes.h"

namespace hone::gguf {
namespace {

constexpr Rule kExperts[] = {{"model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
                             {"model.layers.{}.mlp.experts.[].gate_proj", "blk.{}.ffn_gate_exps"},
                             {"model.layers.{}.mlp.experts.[].up_proj", "blk.{}.ffn_up_exps"},
                             {"model.layers.{}.mlp.experts.[].down_proj", "blk.{}.ffn_down_exps"}};
constexpr Rule kSharedExpert[] = {{"model.layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp"},
                                  {"model.layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp"},
                                  {"model.layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp"},
                                  {"model.layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp"}};
constexpr Rule kMixtral[] = {{"model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"},
                             {"model.layers.{}.block_sparse_moe.experts.[].w1", "blk.{}.ffn_gate_exps"},
                             {"model.layers.{}.block_sparse_moe.experts.[].w2", "blk.{}.ffn_down_exps"},
                             {"model.layers.{}.block_sparse_moe.experts.[].w3", "blk.{}.ffn_up_exps"}};
constexpr Rule kGptOss[] = {
    {"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"},
    {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    {"model.layers.{}.mlp.router", "blk.{}.ffn_gate_inp"},
    {"model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", even_rows},
    {"model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", odd_rows},
    {"model.layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_gate_exps.bias", even_entries},
    {"model.layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_up_exps.bias", odd_entries},
    {"model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", transposed},
    {"model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias"}};

void qwen_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  keys.size("expert_feed_forward_length", config.integer("moe_intermediate_size"));
  if (config.has("shared_expert_intermediate_size"))
    keys.size("expert_shared_feed_forward_length", config.integer("shared_expert_intermediate_size"));
}

// llama.cpp has experts in every layer.
std::string qwen_lack(const Config& config) {
  const auto step = config.maybe_integer({"decoder_sparse_step"});
  const bool plain = config.has("mlp_only_layers") && !config.at("mlp_only_layers").empty();
  return plain || step.value_or(1) != 1 ? "layers without experts" : "";
}

// Where config.json does not ask for it, llama.cpp makes the chosen experts' weights add up to one all the same.
std::string qwen3_lack(const Config& config) {
  if (const std::string lack = attention_bias_lack(config); !lack.empty()) return lack;
  if (const std::string lack = qwen_lack(config); !lack.empty()) return lack;
  return config.flag("norm_topk_prob", false) ? "" : "experts' weights that do not add up to one (norm_topk_prob)";
}
std::string qwen2_lack(const Config& config) {
  if (const std::string lack = head_size_lack(config); !lack.empty()) return lack;
  if (const std::string lack = qwen_lack(config); !lack.empty()) return lack;
  return config.flag("norm_topk_prob", false) ? "experts' weights that add up to one (norm_topk_prob)" : "";
}

std::string gpt_oss_lack(const Config& config) {
  return config.flag("attention_bias", true) ? "" : "attention_bias false";
}

void gpt_oss_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  sliding_keys(keys, config, 2);
  keys.size("expert_feed_forward_length", config.integer("intermediate_size"));
}

}  // namespace

std::vector<Family> expert_families() {
  const std::vector<std::string_view> ropes{"default", "linear", "yarn", "llama3"};
  return {
      {"mixtral", "llama", {kMixtral, permuted_heads(), llama_rules()}, llama_keys, "silu", llama3_factors, ropes},
      {"qwen2_moe", "qwen2moe", {kExperts, kSharedExpert, plain_heads(), llama_rules()}, qwen_keys, "silu", nullptr,
       {"default", "linear", "yarn"}, qwen2_lack},
      {"qwen3_moe", "qwen3moe", {kExperts, plain_heads(), head_norms(), llama_rules()}, qwen_keys, "silu", nullptr,
       {"default", "linear", "yarn"}, qwen3_lack},
      {"gpt_oss", "gpt-oss", {kGptOss, plain_heads(), llama_rules()}, gpt_oss_keys, "", nullptr,
       {"default", "linear", "yarn"}, gpt_oss_lack},
  };
}

}  // namespace hone::gguf
