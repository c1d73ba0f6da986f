// Models with blocks of their own.
#include <fmt/format.h>

#include <cmath>

#include "hub/gguf/changes.h"

namespace hone::gguf {
namespace {

// --- GPT-2: products with the weight's columns.

constexpr Rule kGpt2[] = {{"transformer.wte", "token_embd"},
                          {"transformer.wpe", "position_embd"},
                          {"transformer.ln_f", "output_norm"},
                          {"lm_head", "output"},
                          {"transformer.h.{}.ln_1", "blk.{}.attn_norm"},
                          {"transformer.h.{}.ln_2", "blk.{}.ffn_norm"}};
constexpr Rule kGpt2Products[] = {{"transformer.h.{}.attn.c_attn", "blk.{}.attn_qkv"},
                                  {"transformer.h.{}.attn.c_proj", "blk.{}.attn_output"},
                                  {"transformer.h.{}.mlp.c_fc", "blk.{}.ffn_up"},
                                  {"transformer.h.{}.mlp.c_proj", "blk.{}.ffn_down"}};
constexpr Rule kGpt2Matrices[] = {{"transformer.h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight", transposed},
                                  {"transformer.h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight", transposed},
                                  {"transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight", transposed},
                                  {"transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight", transposed}};

void gpt2_keys(ArchKeys& keys, const Config& config) {
  keys.size("block_count", config.layers());
  keys.size("context_length", config.integer("n_positions"));
  keys.size("embedding_length", config.integer("n_embd"));
  keys.size("feed_forward_length", config.maybe_integer({"n_inner"}).value_or(4 * config.integer("n_embd")));
  keys.size("attention.head_count", config.heads());
  keys.number("attention.layer_norm_epsilon", config.number("layer_norm_epsilon"));
}

std::string gpt2_lack(const Config& config) {
  if (!config.flag("scale_attn_weights", true)) return "scale_attn_weights false";
  return config.flag("scale_attn_by_inverse_layer_idx", false) ? "scale_attn_by_inverse_layer_idx" : "";
}

// --- GPT-NeoX

constexpr Rule kNeox[] = {
    {"gpt_neox.embed_in", "token_embd"},
    {"gpt_neox.final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"lm_head", "output"},
    {"gpt_neox.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {"gpt_neox.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {"gpt_neox.layers.{}.attention.query_key_value", "blk.{}.attn_qkv", heads_apart},
    {"gpt_neox.layers.{}.attention.dense", "blk.{}.attn_output"},
    {"gpt_neox.layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up"},
    {"gpt_neox.layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down"}};

std::int64_t rotated(const Config& config, double absent) {
  const Config rope = config.rope();
  const double share = rope.has("partial_rotary_factor") ? rope.number("partial_rotary_factor") : absent;
  return static_cast<std::int64_t>(share * static_cast<double>(config.head_size()));
}

void neox_keys(ArchKeys& keys, const Config& config) {
  keys.size("context_length", config.integer("max_position_embeddings"));
  keys.size("embedding_length", config.integer("hidden_size"));
  keys.size("block_count", config.layers());
  keys.size("feed_forward_length", config.integer("intermediate_size"));
  keys.size("rope.dimension_count", rotated(config, 1));
  keys.size("attention.head_count", config.heads());
  keys.flag("use_parallel_residual", config.flag("use_parallel_residual", true));
  keys.number("attention.layer_norm_epsilon", config.number("layer_norm_eps"));
  rope_keys(keys, config);
}

std::string neox_lack(const Config& config) {
  if (!config.flag("attention_bias", true)) return "attention_bias false";
  return config.flag("tie_word_embeddings", false) ? "a head that is the table of tokens (tie_word_embeddings)" : "";
}

// --- StarCoder 2, StableLM, Command R

constexpr Rule kStarcoder2[] = {{"model.layers.{}.mlp.c_fc", "blk.{}.ffn_up"},
                                {"model.layers.{}.mlp.c_proj", "blk.{}.ffn_down"}};
constexpr Rule kStablelm[] = {{"model.layers.{}.self_attn.q_layernorm.norms.[]", "blk.{}.attn_q_norm"},
                              {"model.layers.{}.self_attn.k_layernorm.norms.[]", "blk.{}.attn_k_norm"}};

void starcoder2_keys(ArchKeys& keys, const Config& config) { common_keys(keys, config); }
std::string starcoder2_lack(const Config& config) { return config.flag("use_bias", true) ? "" : "use_bias false"; }

void stablelm_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  keys.size("rope.dimension_count", rotated(config, 0.25));
  keys.flag("use_parallel_residual", config.flag("use_parallel_residual", true));
}

std::string stablelm_lack(const Config& config) {
  return config.flag("tie_word_embeddings", false) ? "a head that is the table of tokens (tie_word_embeddings)" : "";
}

void cohere_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  keys.number("logit_scale", config.number("logit_scale"));
  keys.set("rope.scaling.type", std::string("none"));
}

// --- Phi 3

constexpr Rule kPhi3[] = {{"model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv"},
                          {"model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up"}};

std::int64_t phi3_length(const Config& config) {
  const Config rope = config.rope();
  if (rope.has("original_max_position_embeddings")) return rope.integer("original_max_position_embeddings");
  return config.maybe_integer({"original_max_position_embeddings"}).value_or(config.integer("max_position_embeddings"));
}

void phi3_keys(ArchKeys& keys, const Config& config) {
  const std::int64_t length = phi3_length(config);
  nlohmann::json json = config.json();
  json.erase("head_dim");
  if (config.rope_type() == "longrope") {
    const double scale = config.number("max_position_embeddings") / static_cast<double>(length);
    const double factor = scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(static_cast<double>(length))) : 1;
    keys.number("rope.scaling.attn_factor", factor);
    json["rope_parameters"]["rope_type"] = "default";  // llama.cpp knows it by its factors
  }
  common_keys(keys, Config(json));
  keys.size("rope.scaling.original_context_length", length);
  keys.size("rope.dimension_count", rotated(config, 1));
  keys.size("attention.sliding_window", config.maybe_integer({"sliding_window"}).value_or(0));
}

std::vector<Extra> phi3_factors(const Config& config) {
  std::vector<Extra> made;
  const Config rope = config.rope();
  for (const auto& [name, key] :
       {std::pair{"rope_factors_long.weight", "long_factor"}, {"rope_factors_short.weight", "short_factor"}})
    if (rope.has(key)) made.push_back({name, rope.at(key).get<std::vector<float>>()});
  return made;
}

std::string phi3_lack(const Config& config) {
  if (config.rope_type() != "longrope") return "";
  return config.rope().has("attention_factor") ? "an attention_factor of its own" : "";
}

// --- LFM 2

constexpr Rule kLfm2[] = {{"model.embedding_norm", "token_embd_norm"},
                          {"model.layers.{}.operator_norm", "blk.{}.attn_norm"},
                          {"model.layers.{}.ffn_norm", "blk.{}.ffn_norm"},
                          {"model.layers.{}.feed_forward.w1", "blk.{}.ffn_gate"},
                          {"model.layers.{}.feed_forward.w2", "blk.{}.ffn_down"},
                          {"model.layers.{}.feed_forward.w3", "blk.{}.ffn_up"},
                          {"model.layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm"},
                          {"model.layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm"},
                          {"model.layers.{}.self_attn.out_proj", "blk.{}.attn_output"},
                          {"model.layers.{}.conv.in_proj", "blk.{}.shortconv.in_proj"},
                          {"model.layers.{}.conv.out_proj", "blk.{}.shortconv.out_proj"},
                          {"model.layers.{}.conv.conv", "blk.{}.shortconv.conv", squeezed}};

void lfm2_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  std::vector<std::int32_t> heads;
  for (const nlohmann::json& type : config.at("layer_types"))
    heads.push_back(type == "conv" ? 0 : static_cast<std::int32_t>(config.kv_heads()));
  keys.set("attention.head_count_kv", heads);
  keys.size("vocab_size", config.integer("vocab_size"));
  keys.size("shortconv.l_cache", config.integer("conv_L_cache"));
  keys.number("attention.layer_norm_rms_epsilon", config.number("norm_eps"));
  std::int64_t inner = config.maybe_integer({"block_ff_dim", "intermediate_size"}).value_or(0);
  if (config.flag("block_auto_adjust_ff_dim", true)) {
    const std::int64_t of = config.integer("block_multiple_of");
    inner = 2 * inner / 3;
    if (config.has("block_ffn_dim_multiplier"))
      inner = static_cast<std::int64_t>(config.number("block_ffn_dim_multiplier") * static_cast<double>(inner));
    inner = of * ((inner + of - 1) / of);
  }
  keys.size("feed_forward_length", inner);
}

std::string lfm2_lack(const Config& config) {
  return config.flag("conv_bias", false) ? "conv_bias" : head_size_lack(config);
}

// --- Qwen 3.5: values of several heads belong to one key's; llama.cpp has the first of all keys, then the second ...

at::Tensor tiled(const at::Tensor& whole, std::int64_t dim, const Config& config, std::int64_t size) {
  const std::int64_t keys = config.integer("linear_num_key_heads"),
                     each = config.integer("linear_num_value_heads") / keys;
  std::vector<std::int64_t> parts(whole.sizes().begin(), whole.sizes().begin() + dim);
  parts.insert(parts.end(), {keys, each, size});
  parts.insert(parts.end(), whole.sizes().begin() + dim + 1, whole.sizes().end());
  return whole.reshape(parts).transpose(dim, dim + 1).reshape(whole.sizes());
}
at::Tensor tiled_values(const at::Tensor& whole, const Config& config) {
  return tiled(whole, 0, config, config.integer("linear_value_head_dim"));
}
at::Tensor tiled_inputs(const at::Tensor& whole, const Config& config) {
  return tiled(whole, 1, config, config.integer("linear_value_head_dim"));
}
at::Tensor tiled_heads(const at::Tensor& whole, const Config& config) { return tiled(whole, 0, config, 1); }
at::Tensor tiled_memory(const at::Tensor& whole, const Config& config) {
  return tiled_heads(minus_exponential(whole, config), config);
}
// Queries and keys stay as they are before the values.
at::Tensor tiled_last(const at::Tensor& whole, const Config& config) {
  const std::int64_t first = 2 * config.integer("linear_key_head_dim") * config.integer("linear_num_key_heads");
  return at::cat({whole.narrow(0, 0, first), tiled_values(whole.narrow(0, first, whole.size(0) - first), config)});
}
at::Tensor tiled_taps(const at::Tensor& whole, const Config& config) {
  return tiled_last(whole.reshape({whole.size(0), whole.size(-1)}), config);
}

constexpr Rule kQwen35[] = {{"model.norm", "output_norm", plus_one},
                            {"model.layers.{}.input_layernorm", "blk.{}.attn_norm", plus_one},
                            {"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", plus_one},
                            {"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", plus_one},
                            {"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", plus_one},
                            {"model.layers.{}.linear_attn.in_proj_qkv", "blk.{}.attn_qkv", tiled_last},
                            {"model.layers.{}.linear_attn.in_proj_z", "blk.{}.attn_gate", tiled_values},
                            {"model.layers.{}.linear_attn.in_proj_a", "blk.{}.ssm_alpha", tiled_heads},
                            {"model.layers.{}.linear_attn.in_proj_b", "blk.{}.ssm_beta", tiled_heads},
                            {"model.layers.{}.linear_attn.conv1d", "blk.{}.ssm_conv1d", tiled_taps},
                            {"model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a", tiled_memory},
                            {"model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias", tiled_heads},
                            {"model.layers.{}.linear_attn.norm", "blk.{}.ssm_norm"},
                            {"model.layers.{}.linear_attn.out_proj", "blk.{}.ssm_out", tiled_inputs}};

std::string qwen35_lack(const Config& config) {
  const bool same = config.integer("linear_key_head_dim") == config.integer("linear_value_head_dim");
  return same ? attention_bias_lack(config) : "linear_key_head_dim other than linear_value_head_dim";
}

void qwen35_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  const std::int64_t values = config.integer("linear_num_value_heads");
  keys.size("ssm.conv_kernel", config.integer("linear_conv_kernel_dim"));
  keys.size("ssm.state_size", config.integer("linear_key_head_dim"));
  keys.size("ssm.group_count", config.integer("linear_num_key_heads"));
  keys.size("ssm.time_step_rank", values);
  keys.size("ssm.inner_size", config.integer("linear_value_head_dim") * values);
  std::vector<bool> recurrent;
  for (const nlohmann::json& type : config.at("layer_types")) recurrent.push_back(type == "linear_attention");
  keys.set("attention.recurrent_layers", recurrent);
  keys.size("full_attention_interval", config.maybe_integer({"full_attention_interval"}).value_or(4));
  keys.size("rope.dimension_count", rotated(config, 0.25));
  std::vector<std::int32_t> sections{11, 11, 10};
  if (const Config rope = config.rope(); rope.has("mrope_section"))
    sections = rope.at("mrope_section").get<std::vector<std::int32_t>>();
  sections.resize(4);
  keys.set("rope.dimension_sections", sections);
}

}  // namespace

std::vector<Family> other_families() {
  const std::vector<std::string_view> plain_rope{"default"};
  return {
      {"gpt2", "gpt2", {kGpt2Matrices, kGpt2Products, kGpt2}, gpt2_keys, "gelu_new", nullptr, plain_rope, gpt2_lack},
      {"gpt_neox", "gptneox", {kNeox}, neox_keys, "gelu", nullptr, {"default", "linear", "yarn"}, neox_lack},
      {"starcoder2", "starcoder2", {kStarcoder2, plain_heads(), llama_rules()}, starcoder2_keys, "gelu_pytorch_tanh",
       nullptr, {"default", "linear", "yarn"}, starcoder2_lack},
      {"stablelm", "stablelm", {kStablelm, plain_heads(), llama_rules()}, stablelm_keys, "silu", nullptr,
       {"default", "linear", "yarn"}, stablelm_lack},
      {"cohere", "command-r", {plain_heads(), head_norms(), llama_rules()}, cohere_keys, "silu", nullptr, plain_rope,
       own_head_lack},
      {"phi3", "phi3", {kPhi3, llama_rules()}, phi3_keys, "silu", phi3_factors,
       {"default", "longrope"}, phi3_lack},
      {"lfm2", "lfm2", {kLfm2, plain_heads(), llama_rules()}, lfm2_keys, "", nullptr, plain_rope, lfm2_lack},
      {"qwen3_5_text", "qwen35", {kQwen35, plain_heads(), llama_rules()}, qwen35_keys, "silu", nullptr, plain_rope,
       qwen35_lack},
  };
}

}  // namespace hone::gguf
