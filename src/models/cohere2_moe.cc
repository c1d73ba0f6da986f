// Command A with experts (Cohere, 2026): cohere2's layers, whose attention and MLP read the same norm, with routed
// experts in place of the MLP but for the first layers.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/llama_model.h"
#include "models/mlp_types.h"
#include "nn/experts.h"
#include "ops/add_norm.h"

namespace hone::models {
namespace {

using config::Node;

struct Cohere2MoeConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> layer_norm_eps;
  double logit_scale = 0.0625;
  std::int64_t num_experts = 8, num_experts_per_tok = 2, num_shared_experts = 0, sliding_window_pattern = 4;
  std::int64_t prefix_dense_sliding_window_pattern = 1, first_k_dense_replace = 0;
  std::optional<std::int64_t> prefix_dense_intermediate_size;
  std::string shared_expert_combination_strategy = "average", expert_selection_fn = "softmax";
  bool norm_topk_prob = true, output_router_logits = false;
  std::optional<std::vector<std::string>> mlp_layer_types;

  static constexpr auto fields() {
    using C = Cohere2MoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536}, layers{.low = 1, .high = 10000};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("layer_norm_eps", &C::layer_norm_eps,
                  "Added to the variance in LayerNorm; default 1e-5. With rms_norm_eps norms are RMSNorms instead.",
                  config::Range{.low = 0, .high = 1}),
            field("logit_scale", &C::logit_scale, "What logits are multiplied by.",
                  config::Range{.low = 1e-9, .high = 1e9}),
            field("num_experts", &C::num_experts, "Experts of a layer.", count),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", count),
            field("num_shared_experts", &C::num_shared_experts,
                  "How many times as wide as an expert the MLP is that every token goes to; 0 = there is none.",
                  config::Range{.low = 0, .high = 65536}),
            field("shared_expert_combination_strategy", &C::shared_expert_combination_strategy,
                  "average or sum of what the experts and that MLP give."),
            field("expert_selection_fn", &C::expert_selection_fn,
                  "What a token's experts are weighted by: softmax of their logits, or sigmoid."),
            field("norm_topk_prob", &C::norm_topk_prob, "Make sigmoids of a token's experts sum to 1."),
            field("output_router_logits", &C::output_router_logits,
                  "No effect: there is no balancing loss, in transformers as here."),
            field("mlp_layer_types", &C::mlp_layer_types,
                  "sparse or dense for each layer; default: all behind the first first_k_dense_replace are sparse."),
            field("first_k_dense_replace", &C::first_k_dense_replace,
                  "Without mlp_layer_types, layers that have an MLP instead, from the first one on.",
                  config::Range{.low = 0, .high = 10000}),
            field("prefix_dense_intermediate_size", &C::prefix_dense_intermediate_size,
                  "Width inside that MLP; default intermediate_size.", config::Range{.low = 1, .high = 2147483647}),
            field("sliding_window_pattern", &C::sliding_window_pattern,
                  "Without layer_types, every how manieth layer behind those sees all.", layers),
            field("prefix_dense_sliding_window_pattern", &C::prefix_dense_sliding_window_pattern,
                  "The same of layers with an MLP, which are rotated all the same if it is 1.", layers)});
  }
  void validate(Problems& problems) const;
};

struct Cohere2MoeShape : LlamaShape {
  std::vector<bool> sparse;  // per layer: has experts, not an MLP
  nn::RoutedMlp::Options experts;
  std::int64_t dense_inner = 0;
  double experts_scale = 1;
  bool is_rms = false;  // whether norms are RMSNorms
};

LlamaConfig as_llama(const Cohere2MoeConfig& c) {
  LlamaConfig made = c;
  if (!c.rms_norm_eps) made.rms_norm_eps = c.layer_norm_eps;
  if (c.layer_types) return made;
  const std::int64_t layers = c.num_hidden_layers.value_or(family_of(c.model_type)->layers);
  made.layer_types.emplace();
  const auto add = [&](std::int64_t count, std::int64_t pattern) {
    for (std::int64_t i = 1; i <= std::min<std::int64_t>(count, 10000); ++i)
      made.layer_types->emplace_back(i % pattern != 0 ? "sliding_attention" : "full_attention");
  };
  add(std::min(c.first_k_dense_replace, layers), c.prefix_dense_sliding_window_pattern);
  add(layers - c.first_k_dense_replace, c.sliding_window_pattern);
  return made;
}

void check_cohere_experts(const Cohere2MoeConfig& c, const Cohere2MoeShape& s, Problems& problems) {
  const auto one_of = [&](const char* key, const std::string& given, const char* first, const char* second) {
    problems.require(given == first || given == second, key,
                     fmt::format("got \"{}\", expected {} or {}", given, first, second));
  };
  one_of("shared_expert_combination_strategy", c.shared_expert_combination_strategy, "average", "sum");
  one_of("expert_selection_fn", c.expert_selection_fn, "softmax", "sigmoid");
  check_experts_per_token(c.num_experts_per_tok, c.num_experts, problems);
  const double layers = static_cast<double>(s.layers), experts = layers * static_cast<double>(c.num_experts);
  check_all_experts(experts, "num_experts", problems);
  check_parameters(3 * static_cast<double>(s.hidden) * static_cast<double>(s.inner) *
                       (experts + layers * static_cast<double>(c.num_shared_experts)),
                   "num_experts", problems);
}

nn::RoutedMlp::Options experts_of(const Cohere2MoeConfig& c, const Cohere2MoeShape& s) {
  nn::RoutedMlp::Options made{.hidden = s.hidden,
                              .inner = s.inner,
                              .experts = c.num_experts,
                              .per_token = c.num_experts_per_tok,
                              .shared_inner = c.num_shared_experts * s.inner,
                              .shared = "shared_experts",
                              .shared_is_gated = false,
                              .normalise = true,
                              .activation = s.activation,
                              .std = s.std};
  if (c.expert_selection_fn == "sigmoid")
    made.by_groups = nn::GroupedRouter::Options{.rule = {.score = ops::GroupedRule::Score::sigmoid,
                                                         .by_logits = true,
                                                         .per_token = c.num_experts_per_tok,
                                                         .normalise = c.norm_topk_prob,
                                                         .floor = 0}};
  return made;
}

Cohere2MoeShape resolve(const Cohere2MoeConfig& c, Problems& problems) {
  Cohere2MoeShape s;
  if (!resolve_base(as_llama(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  check_cohere_experts(c, s, problems);
  for (std::int64_t i = 0; i < std::ssize(s.windows); ++i) s.sparse.push_back(i >= c.first_k_dense_replace);
  if (c.mlp_layer_types) read_mlp_types(*c.mlp_layer_types, s.layers, s.sparse, problems);
  for (std::size_t i = 0; i < s.windows.size(); ++i)
    s.unrotated.push_back(s.windows[i] == 0 && (s.sparse[i] || c.prefix_dense_sliding_window_pattern != 1));
  s.rotates_neighbours = true;
  s.hidden_scale = c.logit_scale;  // of what the head reads, which is much less than logits are
  s.experts = experts_of(c, s);
  s.dense_inner = c.prefix_dense_intermediate_size.value_or(s.inner);
  s.experts_scale = c.num_shared_experts > 0 && c.shared_expert_combination_strategy == "average" ? 0.5 : 1;
  s.is_rms = c.rms_norm_eps.has_value();
  return s;
}

void Cohere2MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

// A LayerNorm without a bias, or an RMSNorm.
class EitherNorm final : public nn::Norm {
 public:
  explicit EitherNorm(const Cohere2MoeShape& s) {
    if (s.is_rms)
      norm_ = &child<nn::RmsNorm>("", s.hidden, s.norm());
    else
      norm_ = &child<nn::LayerNorm>("", s.hidden, s.eps, /*with_bias=*/false);
  }
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override { return (*norm_)(x); }
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override { return norm_->add(x, residual); }

 private:
  const nn::Norm* norm_ = nullptr;
};

class Cohere2MoeBlock final : public nn::ResidualBlock {
 public:
  Cohere2MoeBlock(const Cohere2MoeShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {
    if (s.sparse[static_cast<std::size_t>(layer)])
      experts = &child<nn::RoutedMlp>("mlp", s.experts);
    else
      mlp = &child<nn::GatedMlp>("mlp",
                                 nn::GatedMlp::Options{s.hidden, s.dense_inner, s.activation, /*bias=*/false, s.std});
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor normed_1ND = input_layernorm(x);
    x += self_attn(normed_1ND, pass);
    x += experts ? scaled((*experts)(normed_1ND, pass), s.experts_scale) : (*mlp)(normed_1ND, pass);
  }

 private:
  const Cohere2MoeShape& s;
  LlamaAttention& self_attn;
  const nn::RoutedMlp* experts = nullptr;  // one of the two
  const nn::GatedMlp* mlp = nullptr;
  EitherNorm& input_layernorm = child<EitherNorm>("input_layernorm", s);
};

class Cohere2Moe final : public LlamaModel<Cohere2MoeBlock, Cohere2MoeShape, EitherNorm> {
 public:
  Cohere2Moe(const Cohere2MoeConfig& config, const HeadRequest& head)
      : LlamaModel(shape_of(config, head)), config_(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) nn::balance(pass, s.experts.per_token, /*coefficient=*/0);
    return LlamaModel::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // what is counted of experts is of each document's tokens
  Node hf_config() const override {
    const Cohere2MoeConfig& c = config_;
    Node node = to_hf_config(as_llama(c), s, dtype());
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    put("expert_selection_fn", c.expert_selection_fn), put("mlp_layer_types", mlp_types(s.sparse));
    put("norm_topk_prob", c.norm_topk_prob), put("num_experts", c.num_experts);
    put("num_experts_per_tok", c.num_experts_per_tok), put("num_shared_experts", c.num_shared_experts);
    put("output_router_logits", c.output_router_logits);
    put("prefix_dense_intermediate_size", c.prefix_dense_intermediate_size);
    put("prefix_dense_sliding_window_pattern", c.prefix_dense_sliding_window_pattern);
    put("shared_expert_combination_strategy", c.shared_expert_combination_strategy);
    put("sliding_window_pattern", c.sliding_window_pattern);
    node.at_or_add("layer_norm_eps") = nn::hf_float(c.layer_norm_eps.value_or(1e-5));
    node.at_or_add("logit_scale") = nn::hf_float(c.logit_scale);
    node.at_or_add("rms_norm_eps") = c.rms_norm_eps ? nn::hf_float(*c.rms_norm_eps) : Node();
    // transformers keeps both forms here, and a base beside them.
    node.at_or_add("rope_theta") = nn::hf_float(s.rope.rope_theta), node.at_or_add("rope_scaling") = Node();
    sort_keys(node);
    return node;
  }

 private:
  Cohere2MoeConfig config_;
};

}  // namespace

void register_cohere2_moe(Registries& hone) {
  hone.models.add<Cohere2Moe, Cohere2MoeConfig>("cohere2_moe", "Command A with routed experts.");
}

}  // namespace hone::models
