// Routed experts by groups: from config.json to plain numbers, and back.
#include "models/grouped_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/check_parameters.h"
#include "models/layer_of.h"
#include "models/mlp_types.h"

namespace hone::models {
namespace {

// What transformers takes for keys that are absent, and which there are. experts, per_token, shared, groups 0: nothing.
struct GroupedDefaults {
  std::int64_t experts, per_token, inner, shared, groups, chosen_groups, dense;
  double scale;
  bool normalise = true, by_softmax = false;
  bool says_dense = true, lists_types = false;  // first_k_dense_replace, mlp_layer_types
  bool guesses = true;  // files may have layers that guess further tokens, unless they say otherwise
  const char *experts_key = "n_routed_experts", *shared_key = "n_shared_experts";
};

GroupedDefaults grouped_defaults(const std::string& type) {
  if (type == "deepseek_v2") return {64, 0, 1407, 2, 0, 0, 0, 1, false, /*by_softmax=*/true, true, false, false};
  if (type == "deepseek_v3") return {256, 8, 2048, 1, 8, 4, 3, 2.5};
  if (type == "glm4_moe") return {128, 8, 1408, 1, 1, 1, 1, 1};
  if (type == "dots1") return {0, 0, 1408, 0, 1, 1, 0, 1, false, false, true, false, false};
  if (type == "solar_open") return {128, 8, 1280, 1, 1, 1, 0, 1, true, false, false, false, false};
  if (type == "exaone_moe")
    return {64, 8, 1024, 1, 1, 1, 1, 2.5, true, false, true, true, false, "num_experts", "num_shared_experts"};
  if (type == "hy_v3")
    return {192, 8, 1536, 1, 0, 0, 1, 2.826, true, false, false, true, true, "num_experts", "num_shared_experts"};
  if (type == "afmoe")
    return {64, 6, 1408, 2, 0, 0, 1, 1, true, false, true, false, false, "num_experts", "num_shared_experts"};
  if (type == "glm4v_moe_text") return {128, 8, 1408, 1, 1, 1, 1, 1, true, false, true, false, /*guesses=*/false};
  if (type == "mistral4") return {128, 4, 2048, 1, 1, 1, 0, 1, true, /*by_softmax=*/true, true, false, false};
  return {64, 4, 1536, 1, 1, 1, 1, 1.8, true, false, false, /*lists_types=*/true};  // glm4_moe_lite
}
bool is_dots(const GroupedConfig& c) { return c.model_type == "dots1"; }
bool has_method(const GroupedConfig& c) { return c.model_type == "deepseek_v2"; }  // of several

void read_sparse(const GroupedConfig& c, std::int64_t dense, const LlamaShape& llama, GroupedExperts& e,
                 Problems& problems) {
  const std::int64_t layers = std::min<std::int64_t>(llama.layers, 10000);
  for (std::int64_t i = 0; i < layers; ++i) e.sparse.push_back(i >= dense);
  if (c.mlp_layer_types) read_mlp_types(*c.mlp_layer_types, llama.layers, e.sparse, problems);
}

// Keys that say what is so anyhow.
void check_fixed(const GroupedConfig& c, const GroupedDefaults& absent, Problems& problems) {
  const auto one_of = [&](const char* key, const std::optional<std::string>& given,
                          const std::vector<std::string>& known) {
    problems.require(!given || std::find(known.begin(), known.end(), *given) != known.end(), key,
                     fmt::format("got \"{}\", expected {}", given.value_or(""), join(known, " or ")));
  };
  std::vector<std::string> scores{absent.by_softmax ? "softmax" : "sigmoid"};
  if (is_dots(c)) scores.emplace_back("noaux_tc");  // so its published files call it
  one_of("scoring_func", c.scoring_func, scores);
  if (has_method(c))
    one_of("topk_method", c.topk_method, {"greedy", "group_limited_greedy"});
  else if (absent.by_softmax)
    one_of("topk_method", c.topk_method, {c.n_group.value_or(1) == 1 ? "greedy" : "group_limited_greedy"});
  else
    one_of("topk_method", c.topk_method, {"noaux_tc"});
  problems.require(c.moe_layer_freq.value_or(1) == 1, "moe_layer_freq",
                   fmt::format("got {}, expected 1: transformers gives all layers behind the dense ones experts",
                               c.moe_layer_freq.value_or(1)));
  refuse_keys(c.model_type,
              {{"mlp_layer_types", c.mlp_layer_types && !absent.lists_types},
               {"first_k_dense_replace",
                !absent.says_dense && c.first_k_dense_replace.value_or(absent.dense) != absent.dense},
               {"router_bias_update_rate", absent.by_softmax && c.router_bias_update_rate > 0}},
              problems);
}

void check_count(const GroupedExperts& e, const LlamaShape& llama, const char* experts_key, Problems& problems) {
  const auto layers = static_cast<double>(std::count(e.sparse.begin(), e.sparse.end(), true));
  const double experts = layers * static_cast<double>(e.count), inner = static_cast<double>(e.inner);
  check_parameters(3.0 * static_cast<double>(llama.hidden) * inner * (experts + layers * static_cast<double>(e.shared)),
                   experts_key, problems);
  check_all_experts(experts, experts_key, problems);
}

ops::GroupedRule rule_of(const GroupedConfig& c, const GroupedDefaults& absent, std::int64_t per_token,
                         Problems& problems) {
  ops::GroupedRule rule{.per_token = per_token, .scale = c.routed_scaling_factor.value_or(absent.scale)};
  if (!absent.by_softmax) rule.score = ops::GroupedRule::Score::sigmoid;
  if (!has_method(c)) rule.best_of_group = 2;
  rule.normalise = !has_method(c) && c.norm_topk_prob.value_or(absent.normalise);
  if (has_method(c) && c.topk_method.value_or("greedy") == "greedy") return rule;  // groups have no effect
  problems.require(!has_method(c) || (c.n_group && c.topk_group), "n_group",
                   "missing; topk_method group_limited_greedy needs n_group and topk_group");
  rule.groups = c.n_group.value_or(std::max<std::int64_t>(1, absent.groups));
  rule.chosen_groups = c.topk_group.value_or(std::max<std::int64_t>(1, absent.chosen_groups));
  return rule;
}

}  // namespace

void check_groups(const GroupedExperts& e, const char* experts_key, Problems& problems) {
  const ops::GroupedRule& rule = e.router.rule;
  const bool divides = rule.groups > 0 && e.count % rule.groups == 0;
  problems.require(divides, experts_key,
                   fmt::format("got {}, expected a multiple of n_group ({})", e.count, rule.groups));
  problems.require(rule.chosen_groups <= rule.groups, "topk_group",
                   fmt::format("got {}, expected at most n_group ({})", rule.chosen_groups, rule.groups));
  if (!divides) return;
  const std::int64_t of_group = e.count / rule.groups, there = rule.chosen_groups * of_group;
  problems.require(of_group >= rule.best_of_group, "n_group",
                   fmt::format("got {} groups of {} experts, expected at least {} in each", rule.groups, of_group,
                               rule.best_of_group));
  problems.require(e.per_token <= there, "num_experts_per_tok",
                   fmt::format("got {}, expected at most as many as there are experts in topk_group groups ({})",
                               e.per_token, there));
}

GroupedExperts read_grouped_experts(const GroupedConfig& c, const LlamaShape& llama, Problems& problems) {
  const GroupedDefaults absent = grouped_defaults(c.model_type);
  GroupedExperts e;
  check_fixed(c, absent, problems);
  const auto needed = [&](const char* key, const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    problems.require(otherwise > 0 || given, key, "missing; " + c.model_type + " has no default for it");
    return given.value_or(std::max<std::int64_t>(1, otherwise));
  };
  const std::size_t before = problems.size();
  e.count = needed(absent.experts_key, c.n_routed_experts, absent.experts);
  e.per_token = needed("num_experts_per_tok", c.num_experts_per_tok, absent.per_token);
  e.inner = c.moe_intermediate_size.value_or(absent.inner);
  e.shared = needed(absent.shared_key, c.n_shared_experts, absent.shared);
  read_sparse(c, c.first_k_dense_replace.value_or(absent.dense), llama, e, problems);
  e.router = {.rule = rule_of(c, absent, e.per_token, problems),
              .corrected = !absent.by_softmax,
              .correction_rate = c.router_bias_update_rate};
  e.guessing = c.num_nextn_predict_layers.value_or(absent.guesses ? 1 : 0);
  if (problems.size() > before) return e;  // of a number that is missing nothing else can be said
  check_groups(e, absent.experts_key, problems);
  check_count(e, llama, absent.experts_key, problems);
  return e;
}

void write_grouped_experts(const GroupedConfig& c, const GroupedExperts& e, config::Node& node) {
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
  };
  const GroupedDefaults absent = grouped_defaults(c.model_type);
  put(absent.experts_key, e.count), put("num_experts_per_tok", e.per_token), put("moe_intermediate_size", e.inner);
  put(absent.shared_key, e.shared);
  const auto groups = [&](const char* key, const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (given || otherwise > 0)
      put(key, given.value_or(otherwise));
    else if (has_method(c))
      node.at_or_add(key) = config::Node();
  };
  groups("n_group", c.n_group, absent.groups), groups("topk_group", c.topk_group, absent.chosen_groups);
  if (has_method(c)) put("topk_method", c.topk_method.value_or("greedy"));
  put("norm_topk_prob", c.norm_topk_prob.value_or(absent.normalise));
  node.at_or_add("routed_scaling_factor") = nn::hf_float(e.router.rule.scale);
  if (absent.lists_types) put("mlp_layer_types", mlp_types(e.sparse));
  if (absent.says_dense) put("first_k_dense_replace", c.first_k_dense_replace.value_or(absent.dense));
  if (c.num_nextn_predict_layers || (absent.guesses && absent.says_dense))
    put("num_nextn_predict_layers", c.num_nextn_predict_layers.value_or(1));
  put("output_router_logits", c.output_router_logits);
  // What others read: vLLM chooses the scores by them.
  const auto keep = [&](const char* key, const auto& given) {
    if (given) put(key, *given);
  };
  keep("scoring_func", c.scoring_func), keep("moe_layer_freq", c.moe_layer_freq), keep("ep_size", c.ep_size);
  keep("seq_aux", c.seq_aux);
  if (!has_method(c)) keep("topk_method", c.topk_method);
  if (c.aux_loss_alpha) node.at_or_add("aux_loss_alpha") = nn::hf_float(*c.aux_loss_alpha);
  if (c.router_bias_update_rate > 0)
    node.at_or_add("router_bias_update_rate") = nn::hf_float(c.router_bias_update_rate);
}

bool is_of_guessing_layer(const std::string& tensor, const GroupedShape& s) {
  const std::optional<std::int64_t> layer = layer_of(tensor);
  return layer && *layer >= s.layers && *layer < s.layers + s.experts.guessing;
}

}  // namespace hone::models
