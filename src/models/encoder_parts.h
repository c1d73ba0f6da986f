// Parts of encoders' blocks.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "hone/layers.h"
#include "models/encoder_keys.h"
#include "nn/plan.h"
#include "tensor/host.h"

namespace hone::models {

// What each head sees of the whole document, side by side [1,N,D]; qkv: queries, keys and values of all heads.
inline Tensor attend_in_heads(const std::vector<Tensor>& qkv, const EncoderShape& s, double dropout, Pass& pass,
                              const ops::RelativeBias* bias = nullptr) {
  const auto heads = [&](const Tensor& x) { return x.view({-1, s.heads, s.head_size}); };
  ops::AttentionOptions options{
      .scale = 1 / std::sqrt(static_cast<double>(s.head_size)), .mask = ops::Mask::full(), .dropout = dropout};
  options.bias = bias;
  return nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options).flatten(1).unsqueeze(0);
}

// The product that ends a half of a block, and the norm behind the addition to what the half began with.
class EncoderOutput final : public Module {
 public:
  template <class Usual>
  EncoderOutput(const EncoderKeys<Usual>& c, std::int64_t width)
      : dropout_(c.hidden_dropout_prob),
        dense(child<nn::Linear>("dense", width, c.hidden_size,
                                nn::Linear::Options{.bias = true, .std = c.initializer_range})),
        layer_norm(child<nn::LayerNorm>("LayerNorm", c.hidden_size, c.layer_norm_eps)) {}
  Tensor operator()(const Tensor& x_1ND, nn::Residual& residual, Pass& pass, std::string_view place) const {
    residual += nn::dropout(dense(x_1ND, pass), dropout_, pass, place);
    return layer_norm(residual);
  }

 private:
  const double dropout_;
  nn::Linear& dense;
  nn::LayerNorm& layer_norm;
};

// On a device the look-up itself refuses them.
inline void check_token_types(const Tensor& types_BT, std::int64_t count) {
  if (!types_BT.is_cpu() || types_BT.numel() == 0) return;
  const auto highest = static_cast<std::int64_t>(host::own_number(types_BT.max()));
  if (highest >= count)
    throw Error(ErrorKind::data, fmt::format("token type {}: beyond those of the model; expected 0 to {}, by "
                                             "type_vocab_size of config.json",
                                             highest, count - 1))
        .hint("the second text of a pair has type 1");
}

// A row for each token's type, of which a batch without types has the first alone.
inline Tensor embedded_types(const nn::Embedding& table, std::int64_t count, const Batch& batch, const Pass& pass) {
  const auto types = batch.extra.find("token_type_ids");
  const Tensor types_BT = types != batch.extra.end() ? types->second : at::zeros_like(batch.ids_BT);
  check_token_types(types_BT, count);
  return table(types_BT, pass);
}

}  // namespace hone::models
