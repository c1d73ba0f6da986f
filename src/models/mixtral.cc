// Mixtral (Jiang et al., 2024, arXiv:2401.04088): Mistral whose layers have routed experts in place of the MLP.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"
#include "models/local_experts.h"
#include "nn/experts.h"

namespace hone::models {
namespace {

struct MixtralConfig : LocalExpertKeys<LlamaConfig> {
  using Base = LocalExpertKeys<LlamaConfig>;
  double router_jitter_noise = 0;

  static constexpr auto fields() {
    using C = MixtralConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("router_jitter_noise", &C::router_jitter_noise, "Noise on what the router reads; only 0.")});
  }
  void validate(Problems& problems) const;
};

struct MixtralShape : LlamaShape {
  LocalExperts experts;
};

MixtralShape resolve(const MixtralConfig& c, Problems& problems) {
  MixtralShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(c.router_jitter_noise == 0, "router_jitter_noise", "got a number above 0, expected 0");
  s.experts = read_local_experts(c, {.count = 8, .per_token = 2}, s, problems);
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
                                                                      .experts = s.experts.count,
                                                                      .per_token = s.experts.per_token,
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
    if (pass.training) nn::balance(pass, s.experts.per_token, s.experts.balance);
    return LlamaModel::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // the router's loss counts each token of each document
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_local_experts(config_, s.experts, node);
    node.at_or_add("router_jitter_noise") = config::Values<double>::write(config_.router_jitter_noise);
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
