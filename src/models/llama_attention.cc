// Attention of Llama and its relatives.
#include "models/llama_attention.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "nn/plan.h"
#include "nn/slices.h"
#include "ops/add_norm.h"
#include "ops/rope.h"

namespace hone::models {

Tensor partly_rotated(const Tensor& x_NHK, std::int64_t size, bool neighbours, const ops::RopeTable& table) {
  const Tensor part = x_NHK.narrow(-1, 0, size);
  const Tensor turned =
      ops::rope(neighbours ? part.unflatten(-1, {size / 2, 2}).mT().flatten(-2) : part.contiguous(), table);
  return size == x_NHK.size(-1) ? turned : at::cat({turned, x_NHK.narrow(-1, size, x_NHK.size(-1) - size)}, -1);
}

Tensor grown(const Tensor& q_NHK, const LlamaShape::QueryGrowth& growth, const Tensor& position_N) {
  const Tensor periods_N = position_N.div(growth.length, "floor").to(at::toOpMathType(q_NHK.scalar_type()));
  return q_NHK * periods_N.log1p().mul(growth.beta).add(1).to(q_NHK.scalar_type()).view({-1, 1, 1});
}

namespace {

// A LayerNorm of each head, whose weights are its own, of all heads in one tensor or in one each; in fp32 at least,
// rounded once.
class OwnLayerNorm final : public nn::Norm {
 public:
  OwnLayerNorm(std::int64_t heads, std::int64_t head_size, double eps, bool listed) : eps_(eps) {
    const Init ones{.kind = Init::Kind::ones};
    if (!listed) weights_ = {&parameter("weight", {heads, head_size}, ones, /*decays=*/false)};
    for (std::int64_t i = 0; listed && i < heads; ++i)
      weights_.push_back(&parameter(fmt::format("norms.{}.weight", i), {head_size}, ones, /*decays=*/false));
  }
  using Norm::operator();
  Tensor operator()(const Tensor& x_NHK) const override {
    const at::ScalarType wide = at::toOpMathType(x_NHK.scalar_type());
    const Tensor normed_NHK = at::layer_norm(x_NHK.to(wide), {x_NHK.size(-1)}, {}, {}, eps_);
    std::vector<Tensor> rows;
    for (const Weight* weight : weights_) rows.push_back(weight->use());
    const Tensor weight_HK = rows.size() == 1 ? rows[0].view({-1, x_NHK.size(-1)}) : at::stack(rows);
    return (normed_NHK * weight_HK.to(wide)).to(x_NHK.scalar_type());
  }
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override {
    const Tensor sum = residual.defined() ? x + residual : x;
    return {sum, (*this)(sum)};
  }

 private:
  double eps_;
  std::vector<Weight*> weights_;
};

// Of heads in layers that do not slide. Where no layer is rotated their size may be odd, and the rope is read by none.
std::int64_t rotated_size(const LlamaShape& s) {
  const auto is_rotated = std::find(s.unrotated.begin(), s.unrotated.end(), false);
  const bool none = !s.unrotated.empty() && is_rotated == s.unrotated.end();
  return none ? 2 : s.rope.rotated(s.global_head_size > 0 ? s.global_head_size : s.head_size);
}

}  // namespace

LlamaRopes::LlamaRopes(const LlamaShape& shape) : s(shape), rope_(s.rope, rotated_size(s), s.max_positions) {
  if (s.sliding_rope) sliding_.emplace(*s.sliding_rope, s.sliding_rope->rotated(s.head_size), s.max_positions);
  for (const double theta : s.thetas) {
    nn::RopeConfig config = s.rope;
    config.rope_theta = theta;
    if (theta > 0) by_theta_.try_emplace(theta, config, config.rotated(s.head_size), s.max_positions);
  }
}

const nn::Rope* LlamaRopes::of(std::int64_t layer) const {
  const auto at = static_cast<std::size_t>(layer);
  if (!s.unrotated.empty() && s.unrotated[at]) return nullptr;
  if (!s.thetas.empty()) return &by_theta_.at(s.thetas[at]);
  return sliding_ && s.windows[at] > 0 ? &*sliding_ : &rope_;
}

bool LlamaRopes::depend_on_length() const {
  const auto depends = [](const nn::Rope& rope) {
    return rope.config().rope_type == nn::RopeType::dynamic || rope.config().rope_type == nn::RopeType::longrope;
  };
  return depends(rope_) || (sliding_ && depends(*sliding_));
}

ops::AttentionOptions LayerAttention::options(const Tensor* sinks_H) const {
  return {.scale = s.attention_scale,
          .mask = s.sees_all ? ops::Mask::full(window_) : ops::Mask::causal(window_),
          .soft_cap = s.attention_soft_cap,
          .dropout = s.attention_dropout,
          .sinks = sinks_H};
}

Tensor LayerAttention::operator()(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                                  const Tensor* sinks_H) const {
  if (!rope_) return of_rotated(q_NHK, k_NGK, v_NGK, pass, sinks_H);
  const ops::RopeTable& table = pass.plan().rope(*rope_, q_NHK);
  // A factor of what is rotated may come before, but for a rounding. No token of a short batch has one.
  const bool grows = s.growth.beta != 0 && (pass.cache || pass.plan().row_length() > s.growth.length);
  const Tensor grown_NHK = grows ? grown(q_NHK, s.growth, table.rows_N) : q_NHK;
  if (rope_->head_size() == s.head_size && !s.rotates_neighbours)
    return nn::attend_rotated(grown_NHK, k_NGK, v_NGK, table, pass, options(sinks_H));
  return of_rotated(rotated(grown_NHK, pass), rotated(k_NGK, pass), v_NGK, pass, sinks_H);
}

Tensor LayerAttention::rotated(const Tensor& x_NHK, Pass& pass) const {
  if (!rope_) return x_NHK;
  return partly_rotated(x_NHK, rope_->head_size(), s.rotates_neighbours, pass.plan().rope(*rope_, x_NHK));
}

Tensor LayerAttention::of_rotated(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                                  const Tensor* sinks_H) const {
  return nn::attend(q_NHK, k_NGK, v_NGK, pass, options(sinks_H));
}

LlamaAttention::LlamaAttention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
    : s(shape), attend_(shape, ropes, layer) {
  nn::cut_outputs(q_proj, s.heads), nn::cut_inputs(o_proj, s.heads);
  for (const nn::Linear* linear : {&k_proj, &v_proj}) nn::cut_outputs(*linear, s.kv_heads * s.head_size);
  if (s.sinks) sinks = &parameter("sinks", {s.heads}, {.std = s.std});
  if (s.qk_norm == QkNorm::none) return;
  q_norm = &norm(s.q_norm, s.heads), k_norm = &norm(s.k_norm, s.kv_heads);
}

const nn::Norm& LlamaAttention::norm(const char* name, std::int64_t heads) {
  if (s.qk_norm == QkNorm::layer) return child<nn::LayerNorm>(name, s.head_size, s.eps);
  if (s.qk_norm == QkNorm::own || s.qk_norm == QkNorm::listed)
    return child<OwnLayerNorm>(name, heads, s.head_size, s.eps, s.qk_norm == QkNorm::listed);
  return child<nn::RmsNorm>(name, s.qk_norm == QkNorm::row ? heads * s.head_size : s.head_size, s.norm());
}

nn::Linear& LlamaAttention::projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
  return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
}

Tensor LlamaAttention::operator()(const nn::Input& x_1ND, Pass& pass) const {
  auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
  if (s.qk_norm == QkNorm::row) qkv[0] = (*q_norm)(qkv[0]), qkv[1] = (*k_norm)(qkv[1]);
  if (s.clip > 0)
    for (Tensor& x : qkv) x = x.clamp(-s.clip, s.clip);
  const auto heads = [&](const Tensor& x, const nn::Linear& of, std::int64_t count) {
    return nn::heads_of(x, of.weight, count, s.head_size, pass);
  };
  Tensor q_NHK = heads(qkv[0], q_proj, s.heads), k_NGK = heads(qkv[1], k_proj, s.kv_heads);
  const Tensor v_NGK = heads(qkv[2], v_proj, s.kv_heads);
  const bool late = s.qk_norm == QkNorm::rotated_head;
  if (late) q_NHK = attend_.rotated(q_NHK, pass), k_NGK = attend_.rotated(k_NGK, pass);
  if (q_norm && s.qk_norm != QkNorm::row) q_NHK = (*q_norm)(q_NHK), k_NGK = (*k_norm)(k_NGK);
  const Tensor* sinks_H = sinks ? &sinks->use() : nullptr;
  const Tensor y_NHK =
      late ? attend_.of_rotated(q_NHK, k_NGK, v_NGK, pass, sinks_H) : attend_(q_NHK, k_NGK, v_NGK, pass, sinks_H);
  return o_proj(y_NHK.flatten(1).unsqueeze(0), pass);
}

void LlamaAttention::describe(nn::PreNormLayer& layer, const Pass& pass) const {
  layer.q = q_proj.with_adapter(pass), layer.k = k_proj.with_adapter(pass), layer.v = v_proj.with_adapter(pass);
  layer.o = o_proj.with_adapter(pass);
  layer.window = attend_.window(), layer.rope = attend_.rope();
  if (sinks) layer.sinks_H = sinks->use();
  // The short way is of RMSNorms alone, and rotates halves.
  layer.is_known &= !s.rotates_neighbours;
  layer.is_known &= s.qk_norm == QkNorm::none || s.qk_norm == QkNorm::head || s.qk_norm == QkNorm::row;
  const auto weight = [](const nn::Norm* norm) { return static_cast<const nn::RmsNorm*>(norm)->weight.use(); };
  if (q_norm && layer.is_known) layer.q_norm = weight(q_norm), layer.k_norm = weight(k_norm);
}

}  // namespace hone::models
