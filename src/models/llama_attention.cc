// Attention of Llama and its relatives.
#include "models/llama_attention.h"

#include <ATen/ATen.h>

#include "nn/plan.h"
#include "ops/rope.h"

namespace hone::models {
namespace {

// The first values of each head alone, as many as there are angles for twice. Neighbours that are turned together come
// to stand as far apart as ops::rope has them, and stay there: scores of queries and keys are the same.
Tensor partly_rotated(const Tensor& x_NHK, std::int64_t size, bool neighbours, const ops::RopeTable& table) {
  const Tensor part = x_NHK.narrow(-1, 0, size);
  const Tensor turned =
      ops::rope(neighbours ? part.unflatten(-1, {size / 2, 2}).mT().flatten(-2) : part.contiguous(), table);
  return size == x_NHK.size(-1) ? turned : at::cat({turned, x_NHK.narrow(-1, size, x_NHK.size(-1) - size)}, -1);
}

}  // namespace

LlamaRopes::LlamaRopes(const LlamaShape& shape)
    : s(shape), rope_(s.rope, s.rope.rotated(s.head_size), s.max_positions) {
  if (s.sliding_rope) sliding_.emplace(*s.sliding_rope, s.sliding_rope->rotated(s.head_size), s.max_positions);
}

const nn::Rope* LlamaRopes::of(std::int64_t layer) const {
  const auto at = static_cast<std::size_t>(layer);
  if (!s.unrotated.empty() && s.unrotated[at]) return nullptr;
  return sliding_ && s.windows[at] > 0 ? &*sliding_ : &rope_;
}

bool LlamaRopes::depend_on_length() const {
  const auto depends = [](const nn::Rope& rope) {
    return rope.config().rope_type == nn::RopeType::dynamic || rope.config().rope_type == nn::RopeType::longrope;
  };
  return depends(rope_) || (sliding_ && depends(*sliding_));
}

Tensor LayerAttention::operator()(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                                  const Tensor* sinks_H) const {
  const ops::AttentionOptions options{.scale = s.attention_scale,
                                      .mask = ops::Mask::causal(window_),
                                      .soft_cap = s.attention_soft_cap,
                                      .dropout = s.attention_dropout,
                                      .sinks = sinks_H};
  if (!rope_) return nn::attend(q_NHK, k_NGK, v_NGK, pass, options);
  const ops::RopeTable& table = pass.plan().rope(*rope_, q_NHK);
  const std::int64_t size = rope_->head_size();
  if (size == s.head_size && !s.rotates_neighbours)
    return nn::attend_rotated(q_NHK, k_NGK, v_NGK, table, pass, options);
  const auto turned = [&](const Tensor& x) { return partly_rotated(x, size, s.rotates_neighbours, table); };
  return nn::attend(turned(q_NHK), turned(k_NGK), v_NGK, pass, options);
}

LlamaAttention::LlamaAttention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
    : s(shape), attend_(shape, ropes, layer) {
  if (s.sinks) sinks = &parameter("sinks", {s.heads}, {.std = s.std});
  if (s.qk_norm == QkNorm::none) return;
  const auto width = [&](std::int64_t heads) { return s.qk_norm == QkNorm::head ? s.head_size : heads * s.head_size; };
  q_norm = &child<nn::RmsNorm>("q_norm", width(s.heads), s.norm());
  k_norm = &child<nn::RmsNorm>("k_norm", width(s.kv_heads), s.norm());
}

nn::Linear& LlamaAttention::projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
  return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
}

Tensor LlamaAttention::operator()(const nn::Input& x_1ND, Pass& pass) const {
  auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
  if (s.qk_norm == QkNorm::row) qkv[0] = (*q_norm)(qkv[0]), qkv[1] = (*k_norm)(qkv[1]);
  const auto heads = [&](const Tensor& x, std::int64_t count) { return x.view({-1, count, s.head_size}); };
  Tensor q_NHK = heads(qkv[0], s.heads), k_NGK = heads(qkv[1], s.kv_heads);
  const Tensor v_NGK = heads(qkv[2], s.kv_heads);
  if (s.qk_norm == QkNorm::head) q_NHK = (*q_norm)(q_NHK), k_NGK = (*k_norm)(k_NGK);
  const Tensor* sinks_H = sinks ? &sinks->use() : nullptr;
  return o_proj(attend_(q_NHK, k_NGK, v_NGK, pass, sinks_H).flatten(1).unsqueeze(0), pass);
}

void LlamaAttention::describe(nn::PreNormLayer& layer, const Pass& pass) const {
  layer.q = q_proj.with_adapter(pass), layer.k = k_proj.with_adapter(pass), layer.v = v_proj.with_adapter(pass);
  layer.o = o_proj.with_adapter(pass);
  layer.window = attend_.window(), layer.rope = attend_.rope();
  if (s.qk_norm != QkNorm::none) layer.q_norm = q_norm->weight.use(), layer.k_norm = k_norm->weight.use();
}

}  // namespace hone::models
