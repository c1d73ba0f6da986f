// Mixtral (Jiang et al., 2024, arXiv:2401.04088): Mistral whose layers have routed experts in place of the MLP.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/llama_model.h"
#include "nn/experts.h"

namespace hone::models {
namespace {

struct MixtralConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t num_local_experts = 8, num_experts_per_tok = 2;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001, router_jitter_noise = 0;

  static constexpr auto fields() {
    using C = MixtralConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("num_local_experts", &C::num_local_experts, "Experts of a layer.", count),
                   field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", count),
                   field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
                   field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                         at_least(0)),
                   field("router_jitter_noise", &C::router_jitter_noise, "Noise on what the router reads; only 0.")});
  }
  void validate(Problems& problems) const;
};

struct MixtralShape : LlamaShape {
  std::int64_t experts = 0, experts_per_token = 0;
  double balance = 0;  // coefficient of the balancing loss; 0: none
};

MixtralShape resolve(const MixtralConfig& c, Problems& problems) {
  MixtralShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_keys("mixtral",
              {{"layer_types", c.layer_types.has_value()},
               {"mlp_bias", c.mlp_bias.value_or(false)},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()}},
              problems);
  problems.require(c.num_experts_per_tok <= c.num_local_experts, "num_experts_per_tok",
                   fmt::format("got {}, expected at most as many as there are experts ({})", c.num_experts_per_tok,
                               c.num_local_experts));
  problems.require(c.router_jitter_noise == 0, "router_jitter_noise", "got a number above 0, expected 0");
  const auto experts = static_cast<double>(s.layers * c.num_local_experts);
  problems.require(experts <= 1e6, "num_local_experts",
                   fmt::format("{} in all layers together, expected at most 1000000", experts));
  check_parameters(3 * experts * static_cast<double>(s.hidden) * static_cast<double>(s.inner), "num_local_experts",
                   problems);
  s.experts = c.num_local_experts, s.experts_per_token = c.num_experts_per_tok;
  s.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  return s;
}

void MixtralConfig::validate(Problems& problems) const { resolve(*this, problems); }

class MixtralBlock final : public nn::ResidualBlock {
 public:
  MixtralBlock(const MixtralShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += block_sparse_moe(post_attention_layernorm(x), pass);
  }

 private:
  const MixtralShape& s;
  LlamaAttention& self_attn;
  nn::RoutedMlp& block_sparse_moe =
      child<nn::RoutedMlp>("block_sparse_moe", nn::RoutedMlp::Options{.hidden = s.hidden,
                                                                      .inner = s.inner,
                                                                      .experts = s.experts,
                                                                      .per_token = s.experts_per_token,
                                                                      .normalise = true,
                                                                      .activation = s.activation,
                                                                      .std = s.std,
                                                                      .gate = "w1",
                                                                      .up = "w3",
                                                                      .down = "w2"});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class Mixtral final : public LlamaModel<MixtralBlock, MixtralShape> {
 public:
  Mixtral(const MixtralConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) nn::balance(pass, s.experts_per_token, s.balance);
    return LlamaModel::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // the router's loss counts each token of each document
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    put("num_experts_per_tok", s.experts_per_token);
    put("num_local_experts", s.experts);
    put("output_router_logits", config_.output_router_logits);
    put("router_aux_loss_coef", config_.router_aux_loss_coef);
    put("router_jitter_noise", config_.router_jitter_noise);
    if (!config_.head_dim) node.at_or_add("head_dim") = config::Node();  // as transformers leaves it
    sort_keys(node);
    return node;
  }

 private:
  MixtralConfig config_;
};

}  // namespace

void register_mixtral(Registries& hone) {
  hone.models.add<Mixtral, MixtralConfig>("mixtral", "Mistral with routed experts.");
}

}  // namespace hone::models
