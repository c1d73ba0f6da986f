// The table of all types, and the keys that most of them have.
#include "hub/gguf/family.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>

#include "tensor/host.h"

namespace hone::gguf {
namespace {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = [] {
    std::vector<Family> all;
    for (auto made : {llama_families(), expert_families(), gemma_families(), other_families()})
      std::move(made.begin(), made.end(), std::back_inserter(all));
    return all;
  }();
  return families;
}

void size_keys(ArchKeys& keys, const Config& config) {
  keys.size("block_count", config.layers());
  const auto copy = [&](const char* key, std::initializer_list<const char*> from) {
    if (const auto value = config.maybe_integer(from)) keys.size(key, *value);
  };
  copy("context_length", {"max_position_embeddings", "n_positions"});
  copy("embedding_length", {"hidden_size", "n_embd"});
  copy("feed_forward_length", {"intermediate_size", "n_inner"});
  copy("attention.head_count", {"num_attention_heads", "n_head"});
  copy("attention.head_count_kv", {"num_key_value_heads"});
}

void expert_keys(ArchKeys& keys, const Config& config) {
  const auto copy = [&](const char* key, std::initializer_list<const char*> from) {
    if (const auto value = config.maybe_integer(from)) keys.size(key, *value);
  };
  copy("expert_count", {"num_local_experts", "num_experts", "n_routed_experts"});
  copy("expert_used_count", {"num_experts_per_tok", "top_k_experts"});
  copy("expert_group_count", {"n_group"});
  copy("expert_group_used_count", {"topk_group"});
}

void yarn_keys(ArchKeys& keys, const Config& rope) {
  keys.size("rope.scaling.original_context_length", rope.integer("original_max_position_embeddings"));
  for (const auto& [key, from] : {std::pair{"rope.scaling.yarn_attn_factor", "attention_factor"},
                                  {"rope.scaling.yarn_beta_fast", "beta_fast"},
                                  {"rope.scaling.yarn_beta_slow", "beta_slow"}})
    if (rope.has(from)) keys.number(key, rope.number(from));
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  for (const Family& family : all_families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : all_families()) names.emplace_back(family.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

void rope_keys(ArchKeys& keys, const Config& config) {
  const Config rope = config.rope();
  const std::string type = config.rope_type();
  if (type == "linear" || type == "yarn") {
    keys.set("rope.scaling.type", type);
    keys.number("rope.scaling.factor", rope.number("factor"));
    if (type == "yarn") yarn_keys(keys, rope);
  }
  if (type == "longrope") keys.set("rope.scaling.type", type);
  if (rope.has("rope_theta")) keys.number("rope.freq_base", rope.number("rope_theta"));
  if (const auto sliding = config.sliding_rope(); sliding && sliding->has("rope_theta"))
    keys.number("rope.freq_base_swa", sliding->number("rope_theta"));
}

void common_keys(ArchKeys& keys, const Config& config) {
  size_keys(keys, config);
  rope_keys(keys, config);
  if (const auto eps = config.maybe_number({"rms_norm_eps", "norm_eps"}))
    keys.number("attention.layer_norm_rms_epsilon", *eps);
  if (const auto eps = config.maybe_number({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"}))
    keys.number("attention.layer_norm_epsilon", *eps);
  expert_keys(keys, config);
  if (!config.has("head_dim")) return;
  keys.size("attention.key_length", config.integer("head_dim"));
  keys.size("attention.value_length", config.integer("head_dim"));
}

void llama_keys(ArchKeys& keys, const Config& config) {
  common_keys(keys, config);
  keys.size("vocab_size", config.integer("vocab_size"));
  keys.size("rope.dimension_count", config.head_size());
}

void sliding_keys(ArchKeys& keys, const Config& config, std::size_t period) {
  if (!config.has("sliding_window")) return;
  keys.size("attention.sliding_window", config.integer("sliding_window"));
  const std::vector<bool> slides = config.sliding_layers();
  bool plain = true;
  for (std::size_t i = 0; i < slides.size(); ++i) plain &= period > 0 && slides[i] == ((i + 1) % period != 0);
  if (!plain) keys.set("attention.sliding_window_pattern", slides);
}

std::string head_size_lack(const Config& config) {
  const bool square = config.head_size() * config.heads() == config.maybe_integer({"hidden_size", "n_embd"});
  return square ? "" : "a head_dim other than hidden_size / num_attention_heads";
}

std::string attention_bias_lack(const Config& config) {
  return config.flag("attention_bias", false) ? "attention_bias" : "";
}

std::string own_head_lack(const Config& config) {
  return config.flag("tie_word_embeddings", true) ? "" : "a head of its own (tie_word_embeddings false)";
}

std::vector<Extra> llama3_factors(const Config& config) {
  if (config.rope_type() != "llama3") return {};
  const Config rope = config.rope();
  const std::int64_t size = config.head_size();
  const double base = rope.number("rope_theta"), factor = rope.number("factor"), low = rope.number("low_freq_factor"),
               high = rope.number("high_freq_factor"), length = rope.number("original_max_position_embeddings");
  const at::Tensor steps = at::arange(0, size, 2, at::kFloat) / static_cast<double>(size);
  const at::Tensor frequencies = at::pow(base, steps).reciprocal().contiguous();
  Extra extra{"rope_freqs.weight", {}};
  for (const float frequency : host::values<float>(frequencies)) {
    const float wave = 1.0f / frequency * static_cast<float>(2 * std::numbers::pi);
    const float smooth = (1.0f / wave * static_cast<float>(length) - static_cast<float>(low)) /
                         static_cast<float>(high - low);
    extra.values.push_back(wave < length / high  ? 1
                           : wave > length / low ? static_cast<float>(factor)
                                                 : 1 / ((1 - smooth) / static_cast<float>(factor) + smooth));
  }
  return {extra};
}

}  // namespace hone::gguf
