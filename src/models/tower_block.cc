// The block of towers of pictures of one size.
#include "models/tower_block.h"

#include <ATen/ATen.h>

namespace hone::models {
namespace {

nn::Linear::Options product_of(double std) { return {.bias = true, .std = std}; }

}  // namespace

TowerBlock::Attention::Attention(const TowerBlockShape& shape)
    : s(shape),
      k_proj(child<nn::Linear>("k_proj", s.hidden, s.hidden, product_of(s.qkv_std))),
      v_proj(child<nn::Linear>("v_proj", s.hidden, s.hidden, product_of(s.qkv_std))),
      q_proj(child<nn::Linear>("q_proj", s.hidden, s.hidden, product_of(s.qkv_std))),
      out_proj(child<nn::Linear>("out_proj", s.hidden, s.hidden, product_of(s.out_std))) {}

Tensor TowerBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  const auto qkv = nn::linears(x_1PD, {&q_proj, &k_proj, &v_proj}, pass);
  const auto heads = [&](const Tensor& x) { return x.view({-1, s.heads, s.hidden / s.heads}); };
  const Tensor seen_PHK = attend_in_tower(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), view, s.dropout, pass);
  return out_proj(seen_PHK.flatten(1).unsqueeze(0), pass);
}

TowerBlock::TowerBlock(const TowerBlockShape& s, std::int64_t layer)
    : layer_(layer),
      self_attn(child<Attention>("self_attn", s)),
      layer_norm1(child<nn::LayerNorm>("layer_norm1", s.hidden, s.eps)),
      mlp(child<TowerMlp>("mlp", TowerMlp::Options{s.hidden, s.inner, s.activation, s.up_std, s.down_std})),
      layer_norm2(child<nn::LayerNorm>("layer_norm2", s.hidden, s.eps)) {}

void TowerBlock::add_to(nn::Residual& x, const TowerView& given, const Pass& pass) const {
  TowerView view = given;
  view.layer = layer_;
  x += self_attn(layer_norm1(x), view, pass);
  x += mlp(layer_norm2(x), pass);
}

ops::Documents each_picture(std::int64_t pictures, std::int64_t positions) {
  std::vector<ops::Span> spans;
  for (std::int64_t i = 0; i < pictures; ++i) spans.push_back({i * positions, (i + 1) * positions});
  return spans;
}

}  // namespace hone::models
