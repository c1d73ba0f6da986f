// Jamba (AI21, 2024, arXiv:2403.19887): state spaces of channels (Mamba) in most layers, attention without a rotation
// in others; behind either an MLP, or routed experts.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/hybrid_model.h"
#include "models/mamba_keys.h"
#include "nn/experts.h"
#include "nn/selective_state.h"

namespace hone::models {
namespace {

struct JambaConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t num_experts = 16, num_experts_per_tok = 2, expert_layer_period = 2, expert_layer_offset = 1,
               attn_layer_period = 8, attn_layer_offset = 4, mamba_d_state = 16, mamba_d_conv = 4, mamba_expand = 2;
  config::Open mamba_dt_rank{config::Node::scalar("auto")};
  bool mamba_conv_bias = true, mamba_proj_bias = false, output_router_logits = false;
  double router_aux_loss_coef = 0.001;
  // How others compute it, kept; and what old files say besides.
  bool use_mamba_kernels = true, use_mambapy = false, use_associative_scan = true;
  std::optional<bool> mamba_inner_layernorms, calc_logits_for_entire_prompt;
  std::optional<std::int64_t> n_ctx, num_logits_to_keep;

  static constexpr auto fields() {
    using C = JambaConfig;
    constexpr config::Range size{.low = 1, .high = 65536}, layer{.low = 0, .high = 10000};
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("num_experts", &C::num_experts, "Experts of a layer that has some; 1: no layer has.", size),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", size),
            field("expert_layer_period", &C::expert_layer_period, "One of so many layers has experts.", size),
            field("expert_layer_offset", &C::expert_layer_offset, "The first layer that has.", layer),
            field("attn_layer_period", &C::attn_layer_period, "One of so many layers has attention.", size),
            field("attn_layer_offset", &C::attn_layer_offset, "The first layer that has.", layer),
            field("mamba_d_state", &C::mamba_d_state, "States of each channel.", size),
            field("mamba_d_conv", &C::mamba_d_conv, "Tokens that the convolution before a state reads.",
                  {.low = 2, .high = 64}),
            field("mamba_expand", &C::mamba_expand, "Channels, in hidden_size.", size),
            field("mamba_dt_rank", &C::mamba_dt_rank,
                  "Rank of the product that makes steps; auto: hidden_size / 16, rounded up."),
            field("mamba_conv_bias", &C::mamba_conv_bias, "Bias of the convolution."),
            field("mamba_proj_bias", &C::mamba_proj_bias, "Biases of the products around the state."),
            field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                  at_least(0)),
            field("use_mamba_kernels", &C::use_mamba_kernels, "No effect: how others compute it, as the next two."),
            field("use_mambapy", &C::use_mambapy, "No effect."),
            field("use_associative_scan", &C::use_associative_scan, "No effect."),
            field("mamba_inner_layernorms", &C::mamba_inner_layernorms,
                  "Must be true: steps, B and C are normed; said by old files."),
            field("calc_logits_for_entire_prompt", &C::calc_logits_for_entire_prompt,
                  "What old files say besides, as the next two; no effect."),
            field("n_ctx", &C::n_ctx, "No effect."),
            field("num_logits_to_keep", &C::num_logits_to_keep, "No effect.")});
  }
  void validate(Problems& problems) const;
};

struct JambaShape : LlamaShape {
  nn::SelectiveState::Options state;
  std::vector<bool> remembers, sparse;  // per layer: has a state, not attention; has experts, not an MLP
  nn::RoutedMlp::Options experts;
  double balance = 0;
  MemoryLayer memory() const { return state.memory(); }
  bool any_experts() const { return std::find(sparse.begin(), sparse.end(), true) != sparse.end(); }
};

// Of each layer whether it is one of those from `offset` on, one of `period`.
std::vector<bool> each_of(std::int64_t layers, std::int64_t period, std::int64_t offset, const char* key,
                          Problems& problems) {
  problems.require(offset < period, key, fmt::format("got {}, expected less than the period ({})", offset, period));
  std::vector<bool> made;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(layers, 10000); ++i) made.push_back(i % period == offset);
  return made;
}

void read_state(const JambaConfig& c, JambaShape& s, Problems& problems) {
  const std::int64_t rank = read_or_auto(c.mamba_dt_rank, (s.hidden + 15) / 16, "mamba_dt_rank", problems);
  s.state = {.hidden = s.hidden,
             .inner = c.mamba_expand * s.hidden,
             .state_size = c.mamba_d_state,
             .rank = rank,
             .taps = c.mamba_d_conv,
             .conv_bias = c.mamba_conv_bias,
             .in_bias = c.mamba_proj_bias,
             .out_bias = c.mamba_proj_bias,
             .norm = nn::SelectiveState::Norm::weighted,
             .norm_eps = s.eps,
             .std = s.std};
  s.remembers = each_of(s.layers, c.attn_layer_period, c.attn_layer_offset, "attn_layer_offset", problems);
  s.remembers.flip();
  const auto layers = static_cast<double>(std::count(s.remembers.begin(), s.remembers.end(), true));
  check_parameters(layers * static_cast<double>(s.state.inner) *
                       static_cast<double>(3 * s.hidden + 2 * rank + 3 * c.mamba_d_state),
                   "mamba_expand", problems);
  problems.require(s.activation_name == "silu" || s.activation_name == "swish", "hidden_act",
                   "expected silu, which these models have");
}

void read_experts(const JambaConfig& c, JambaShape& s, Problems& problems) {
  s.sparse = each_of(s.layers, c.expert_layer_period, c.expert_layer_offset, "expert_layer_offset", problems);
  if (c.num_experts == 1) s.sparse.assign(s.sparse.size(), false);
  s.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  s.experts = {.hidden = s.hidden,
               .inner = s.inner,
               .experts = c.num_experts,
               .per_token = c.num_experts_per_tok,
               .router = "router",
               .activation = s.activation,
               .std = s.std};
  if (!s.any_experts()) return;
  check_experts_per_token(c.num_experts_per_tok, c.num_experts, problems);
  const double all = static_cast<double>(std::count(s.sparse.begin(), s.sparse.end(), true)) *
                     static_cast<double>(c.num_experts);
  check_parameters(3 * all * static_cast<double>(s.hidden) * static_cast<double>(s.inner), "num_experts", problems);
  check_all_experts(all, "num_experts", problems);
}

JambaShape resolve(const JambaConfig& c, Problems& problems) {
  JambaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type,
              {{"rope_theta", c.rope_theta.has_value()},
               {"rope_parameters", !c.rope_parameters.node.is_null()},
               {"rope_scaling", has_rope_scaling(c)}},
              problems);
  problems.require(c.mamba_inner_layernorms.value_or(true), "mamba_inner_layernorms",
                   "got false, expected true: transformers norms steps, B and C");
  s.last_norm = "final_layernorm";
  s.unrotated.assign(static_cast<std::size_t>(std::min<std::int64_t>(s.layers, 10000)), true);
  read_state(c, s, problems);
  read_experts(c, s, problems);
  return s;
}

void JambaConfig::validate(Problems& problems) const { resolve(*this, problems); }

class JambaBlock final : public nn::ResidualBlock {
 public:
  JambaBlock(const JambaShape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.remembers[layer])
      mamba = &child<nn::SelectiveState>("mamba", s.state);
    else
      self_attn = &child<LlamaAttention>("self_attn", s, ropes, layer);
    if (s.sparse[layer])
      experts = &child<nn::RoutedMlp>("feed_forward", s.experts);
    else
      feed_forward = &child<nn::GatedMlp>(
          "feed_forward", nn::GatedMlp::Options{
                              .hidden = s.hidden, .inner = s.inner, .activation = s.activation, .std = s.std});
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += mamba ? (*mamba)(input_layernorm(x), pass) : (*self_attn)(input_layernorm(x), pass);
    x += experts ? (*experts)(pre_ff_layernorm(x), pass) : (*feed_forward)(pre_ff_layernorm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    mamba ? mamba->describe(layer, pass) : self_attn->describe(layer, pass);
    experts ? experts->describe(layer, pass) : describe_mlp(*feed_forward, layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = pre_ff_layernorm.weight.use();
    return layer;
  }

 private:
  const JambaShape& s;
  const nn::SelectiveState* mamba = nullptr;  // one of the two
  const LlamaAttention* self_attn = nullptr;
  const nn::RoutedMlp* experts = nullptr;  // likewise
  const nn::GatedMlp* feed_forward = nullptr;
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& pre_ff_layernorm = child<nn::RmsNorm>("pre_ff_layernorm", s.hidden, s.norm());
};

class Jamba final : public HybridModel<JambaBlock, JambaShape> {
 public:
  Jamba(const JambaConfig& config, const HeadRequest& head) : HybridModel(shape_of(config, head)), config_(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training && s.any_experts()) nn::balance(pass, s.experts.per_token, s.balance);
    return HybridModel::finish(x_1ND, pass);
  }

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    std::erase_if(node.entries(), [](const config::Node::Entry& entry) { return entry.first == "rope_parameters"; });
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::decay_t<decltype(value)>>::write(value);
    };
    put("num_experts", config_.num_experts), put("num_experts_per_tok", config_.num_experts_per_tok);
    put("expert_layer_period", config_.expert_layer_period), put("expert_layer_offset", config_.expert_layer_offset);
    put("attn_layer_period", config_.attn_layer_period), put("attn_layer_offset", config_.attn_layer_offset);
    put("mamba_d_state", config_.mamba_d_state), put("mamba_d_conv", config_.mamba_d_conv);
    put("mamba_expand", config_.mamba_expand), put("mamba_dt_rank", s.state.rank);
    put("mamba_conv_bias", config_.mamba_conv_bias), put("mamba_proj_bias", config_.mamba_proj_bias);
    put("output_router_logits", config_.output_router_logits);
    put("use_mamba_kernels", config_.use_mamba_kernels), put("use_mambapy", config_.use_mambapy);
    put("use_associative_scan", config_.use_associative_scan);
    node.at_or_add("router_aux_loss_coef") = nn::hf_float(config_.router_aux_loss_coef);
    sort_keys(node);
    return node;
  }

 private:
  JambaConfig config_;
};

}  // namespace

void register_jamba(Registries& hone) {
  hone.models.add<Jamba, JambaConfig>(
      "jamba", "Jamba: state spaces of channels (Mamba) in most layers, attention in others; experts or MLPs.");
}

}  // namespace hone::models
