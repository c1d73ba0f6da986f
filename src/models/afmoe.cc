// Trinity (Arcee AI, 2025): gated attention whose layers with windows alone are rotated, norms before and behind each
// part, and experts that corrected sigmoids choose, beside a shared one.
//
// Letters in tensor names: N tokens, D hidden.
#include <ATen/ATen.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/registry.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct AfmoeConfig : GroupedConfig {
  using Base = GroupedConfig;
  std::optional<std::int64_t> num_experts, num_shared_experts, num_dense_layers, global_attn_every_n_layers;
  std::optional<double> route_scale, load_balance_coeff;
  std::optional<std::string> score_func;
  bool mup_enabled = false, route_norm = true;
  std::optional<std::int64_t> num_expert_groups, num_limited_groups;

  static constexpr auto fields() {
    using C = AfmoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    return std::tuple_cat(
        GroupedConfig::fields(),
        std::tuple{
            field("num_experts", &C::num_experts, "Experts of a layer; default 64.", count),
            field("num_shared_experts", &C::num_shared_experts,
                  "How many times as wide as an expert the MLP is that every token goes to; default 2.", count),
            field("num_dense_layers", &C::num_dense_layers,
                  "Layers that have an MLP instead, from the first one on; default 1.", at_least(0)),
            field("global_attn_every_n_layers", &C::global_attn_every_n_layers,
                  "Without layer_types, every how manieth layer sees all; default 4.", count),
            field("route_scale", &C::route_scale, "What the weights of a token's experts are multiplied by; default 1.",
                  config::Range{.low = 1e-9, .high = 1e9}),
            field("mup_enabled", &C::mup_enabled, "Embeddings are multiplied by the root of hidden_size."),
            field("route_norm", &C::route_norm, "Only true."),
            field("score_func", &C::score_func, "Only sigmoid."),
            field("num_expert_groups", &C::num_expert_groups, "Only 1."),
            field("num_limited_groups", &C::num_limited_groups, "Only 1."),
            field("load_balance_coeff", &C::load_balance_coeff, "Has no effect, in transformers as here.")});
  }
  void validate(Problems& problems) const;
};

// DeepSeek's names of what has others here, and what transformers takes for keys that are absent.
AfmoeConfig renamed(const AfmoeConfig& given) {
  AfmoeConfig c = given;
  c.n_routed_experts = given.num_experts, c.n_shared_experts = given.num_shared_experts;
  c.routed_scaling_factor = given.route_scale, c.first_k_dense_replace = given.num_dense_layers.value_or(1);
  if (is_default(c.sliding_window)) c.sliding_window.node = config::Node::scalar("1024");
  if (c.layer_types) return c;
  c.layer_types.emplace();
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(32), 10000);
  for (std::int64_t i = 1; i <= layers; ++i)
    c.layer_types->push_back(i % c.global_attn_every_n_layers.value_or(4) != 0 ? "sliding_attention"
                                                                                : "full_attention");
  return c;
}

void check_afmoe_keys(const AfmoeConfig& given, Problems& problems) {
  refuse_keys(given.model_type,
              {{"n_routed_experts", given.n_routed_experts.has_value()},
               {"n_shared_experts", given.n_shared_experts.has_value()},
               {"routed_scaling_factor", given.routed_scaling_factor.has_value()},
               {"first_k_dense_replace", given.first_k_dense_replace.has_value()},
               {"norm_topk_prob", !given.norm_topk_prob.value_or(true)},
               {"n_group", given.n_group.value_or(1) != 1},
               {"topk_group", given.topk_group.value_or(1) != 1}},
              problems);
  problems.require(given.route_norm, "route_norm", "got false, expected true, as transformers has it");
  problems.require(given.score_func.value_or("sigmoid") == "sigmoid", "score_func",
                   fmt::format("got \"{}\", expected sigmoid", given.score_func.value_or("")));
  for (const auto& [key, value] : {std::pair{"num_expert_groups", given.num_expert_groups},
                                   {"num_limited_groups", given.num_limited_groups}})
    problems.require(value.value_or(1) == 1, key, fmt::format("got {}, expected 1", value.value_or(1)));
}

GroupedShape resolve(const AfmoeConfig& given, Problems& problems) {
  const AfmoeConfig c = renamed(given);
  GroupedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  check_afmoe_keys(given, problems);
  s.experts = read_grouped_experts(c, s, problems);
  s.experts.router_name = "", s.experts.router.weight = "router.gate.weight";
  s.experts.router.correction = "expert_bias";
  for (const std::int64_t window : s.windows) s.unrotated.push_back(window == 0);
  if (c.mup_enabled) s.embedding_scale = std::sqrt(static_cast<double>(s.hidden));
  return s;
}

void AfmoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class AfmoeAttention final : public Module {
 public:
  AfmoeAttention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attend_(shape, ropes, layer) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj, &gate_proj}, pass);
    const auto heads = [&](const Tensor& x, std::int64_t count) { return x.view({-1, count, s.head_size}); };
    const Tensor seen_NHK = attend_(q_norm(heads(made[0], s.heads)), k_norm(heads(made[1], s.kv_heads)),
                                    heads(made[2], s.kv_heads), pass);
    return o_proj(seen_NHK.flatten(1).unsqueeze(0) * made[3].sigmoid(), pass);
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
  }
  const LlamaShape& s;
  LayerAttention attend_;
  const std::int64_t wide_ = s.heads * s.head_size;
  nn::Linear& q_proj = projection("q_proj", s.hidden, wide_, s.qkv_bias);
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& o_proj = projection("o_proj", wide_, s.hidden, s.output_bias);
  nn::RmsNorm& q_norm = child<nn::RmsNorm>("q_norm", s.head_size, s.norm());
  nn::RmsNorm& k_norm = child<nn::RmsNorm>("k_norm", s.head_size, s.norm());
  nn::Linear& gate_proj = projection("gate_proj", s.hidden, wide_, /*bias=*/false);
};

class AfmoeBlock final : public nn::ResidualBlock {
 public:
  AfmoeBlock(const GroupedShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape),
        self_attn(child<AfmoeAttention>("self_attn", s, ropes, layer)),
        mlp(child<GroupedMlp>("mlp", s, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += post_attention_layernorm(self_attn(input_layernorm(x), pass));
    x += post_mlp_layernorm(mlp(pre_mlp_layernorm(x), pass));
  }

 private:
  nn::RmsNorm& norm(const char* name) { return child<nn::RmsNorm>(name, s.hidden, s.norm()); }
  const GroupedShape& s;
  AfmoeAttention& self_attn;
  GroupedMlp& mlp;
  nn::RmsNorm &input_layernorm = norm("input_layernorm"), &post_attention_layernorm = norm("post_attention_layernorm"),
              &pre_mlp_layernorm = norm("pre_mlp_layernorm"), &post_mlp_layernorm = norm("post_mlp_layernorm");
};

class Afmoe final : public Balanced<LlamaModel<AfmoeBlock, GroupedShape>> {
 public:
  Afmoe(const AfmoeConfig& config, const HeadRequest& head) : Balanced(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override {
    config::Node node = to_hf_config(renamed(config_), s, dtype());
    write_grouped_experts(renamed(config_), s.experts, node);
    std::erase_if(node.entries(), [](const auto& entry) {
      return entry.first == "norm_topk_prob" || entry.first == "routed_scaling_factor" ||
             entry.first == "first_k_dense_replace";
    });
    node.at_or_add("route_scale") = nn::hf_float(s.experts.router.rule.scale);
    node.at_or_add("mup_enabled") = config::Values<bool>::write(config_.mup_enabled);
    const auto put = [&](const char* key, std::int64_t value) {
      node.at_or_add(key) = config::Values<std::int64_t>::write(value);
    };
    put("num_dense_layers", config_.num_dense_layers.value_or(1));
    put("global_attn_every_n_layers", config_.global_attn_every_n_layers.value_or(4));
    sort_keys(node);
    return node;
  }

 private:
  AfmoeConfig config_;
};

}  // namespace

void register_afmoe(Registries& hone) {
  hone.models.add<Afmoe, AfmoeConfig>("afmoe", "Trinity: gated attention, experts that corrected sigmoids choose.");
}

}  // namespace hone::models
