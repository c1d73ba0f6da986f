// Qwen3-VL (Bai et al., 2025, arXiv:2511.21631) with routed experts in place of the MLP, which files have as one tensor
// of all.
//
// Letters in tensor names: N tokens, D hidden, K experts of a token, E experts.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include <memory>

#include "hone/registry.h"
#include "models/balanced_model.h"
#include "models/decoding_llama.h"
#include "models/expert_stacks.h"
#include "models/qwen_vl_model.h"
#include "nn/experts.h"
#include "ops/router.h"

namespace hone::models {
namespace {

class StackedExperts final : public Module {
 public:
  explicit StackedExperts(const Qwen3MoeShape& shape) : s(shape) {
    gate.weight.set_takes_float8(false);  // a choice that a rounded logit would turn
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const Tensor all_1ND = x_1ND, x_ND = all_1ND.squeeze(0);
    const ops::Choice choice = ops::choose_experts(gate(x_ND, pass), {s.experts_per_token, s.normalise},
                                                   /*with_sum=*/pass.training);
    const ops::Routing routing = ops::route(choice.expert_NK, s.experts);
    if (pass.training)
      nn::measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), s.experts_per_token);
    return ops::routed_mlp(x_ND, choice.weight_NK, routing, experts.each(), s.activation).unsqueeze(0);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.routed = std::make_shared<const nn::RoutedForm>(nn::RoutedForm{.router = gate.with_adapter(pass),
                                                                         .per_token = s.experts_per_token,
                                                                         .normalise = s.normalise,
                                                                         .experts = experts.each(),
                                                                         .activation = s.activation});
  }

 private:
  const Qwen3MoeShape& s;
  nn::Linear& gate = child<nn::Linear>("gate", s.hidden, s.experts, nn::Linear::Options{.std = s.std});
  ExpertStacks& experts = child<ExpertStacks>("experts", ExpertStacks::Options{.hidden = s.hidden,
                                                                               .inner = s.expert_inner,
                                                                               .experts = s.experts,
                                                                               .per_token = s.experts_per_token,
                                                                               .std = s.std});
};

class DeepMoeBlock final : public nn::ResidualBlock {
 public:
  DeepMoeBlock(const Qwen3MoeShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), layer_(layer), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {
    if (s.sparse[layer])
      experts = &child<StackedExperts>("mlp", s);
    else
      mlp = &child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += experts ? (*experts)(post_attention_layernorm(x), pass) : (*mlp)(post_attention_layernorm(x), pass);
    add_left(x, layer_, pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    experts ? experts->describe(layer, pass) : describe_mlp(*mlp, layer, pass);
    return layer;
  }

 private:
  const Qwen3MoeShape& s;
  const std::int64_t layer_;
  LlamaAttention& self_attn;
  const StackedExperts* experts = nullptr;  // one of the two
  const nn::GatedMlp* mlp = nullptr;
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

}  // namespace

void register_qwen3_vl_moe(Registries& hone) {
  using Qwen3VlMoe = QwenVlModel<Balanced<DecodingLlama<DeepMoeBlock, Qwen3MoeShape>>, Qwen3VlMoeShape>;
  hone.models.add<Qwen3VlMoe, QwenVlConfig>("qwen3_vl_moe", "Qwen3-VL with routed experts: texts with pictures.");
}

}  // namespace hone::models
