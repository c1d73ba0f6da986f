// Other names of keys, keys that must say what the model does anyway, and those without effect.
#include "hub/published_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/error.h"
#include "hone/layers.h"
#include "nn/rope.h"

namespace hone::hub {
namespace {

using config::Node;
using Pair = std::pair<std::string_view, std::string_view>;

constexpr auto kNomicNames = std::to_array<Pair>({{"n_embd", "hidden_size"},
                                                  {"n_layer", "num_hidden_layers"},
                                                  {"n_head", "num_attention_heads"},
                                                  {"n_inner", "intermediate_size"},
                                                  {"max_trained_positions", "max_position_embeddings"},
                                                  {"layer_norm_epsilon", "layer_norm_eps"},
                                                  {"attn_pdrop", "attention_probs_dropout_prob"},
                                                  {"resid_pdrop", "hidden_dropout_prob"},
                                                  {"rotary_emb_base", "rope_theta"}});
// What each must say, where it says something.
constexpr auto kNomicFacts = std::to_array<Pair>({{"activation_function", "swiglu"},
                                                  {"causal", "false"},
                                                  {"mlp_fc1_bias", "false"},
                                                  {"mlp_fc2_bias", "false"},
                                                  {"moe_every_n_layers", "0"},
                                                  {"num_experts", "0"},
                                                  {"parallel_block", "false"},
                                                  {"prenorm", "false"},
                                                  {"qkv_proj_bias", "false"},
                                                  {"rotary_emb_fraction", "1.0"},
                                                  {"rotary_emb_interleaved", "false"},
                                                  {"scale_attn_by_inverse_layer_idx", "false"},
                                                  {"scale_attn_weights", "true"},
                                                  {"use_rms_norm", "false"}});
// rotary_scaling_factor acts beyond the trained length alone, which is the longest here.
constexpr auto kNomicRest = std::to_array<std::string_view>(
    {"dense_seq_output", "expert_choice_router", "ffn_div", "fused_bias_fc", "fused_dropout_add_ln",
     "last_layer_subset", "moe_normalize_expert_weights", "moe_resid_pdrop", "moe_top_k", "n_ctx", "n_positions",
     "num_shared_experts", "pad_vocab_size_multiple", "parallel_block_tied_norm", "reorder_and_upcast_attn",
     "rotary_emb_scale_base", "rotary_scaling_factor", "router_aux_loss_coef", "summary_activation",
     "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "use_flash_attn",
     "use_xentropy"});
constexpr auto kNewFacts = std::to_array<Pair>({{"layer_norm_type", "layer_norm"},
                                                {"logn_attention_clip1", "false"},
                                                {"logn_attention_scale", "false"},
                                                {"position_embedding_type", "rope"}});
constexpr auto kNewRest =
    std::to_array<std::string_view>({"pack_qkv", "unpad_inputs", "use_memory_efficient_attention"});

template <std::size_t N>
bool is_one(const std::array<std::string_view, N>& all, std::string_view key) {
  return std::find(all.begin(), all.end(), key) != all.end();
}
template <std::size_t N>
std::optional<std::string_view> found(const std::array<Pair, N>& all, std::string_view key) {
  const auto place = std::find_if(all.begin(), all.end(), [&](const Pair& pair) { return pair.first == key; });
  return place == all.end() ? std::nullopt : std::optional(place->second);
}

bool says(const Node& config, std::string_view key, std::string_view text) {
  const Node* value = config.find(key);
  return value && value->kind() == Node::Kind::scalar && value->text() == text;
}
bool is_equal(const Node& value, std::string_view expected) {
  if (value.kind() != Node::Kind::scalar) return false;
  const auto number = parse_double(value.text()), wanted = parse_double(expected);
  return value.text() == expected || (number && wanted && *number == *wanted);
}
Node text(std::string_view value) { return Node::scalar(std::string(value), /*quoted=*/true); }

void require_fact(std::string_view key, const Node& value, std::string_view expected, const char* model) {
  if (value.is_null() || is_equal(value, expected)) return;
  throw Error(ErrorKind::config, fmt::format("{}: got {}, expected {}", key,
                                             value.kind() == Node::Kind::scalar ? value.text() : "a list or a section",
                                             expected))
      .hint(fmt::format("hone has {} as transformers has it", model));
}

Node nomic(const Node& config) {
  Node made = Node::map({}, config.mark());
  for (const auto& [key, value] : config.entries()) {
    if (const auto expected = found(kNomicFacts, key)) {
      require_fact(key, value, *expected, "nomic_bert");
    } else if (const auto own = found(kNomicNames, key)) {
      if (!value.is_null()) made.at_or_add(std::string(*own)) = value;
    } else if (key == "embd_pdrop") {
      const Node* other = config.find("resid_pdrop");  // transformers has one share for both
      if (other) require_fact(key, value, other->text(), "nomic_bert");
    } else if (!is_one(kNomicRest, key)) {
      made.at_or_add(key) = value;
    }
  }
  if (const Node* longest = config.find("n_positions"); longest && !made.find("max_position_embeddings"))
    made.at_or_add("max_position_embeddings") = *longest;
  return made;
}

// Frequencies of a base times the factor, all of them divided by a power of it.
std::optional<Node> scaled_rope(const Node& config) {
  const Node* scaling = config.find("rope_scaling");
  if (!scaling || !scaling->is_map()) return std::nullopt;
  if (!says(*scaling, "type", "ntk") && !says(*scaling, "rope_type", "ntk")) return std::nullopt;
  const auto number = [&](const Node& where, const char* key, double usual) {
    const Node* value = where.find(key);
    return value && value->kind() == Node::Kind::scalar ? parse_double(value->text()).value_or(usual) : usual;
  };
  const double factor = number(*scaling, "factor", 1), theta = number(config, "rope_theta", 10000),
               size = number(config, "hidden_size", 768) / number(config, "num_attention_heads", 12);
  for (const auto& [key, value] : scaling->entries())
    if (key != "type" && key != "rope_type" && key != "factor")
      require_fact("rope_scaling." + key, value, "null", "gte");
  Node rope = Node::map();
  rope.at_or_add("rope_type") = text("linear");
  rope.at_or_add("factor") = nn::hf_float(std::pow(factor, 2 / size));
  rope.at_or_add("rope_theta") = nn::hf_float(theta * factor);
  return rope;
}

Node gte(const Node& config) {
  Node made = Node::map({}, config.mark());
  const std::optional<Node> rope = scaled_rope(config);
  for (const auto& [key, value] : config.entries()) {
    if (const auto expected = found(kNewFacts, key)) require_fact(key, value, *expected, "gte");
    else if (rope && (key == "rope_scaling" || key == "rope_theta")) continue;
    else if (!is_one(kNewRest, key)) made.at_or_add(key) = value;
  }
  if (rope) made.at_or_add("rope_parameters") = *rope;
  else if (!made.find("rope_theta") && !made.find("rope_parameters"))
    made.at_or_add("rope_theta") = nn::hf_float(10000);
  made.at_or_add("model_type") = text("gte");
  Node* classes = made.find("architectures") ? &made.at_or_add("architectures") : nullptr;
  if (!classes || classes->kind() != Node::Kind::list) return made;
  std::vector<Node> renamed;
  for (const Node& name : classes->items())
    renamed.push_back(name.text().starts_with("New") ? text("Gte" + name.text().substr(3)) : name);
  *classes = Node::list(std::move(renamed));
  return made;
}

}  // namespace

Node in_transformers_form(const Node& config) {
  if (!config.is_map()) return config;
  if (says(config, "model_type", "nomic_bert") && config.find("n_embd")) return nomic(config);
  if (says(config, "model_type", "new") && config.find("layer_norm_type")) return gte(config);
  return config;
}

}  // namespace hone::hub
