// Hunyuan (Tencent, 2025): Llama whose queries and keys are normed once they are rotated, by angles whose base a fixed
// factor may have stretched; without experts, or with routed ones beside a shared one.
#include <fmt/format.h>

#include <algorithm>

#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/grouped_block.h"
#include "models/hunyuan_config.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

using config::Node;

struct HunyuanConfig : HunyuanKeys {
  using Base = HunyuanKeys;
  static constexpr auto fields() { return HunyuanKeys::fields(); }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const HunyuanConfig& c, Problems& problems) {
  LlamaShape s;
  resolve_hunyuan(c, s, problems);
  return s;
}

void HunyuanConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Hunyuan final : public LlamaStack {
 public:
  Hunyuan(const HunyuanConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = hunyuan_config(config_, s, dtype());
    sort_keys(node);
    return node;
  }

 private:
  HunyuanConfig config_;
};

struct HunyuanMoeConfig : HunyuanKeys {
  using Base = HunyuanKeys;
  std::int64_t num_experts = 1;
  config::Open moe_topk{Node::scalar("1")}, num_shared_expert, moe_intermediate_size;
  config::Open routed_scaling_factor, n_group, topk_group;
  std::optional<std::int64_t> sep_token_id, moe_layer_num_skipped, num_media_embeds;
  std::optional<bool> norm_topk_prob, use_mixed_mlp_moe, use_mla, group_limited_greedy, moe_drop_tokens,
      moe_random_routing_dropped_token;
  bool output_router_logits = false;

  static constexpr auto fields() {
    using C = HunyuanMoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    constexpr const char *nothing = "Has no effect, in transformers as here.", *only_true = "Only true.",
                         *only_false = "Only false.", *one_or_false = "Only 1, or false.";
    return std::tuple_cat(
        HunyuanKeys::fields(),
        std::tuple{field("num_experts", &C::num_experts, "Experts of a layer.", count),
                   field("moe_topk", &C::moe_topk, "Experts that a token goes to, of all layers or a list; default 1."),
                   field("num_shared_expert", &C::num_shared_expert,
                         "Only 1, of all layers or a list: an MLP that every token goes to."),
                   field("moe_intermediate_size", &C::moe_intermediate_size,
                         "intermediate_size, of all layers or a list: transformers reads that alone."),
                   field("norm_topk_prob", &C::norm_topk_prob, only_true),
                   field("use_mixed_mlp_moe", &C::use_mixed_mlp_moe, only_true),
                   field("routed_scaling_factor", &C::routed_scaling_factor, one_or_false),
                   field("n_group", &C::n_group, one_or_false), field("topk_group", &C::topk_group, one_or_false),
                   field("moe_layer_num_skipped", &C::moe_layer_num_skipped, "Only 0: all layers have experts."),
                   field("use_mla", &C::use_mla, only_false),
                   field("group_limited_greedy", &C::group_limited_greedy, only_false),
                   field("moe_drop_tokens", &C::moe_drop_tokens, "No effect: no token is dropped."),
                   field("moe_random_routing_dropped_token", &C::moe_random_routing_dropped_token, nothing),
                   field("sep_token_id", &C::sep_token_id, "Kept for others; default 4."),
                   field("num_media_embeds", &C::num_media_embeds, nothing),
                   field("output_router_logits", &C::output_router_logits,
                         "No effect: there is no balancing loss, in transformers as here.")});
  }
  void validate(Problems& problems) const;
};

// One number for all layers, or a list of them; nothing: the key is absent.
std::vector<std::int64_t> of_each_layer(const config::Open& open, const char* key, std::int64_t layers,
                                        Problems& problems) {
  const config::Range count{.low = 1, .high = 2147483647};
  std::vector<std::int64_t> made;
  if (open.node.is_null()) return made;
  if (open.node.kind() == Node::Kind::list) {
    config::Values<std::vector<std::int64_t>>::read(open.node, made, {problems, key, count});
    problems.require(std::ssize(made) == layers, key,
                     fmt::format("got {} entries, expected num_hidden_layers ({})", made.size(), layers));
    return made;
  }
  std::int64_t one = 1;
  config::Values<std::int64_t>::read(open.node, one, {problems, key, count});
  made.assign(static_cast<std::size_t>(std::min<std::int64_t>(layers, 10000)), one);
  return made;
}

// Published files have false where there is nothing to count or to scale.
void one_or_false(const config::Open& open, const char* key, Problems& problems) {
  const Node& node = open.node;
  const bool is_scalar = node.kind() == Node::Kind::scalar && !node.quoted();
  double number = 0;
  if (node.is_null() || (is_scalar && node.text() == "false")) return;
  const std::size_t before = problems.size();
  if (is_scalar) config::Values<double>::read(node, number, {problems, key, {}});
  if (problems.size() == before)
    problems.require(number == 1, key, "expected 1 or false, as transformers has it");
}

// Keys that say what is so anyhow.
void check_hunyuan_experts(const HunyuanMoeConfig& c, const LlamaShape& s, Problems& problems) {
  const auto all = [&](const config::Open& open, const char* key, std::int64_t known) {
    for (const std::int64_t one : of_each_layer(open, key, s.layers, problems))
      if (one != known)
        return problems.add(key, fmt::format("got {}, expected {}, as transformers has it", one, known));
  };
  all(c.num_shared_expert, "num_shared_expert", 1), all(c.moe_intermediate_size, "moe_intermediate_size", s.inner);
  const auto flag = [&](const char* key, const std::optional<bool>& given, bool known) {
    problems.require(given.value_or(known) == known, key,
                     fmt::format("got {}, expected {}, as transformers has it", !known, known));
  };
  flag("norm_topk_prob", c.norm_topk_prob, true), flag("use_mixed_mlp_moe", c.use_mixed_mlp_moe, true);
  flag("use_mla", c.use_mla, false), flag("group_limited_greedy", c.group_limited_greedy, false);
  one_or_false(c.routed_scaling_factor, "routed_scaling_factor", problems);
  one_or_false(c.n_group, "n_group", problems), one_or_false(c.topk_group, "topk_group", problems);
  problems.require(c.moe_layer_num_skipped.value_or(0) == 0, "moe_layer_num_skipped", "expected 0");
}

GroupedShape resolve(const HunyuanMoeConfig& c, Problems& problems) {
  GroupedShape s;
  if (!resolve_hunyuan(c, s, problems)) return s;
  check_hunyuan_experts(c, s, problems);
  GroupedExperts& e = s.experts;
  e.per_token_of = of_each_layer(c.moe_topk, "moe_topk", s.layers, problems);
  e.count = c.num_experts, e.inner = s.inner, e.shared = 1;
  e.per_token = e.per_token_of.empty() ? 1 : *std::max_element(e.per_token_of.begin(), e.per_token_of.end());
  problems.require(e.per_token <= e.count, "moe_topk",
                   fmt::format("got {}, expected at most as many as there are experts ({})", e.per_token, e.count));
  e.sparse.assign(static_cast<std::size_t>(std::min<std::int64_t>(s.layers, 10000)), true);
  e.router = {.rule = {.normalise = true, .floor = 0}, .weight = "wg.weight"};
  e.shared_name = "shared_mlp";
  const double layers = static_cast<double>(s.layers), experts = layers * static_cast<double>(e.count);
  check_parameters(3.0 * static_cast<double>(s.hidden) * static_cast<double>(s.inner) * (experts + layers),
                   "num_experts", problems);
  check_all_experts(experts, "num_experts", problems);
  return s;
}

void HunyuanMoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class HunyuanMoe final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  HunyuanMoe(const HunyuanMoeConfig& config, const HeadRequest& head)
      : GroupedModel(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = hunyuan_config(config_, s, dtype());
    node.at_or_add("num_experts") = config::Values<std::int64_t>::write(s.experts.count);
    node.at_or_add("moe_topk") = s.experts.per_token_of.empty() ? Node::scalar("1") : config_.moe_topk.node;
    node.at_or_add("sep_token_id") = config::Values<std::int64_t>::write(config_.sep_token_id.value_or(4));
    node.at_or_add("output_router_logits") = config::Values<bool>::write(config_.output_router_logits);
    // What others read: vLLM makes the experts of it.
    if (!config_.moe_intermediate_size.node.is_null())
      node.at_or_add("moe_intermediate_size") = config_.moe_intermediate_size.node;
    if (!config_.num_shared_expert.node.is_null()) node.at_or_add("num_shared_expert") = config_.num_shared_expert.node;
    if (config_.use_mixed_mlp_moe) node.at_or_add("use_mixed_mlp_moe") = config::Values<bool>::write(true);
    sort_keys(node);
    return node;
  }

 private:
  HunyuanMoeConfig config_;
};

}  // namespace

void register_hunyuan(Registries& hone) {
  hone.models.add<Hunyuan, HunyuanConfig>("hunyuan_v1_dense", "Hunyuan without experts: norms of what is rotated.");
  hone.models.add<HunyuanMoe, HunyuanMoeConfig>("hunyuan_v1_moe", "Hunyuan with routed experts beside a shared one.");
}

}  // namespace hone::models
