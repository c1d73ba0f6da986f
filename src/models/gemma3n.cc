// The text models of Gemma 3n (2025): Gemma 4's attention, with keys and values that several layers share and a vector
// that each token brings to each layer; beside it a product of low rank (LAuReL: Menghani et al., 2024,
// arXiv:2411.07501), several residual streams of which a block reads one and corrects all (AltUp: Baykal et al., 2023,
// arXiv:2301.13310), and MLPs that let only the largest of a gate's values through.
//
// Letters in tensor names: B batch, T time, N tokens, D hidden, A streams, W = A D, between blocks.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "hone/registry.h"
#include "models/gemma3n_config.h"
#include "models/gemma4_stack.h"

namespace hone::models {
namespace {

Gemma3nShape shape_with(const Gemma3nConfig& config, const HeadRequest& head) {
  Problems problems;
  Gemma3nShape shape = resolve(config, problems);
  problems.raise("the model's configuration");
  give_head(head, shape);
  return shape;
}

nn::Linear::Options fresh_with(double std) { return {.std = std}; }

// An MLP whose gate keeps what is so many deviations above the mean of a token's values, and of that how far.
class Gemma3nMlp final : public Module {
 public:
  Gemma3nMlp(const Gemma3nShape& s, std::int64_t layer) : activation_(s.activation), share_(s.sparsity[layer]) {
    const std::int64_t inner = s.inners[layer];
    if (share_ == 0) {
      dense_ = &child<nn::GatedMlp>("", nn::GatedMlp::Options{s.hidden, inner, s.activation, /*bias=*/false, s.std});
      return;
    }
    gate_proj = &child<nn::Linear>("gate_proj", s.hidden, inner, fresh_with(s.std));
    up_proj = &child<nn::Linear>("up_proj", s.hidden, inner, fresh_with(s.std));
    down_proj = &child<nn::Linear>("down_proj", inner, s.hidden, fresh_with(s.std));
    deviations_ = std::sqrt(2.0) * host::own_number(at::erfinv(at::scalar_tensor(2 * share_ - 1, at::kFloat)));
  }
  Tensor operator()(const nn::Input& x_1ND, const Pass& pass) const {
    if (dense_) return (*dense_)(x_1ND, pass);
    const std::vector<Tensor> made = nn::linears(x_1ND, {gate_proj, up_proj}, pass);
    return (*down_proj)(ops::gated(largest_of(made[0]), made[1], activation_), pass);
  }

 private:
  Tensor largest_of(const Tensor& gate) const {
    const Tensor wide = gate.to(at::toOpMathType(gate.scalar_type()));
    const Tensor mean = wide.mean(-1, /*keepdim=*/true);
    const Tensor deviation = (wide - mean).square().mean(-1, /*keepdim=*/true).sqrt();
    return at::relu(wide - (mean + deviation * deviations_)).to(gate.scalar_type());
  }

  ops::Activation activation_;
  double share_, deviations_ = 0;
  const nn::GatedMlp* dense_ = nullptr;  // null: something is cut off
  nn::Linear *gate_proj = nullptr, *up_proj = nullptr, *down_proj = nullptr;
};

class Laurel final : public Module {
 public:
  explicit Laurel(const Gemma3nShape& s)
      : linear_left(child<nn::Linear>("linear_left", s.hidden, s.laurel, fresh_with(s.std))),
        linear_right(child<nn::Linear>("linear_right", s.laurel, s.hidden, fresh_with(s.std))),
        post_laurel_norm(child<nn::RmsNorm>("post_laurel_norm", s.hidden, s.norm())) {}
  Tensor operator()(const Tensor& x_1ND, const Pass& pass) const {
    return x_1ND + post_laurel_norm(linear_right(linear_left(x_1ND, pass), pass));
  }

 private:
  nn::Linear &linear_left, &linear_right;
  nn::RmsNorm& post_laurel_norm;
};

// How streams are mixed before a block, and corrected behind it, by what their active one is like.
class AltUp final : public Module {
 public:
  explicit AltUp(const Gemma3nShape& shape)
      : s(shape),
        correct_output_scale(parameter("correct_output_scale", {s.hidden}, {.kind = Init::Kind::zeros})),
        correction_coefs(child<nn::Linear>("correction_coefs", s.streams, s.streams, fresh_with(s.std))),
        prediction_coefs(child<nn::Linear>("prediction_coefs", s.streams, s.streams * s.streams, fresh_with(s.std))),
        modality_router(child<nn::Linear>("modality_router", s.hidden, s.streams, fresh_with(s.std))),
        router_norm(child<nn::RmsNorm>("router_norm", s.hidden, s.norm())) {}

  Tensor predicted(const Tensor& x_NAD, const Pass& pass) const {
    const Tensor like_NA = likeness(x_NAD.select(1, s.active), pass);
    const Tensor mix_NAA = clipped(prediction_coefs, like_NA, pass).unflatten(-1, {s.streams, s.streams});
    return at::matmul(mix_NAA, x_NAD) + x_NAD;
  }
  Tensor corrected(const Tensor& predicted_NAD, const Tensor& made_ND, const Pass& pass) const {
    const Tensor by_NA = clipped(correction_coefs, likeness(made_ND, pass), pass) + 1;
    const Tensor new_ND = made_ND - predicted_NAD.select(1, s.active);
    return predicted_NAD + new_ND.unsqueeze(1) * by_NA.unsqueeze(-1);
  }
  Tensor for_inputs(const Tensor& corrected_NAD) const {
    const Tensor active_ND = corrected_NAD.select(1, s.active);
    return s.scales_corrected ? active_ND * correct_output_scale.use() : active_ND;
  }

 private:
  Tensor likeness(const Tensor& x_ND, const Pass& pass) const {
    const Tensor routed_NA = modality_router(router_norm(x_ND) / static_cast<double>(s.hidden), pass);
    return at::tanh(routed_NA.to(at::toOpMathType(routed_NA.scalar_type()))).to(x_ND.scalar_type());
  }
  // In training weights count no further than that.
  Tensor clipped(const nn::Linear& product, const Tensor& x_NA, const Pass& pass) const {
    if (!pass.training) return product(x_NA, pass);
    const Tensor weight = at::clamp(product.weight.use(), -s.coefficient_clip, s.coefficient_clip);
    return nn::adapt(at::linear(x_NA, weight), x_NA, product.weight, pass);
  }

  const Gemma3nShape& s;
  Weight& correct_output_scale;
  nn::Linear &correction_coefs, &prediction_coefs, &modality_router;
  nn::RmsNorm& router_norm;
};

class Gemma3nBlock final : public Block {
 public:
  Gemma3nBlock(const Gemma3nShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape),
        self_attn(child<Gemma4Attention>("self_attn", s, ropes, layer)),
        mlp(child<Gemma3nMlp>("mlp", s, layer)),
        altup(child<AltUp>("altup", s)),
        laurel(child<Laurel>("laurel", s)),
        per_layer_input_gate(
            child<nn::Linear>("per_layer_input_gate", s.hidden, s.per_layer, fresh_with(s.std))),
        per_layer_projection(
            child<nn::Linear>("per_layer_projection", s.per_layer, s.hidden, fresh_with(s.std))) {}

  Tensor forward(const Tensor& x_1NW, Pass& pass) const override {
    const Tensor predicted_NAD = altup.predicted(x_1NW.view({-1, s.streams, s.hidden}), pass);
    const Tensor active_1ND = predicted_NAD.select(1, s.active).unsqueeze(0);
    const Tensor normed_1ND = input_layernorm(active_1ND);
    const Tensor seen_1ND = active_1ND + post_attention_layernorm(self_attn(normed_1ND, pass));
    const Tensor sum_1ND = (seen_1ND + laurel(normed_1ND, pass)) / std::sqrt(2.0);
    const Tensor made_1ND = sum_1ND + post_feedforward_layernorm(mlp(pre_feedforward_layernorm(sum_1ND), pass));
    const Tensor corrected_NAD = altup.corrected(predicted_NAD, made_1ND.squeeze(0), pass);
    const Tensor brought_ND = of_input(altup.for_inputs(corrected_NAD).unsqueeze(0), pass).squeeze(0);
    const std::vector<Tensor> first_and_others = corrected_NAD.split_with_sizes({1, s.streams - 1}, 1);
    return at::cat({first_and_others[0], first_and_others[1] + brought_ND.unsqueeze(1)}, 1).view(x_1NW.sizes());
  }

 private:
  Tensor of_input(const Tensor& x_1ND, Pass& pass) const {
    const Tensor& input_1NP = nn::left(pass, input_of(pass.layer));
    const Tensor gated = ops::gated(per_layer_input_gate(x_1ND, pass), input_1NP, s.activation);
    return post_per_layer_input_norm(per_layer_projection(gated, pass));
  }
  nn::RmsNorm& norm(const char* name) { return child<nn::RmsNorm>(name, s.hidden, s.norm()); }

  const Gemma3nShape& s;
  Gemma4Attention& self_attn;
  Gemma3nMlp& mlp;
  AltUp& altup;
  Laurel& laurel;
  nn::Linear &per_layer_input_gate, &per_layer_projection;
  nn::RmsNorm &input_layernorm = norm("input_layernorm"), &post_attention_layernorm = norm("post_attention_layernorm"),
              &pre_feedforward_layernorm = norm("pre_feedforward_layernorm"),
              &post_feedforward_layernorm = norm("post_feedforward_layernorm"),
              &post_per_layer_input_norm = norm("post_per_layer_input_norm");
};

// One stream becomes several before the first block, and several one behind the last.
class Streams final : public Module {
 public:
  explicit Streams(const Gemma3nShape& shape) : s(shape) {
    for (std::int64_t i = 0; i + 1 < s.streams; ++i) into.push_back(&product("altup_projections", i));
    for (std::int64_t i = 0; i + 1 < s.streams; ++i) out_of.push_back(&product("altup_unembed_projections", i));
  }
  Tensor from_one(const Tensor& x_BTD, const Pass& pass) const {
    const Tensor size = size_of(x_BTD, /*least=*/0);
    std::vector<Tensor> all{x_BTD};
    for (const nn::Linear* one : into) all.push_back(as_large(size, (*one)(x_BTD, pass)));
    return at::cat(all, -1);
  }
  Tensor to_one(const Tensor& x_1NW, const Pass& pass) const {
    const std::vector<Tensor> each_1ND = x_1NW.split(s.hidden, -1);
    const Tensor size = size_of(each_1ND[0], /*least=*/0);
    std::vector<Tensor> all{each_1ND[0]};
    for (std::size_t i = 0; i < out_of.size(); ++i) all.push_back(as_large(size, (*out_of[i])(each_1ND[i + 1], pass)));
    return at::stack(all).mean(0);
  }

 private:
  // Of each token; least: of its square.
  static Tensor size_of(const Tensor& x, double least) {
    const Tensor square = x.to(at::toOpMathType(x.scalar_type())).square().mean(-1, /*keepdim=*/true);
    return (least > 0 ? square.clamp_min(least) : square).sqrt();
  }
  static Tensor as_large(const Tensor& size, const Tensor& x) {
    return (x * size / size_of(x, /*least=*/1e-5)).to(x.scalar_type());
  }
  nn::Linear& product(const char* name, std::int64_t i) {
    return child<nn::Linear>(fmt::format("{}.{}", name, i), s.hidden, s.hidden, fresh_with(s.std));
  }

  const Gemma3nShape& s;
  std::vector<const nn::Linear*> into, out_of;
};

class Gemma3n final : public LlamaModel<Gemma3nBlock, Gemma3nShape> {
 public:
  Gemma3n(const Gemma3nConfig& config, const HeadRequest& head)
      : LlamaModel(shape_with(config, head)), config_(config) {
    inputs = &child<Gemma4Inputs>(s.body, s);
    streams = &child<Streams>(s.body, s);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = LlamaModel::embed(batch, pass);
    inputs->leave(batch.ids_BT.masked_fill(batch.ids_BT >= s.per_layer_vocab, 0), x_BTD, pass);
    return streams->from_one(x_BTD, pass);
  }
  Tensor finish(const Tensor& x_1NW, Pass& pass) const override {
    return LlamaModel::finish(streams->to_one(x_1NW, pass), pass);
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (std::int64_t i = 0; i < s.layers; ++i)
      spec.layers.push_back(s.shares(i) ? CacheSpec::Layer{}
                                        : CacheSpec::Layer{s.kv_heads, s.head_size, s.windows[i]});
    return spec;
  }
  // Published files have keys and values of layers that use those of others.
  bool is_no_weight(const std::string& tensor) const override {
    const std::optional<std::int64_t> layer = layer_of(tensor);
    if (!layer || *layer < 0 || *layer >= s.layers || !s.shares(*layer)) return false;
    const auto is_of = [&](const char* name) { return tensor.find(name) != std::string::npos; };
    return is_of(".self_attn.k_proj.") || is_of(".self_attn.v_proj.") || is_of(".self_attn.k_norm.");
  }
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  double embedding_scale() const override { return rounded(s.embedding_scale, model.embed_tokens.weight); }

  const Gemma3nConfig config_;
  const Gemma4Inputs* inputs = nullptr;
  const Streams* streams = nullptr;
};

}  // namespace

void register_gemma3n(Registries& hone) {
  hone.models.add<Gemma3n, Gemma3nConfig>("gemma3n_text", "Gemma 3n, text.");
}

}  // namespace hone::models
