// Routed experts by groups: from config.json to plain numbers, and back.
#include "models/grouped_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "models/check_parameters.h"
#include "models/layer_of.h"

namespace hone::models {
namespace {

// What transformers takes for keys that are absent. experts, per_token, shared, groups 0: nothing.
struct GroupedDefaults {
  std::int64_t experts, per_token, inner, shared, groups, chosen_groups, dense;
  double scale;
  bool normalise = true;
};

GroupedDefaults grouped_defaults(const std::string& type) {
  if (type == "deepseek_v2") return {64, 0, 1407, 2, 0, 0, 0, 1, false};
  if (type == "deepseek_v3") return {256, 8, 2048, 1, 8, 4, 3, 2.5};
  if (type == "glm4_moe") return {128, 8, 1408, 1, 1, 1, 1, 1};
  if (type == "dots1") return {0, 0, 1408, 0, 1, 1, 0, 1, false};
  return {64, 4, 1536, 1, 1, 1, 1, 1.8};  // glm4_moe_lite
}

bool by_softmax(const GroupedConfig& c) { return c.model_type == "deepseek_v2"; }
bool is_dots(const GroupedConfig& c) { return c.model_type == "dots1"; }
bool has_layer_types(const GroupedConfig& c) { return c.model_type == "glm4_moe_lite"; }
// Whether files may have layers that guess further tokens, unless they say otherwise.
bool guesses(const GroupedConfig& c) { return !by_softmax(c) && !is_dots(c); }

void read_sparse(const GroupedConfig& c, std::int64_t dense, const LlamaShape& llama, GroupedExperts& e,
                 Problems& problems) {
  const std::int64_t layers = std::min<std::int64_t>(llama.layers, 10000);
  for (std::int64_t i = 0; i < layers; ++i) e.sparse.push_back(i >= dense);
  if (!c.mlp_layer_types) return;
  const auto& types = *c.mlp_layer_types;
  problems.require(std::ssize(types) == llama.layers, "mlp_layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", types.size(), llama.layers));
  for (std::size_t i = 0; i < std::min(types.size(), e.sparse.size()); ++i) {
    problems.require(types[i] == "sparse" || types[i] == "dense", fmt::format("mlp_layer_types.{}", i),
                     fmt::format("got \"{}\", expected sparse or dense", types[i]));
    e.sparse[i] = types[i] == "sparse";
  }
}

// Keys that say what is so anyhow.
void check_fixed(const GroupedConfig& c, Problems& problems) {
  const auto one_of = [&](const char* key, const std::optional<std::string>& given,
                          const std::vector<std::string>& known) {
    problems.require(!given || std::find(known.begin(), known.end(), *given) != known.end(), key,
                     fmt::format("got \"{}\", expected {}", given.value_or(""), join(known, " or ")));
  };
  std::vector<std::string> scores{by_softmax(c) ? "softmax" : "sigmoid"};
  if (is_dots(c)) scores.emplace_back("noaux_tc");  // so its published files call it
  one_of("scoring_func", c.scoring_func, scores);
  if (by_softmax(c))
    one_of("topk_method", c.topk_method, {"greedy", "group_limited_greedy"});
  else
    one_of("topk_method", c.topk_method, {"noaux_tc"});
  problems.require(c.moe_layer_freq.value_or(1) == 1, "moe_layer_freq",
                   fmt::format("got {}, expected 1: transformers gives all layers behind the dense ones experts",
                               c.moe_layer_freq.value_or(1)));
  refuse_keys(c.model_type,
              {{"mlp_layer_types", c.mlp_layer_types && !has_layer_types(c)},
               {"first_k_dense_replace", has_layer_types(c) && c.first_k_dense_replace.value_or(1) != 1},
               {"router_bias_update_rate", by_softmax(c) && c.router_bias_update_rate > 0}},
              problems);
}

// How many experts a token may choose among.
void check_groups(const GroupedExperts& e, Problems& problems) {
  const ops::GroupedRule& rule = e.router.rule;
  const bool divides = rule.groups > 0 && e.count % rule.groups == 0;
  problems.require(divides, "n_routed_experts",
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

void check_count(const GroupedExperts& e, const LlamaShape& llama, Problems& problems) {
  const auto layers = static_cast<double>(std::count(e.sparse.begin(), e.sparse.end(), true));
  const double experts = layers * static_cast<double>(e.count), inner = static_cast<double>(e.inner);
  check_parameters(3.0 * static_cast<double>(llama.hidden) * inner * (experts + layers * static_cast<double>(e.shared)),
                   "n_routed_experts", problems);
  check_all_experts(experts, "n_routed_experts", problems);
}

ops::GroupedRule rule_of(const GroupedConfig& c, const GroupedDefaults& absent, std::int64_t per_token,
                         Problems& problems) {
  ops::GroupedRule rule{.per_token = per_token, .scale = c.routed_scaling_factor.value_or(absent.scale)};
  if (!by_softmax(c)) rule.score = ops::GroupedRule::Score::sigmoid, rule.best_of_group = 2;
  rule.normalise = !by_softmax(c) && c.norm_topk_prob.value_or(absent.normalise);
  if (by_softmax(c) && c.topk_method.value_or("greedy") == "greedy") return rule;  // groups have no effect
  problems.require(absent.groups > 0 || (c.n_group && c.topk_group), "n_group",
                   "missing; topk_method group_limited_greedy needs n_group and topk_group");
  rule.groups = c.n_group.value_or(std::max<std::int64_t>(1, absent.groups));
  rule.chosen_groups = c.topk_group.value_or(std::max<std::int64_t>(1, absent.chosen_groups));
  return rule;
}

}  // namespace

GroupedExperts read_grouped_experts(const GroupedConfig& c, const LlamaShape& llama, Problems& problems) {
  const GroupedDefaults absent = grouped_defaults(c.model_type);
  GroupedExperts e;
  check_fixed(c, problems);
  const auto needed = [&](const char* key, const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    problems.require(otherwise > 0 || given, key, "missing; " + c.model_type + " has no default for it");
    return given.value_or(std::max<std::int64_t>(1, otherwise));
  };
  const std::size_t before = problems.size();
  e.count = needed("n_routed_experts", c.n_routed_experts, absent.experts);
  e.per_token = needed("num_experts_per_tok", c.num_experts_per_tok, absent.per_token);
  e.inner = c.moe_intermediate_size.value_or(absent.inner);
  e.shared = needed("n_shared_experts", c.n_shared_experts, absent.shared);
  read_sparse(c, c.first_k_dense_replace.value_or(absent.dense), llama, e, problems);
  e.router = {.rule = rule_of(c, absent, e.per_token, problems),
              .corrected = !by_softmax(c),
              .correction_rate = c.router_bias_update_rate};
  e.guessing = c.num_nextn_predict_layers.value_or(guesses(c) ? 1 : 0);
  if (problems.size() > before) return e;  // of a number that is missing nothing else can be said
  check_groups(e, problems);
  check_count(e, llama, problems);
  return e;
}

void write_grouped_experts(const GroupedConfig& c, const GroupedExperts& e, config::Node& node) {
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
  };
  const GroupedDefaults absent = grouped_defaults(c.model_type);
  put("n_routed_experts", e.count), put("num_experts_per_tok", e.per_token), put("moe_intermediate_size", e.inner);
  put("n_shared_experts", e.shared);
  const auto groups = [&](const char* key, const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (given || otherwise > 0)
      put(key, given.value_or(otherwise));
    else
      node.at_or_add(key) = config::Node();
  };
  groups("n_group", c.n_group, absent.groups), groups("topk_group", c.topk_group, absent.chosen_groups);
  if (by_softmax(c)) put("topk_method", c.topk_method.value_or("greedy"));
  put("norm_topk_prob", c.norm_topk_prob.value_or(absent.normalise));
  node.at_or_add("routed_scaling_factor") = nn::hf_float(e.router.rule.scale);
  if (has_layer_types(c)) {
    std::vector<std::string> types;
    for (const bool sparse : e.sparse) types.push_back(sparse ? "sparse" : "dense");
    put("mlp_layer_types", types);
  } else {
    put("first_k_dense_replace", c.first_k_dense_replace.value_or(absent.dense));
  }
  if (c.num_nextn_predict_layers || (guesses(c) && !has_layer_types(c)))
    put("num_nextn_predict_layers", c.num_nextn_predict_layers.value_or(1));
  put("output_router_logits", c.output_router_logits);
  // What others read: vLLM chooses the scores by them.
  const auto keep = [&](const char* key, const auto& given) {
    if (given) put(key, *given);
  };
  keep("scoring_func", c.scoring_func), keep("moe_layer_freq", c.moe_layer_freq), keep("ep_size", c.ep_size);
  keep("seq_aux", c.seq_aux);
  if (!by_softmax(c)) keep("topk_method", c.topk_method);
  if (c.aux_loss_alpha) node.at_or_add("aux_loss_alpha") = nn::hf_float(*c.aux_loss_alpha);
  if (c.router_bias_update_rate > 0)
    node.at_or_add("router_bias_update_rate") = nn::hf_float(c.router_bias_update_rate);
}

bool is_of_guessing_layer(const std::string& tensor, const GroupedShape& s) {
  const std::optional<std::int64_t> layer = layer_of(tensor);
  return layer && *layer >= s.layers && *layer < s.layers + s.experts.guessing;
}

}  // namespace hone::models
