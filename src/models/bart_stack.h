// The parts of BART and its relatives: blocks with a norm behind each sum or before each part, positions that are
// learned or waves.
//
// Letters in tensor names: S tokens of sources, N of sources or targets, D hidden, H heads, K head size.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "hone/layers.h"
#include "models/bart_config.h"
#include "models/encoder_decoder.h"
#include "nn/sources.h"

namespace hone::models {

inline nn::Linear::Options bart_linear(const BartShape& s) { return {.bias = true, .std = s.std}; }

class BartAttention final : public Module {
 public:
  enum class Of { sources, targets, targets_to_sources };
  BartAttention(const BartShape& shape, Of of)
      : s(shape), of_(of), heads_(of == Of::sources ? s.encoder.heads : s.decoder.heads) {}

  Tensor operator()(const nn::Input& x, Pass& pass) const {
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(s.hidden / heads_)),
                                        .dropout = s.attention_dropout};
    if (of_ == Of::targets_to_sources) {
      const auto keys = [&] {
        const auto kv = nn::linears(encoded(pass), {&k_proj, &v_proj}, pass);
        return nn::KeysAndValues(heads(kv[0]), heads(kv[1]));
      };
      return out(nn::attend_to_sources(heads(nn::linears(x, {&q_proj}, pass)[0]), keys, pass, options), pass);
    }
    const auto qkv = nn::linears(x, {&q_proj, &k_proj, &v_proj}, pass);
    const auto attend = of_ == Of::sources ? nn::attend_within_sources : nn::attend;
    return out(attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options), pass);
  }

 private:
  Tensor heads(const Tensor& x) const { return x.view({-1, heads_, s.hidden / heads_}); }
  Tensor out(const Tensor& y_NHK, Pass& pass) const { return out_proj(y_NHK.flatten(1).unsqueeze(0), pass); }
  nn::Linear& square(const char* name) { return child<nn::Linear>(name, s.hidden, s.hidden, bart_linear(s)); }
  const BartShape& s;
  const Of of_;
  const std::int64_t heads_;
  nn::Linear &k_proj = square("k_proj"), &v_proj = square("v_proj"), &q_proj = square("q_proj"),
             &out_proj = square("out_proj");
};

// A block's parts and their norms, as both sides have them.
class BartBlock : public nn::ResidualBlock {
 public:
  BartBlock(const BartShape& shape, const BartSide& side, BartAttention::Of of, std::int64_t index)
      : s(shape), side_(side), of_(of), index_(index) {}

 protected:
  // x and what `part` makes of it.
  template <class Part>
  void add(nn::Residual& x, const nn::LayerNorm& norm, Pass& pass, std::string_view place, const Part& part) const {
    if (s.norms_first) {
      x += nn::dropout(part(norm(x)), s.dropout, pass, place);
      return;
    }
    x += nn::dropout(part(nn::Input(x.sum())), s.dropout, pass, place);
    const Tensor normed = norm(x);
    x = nn::Residual(normed);
  }
  void add_attention(nn::Residual& x, Pass& pass) const {
    add(x, self_attn_layer_norm, pass, "attention", [&](const nn::Input& in) { return self_attn(in, pass); });
  }
  void add_mlp(nn::Residual& x, Pass& pass) const {
    add(x, final_layer_norm, pass, "mlp", [&](const nn::Input& in) {
      const Tensor inner = nn::activate(nn::linears(in, {&fc1}, pass)[0], s.activation);
      return fc2(nn::dropout(inner, s.activation_dropout, pass, "inner"), pass);
    });
  }
  nn::LayerNorm& norm(const char* name) { return child<nn::LayerNorm>(name, s.hidden, kEps); }

  static constexpr double kEps = 1e-5;
  const BartShape& s;
  const BartSide& side_;
  const BartAttention::Of of_;
  const std::int64_t index_;

 private:
  BartAttention& self_attn = child<BartAttention>("self_attn", s, of_);
  nn::LayerNorm& self_attn_layer_norm = norm("self_attn_layer_norm");
  nn::Linear &fc1 = child<nn::Linear>("fc1", s.hidden, side_.inner, bart_linear(s)),
             &fc2 = child<nn::Linear>("fc2", side_.inner, s.hidden, bart_linear(s));
  nn::LayerNorm& final_layer_norm = norm("final_layer_norm");
};

// What words become with their positions, and what stands behind the last block.
class BartEnds : public Module {
 public:
  explicit BartEnds(const BartShape& shape) : s(shape) {
    // Two rows of the table stand before the first position.
    if (s.learned_positions)
      embed_positions_ = &child<nn::Embedding>("embed_positions", s.positions + kFirstPosition, s.hidden, s.std);
    if (s.normed_embeddings) layernorm_embedding_ = &child<nn::LayerNorm>("layernorm_embedding", s.hidden, 1e-5);
    if (s.norms_first) layer_norm_ = &child<nn::LayerNorm>("layer_norm", s.hidden, 1e-5);
  }
  Tensor embed(const Tensor& words, const Tensor& positions, Pass& pass, std::string_view place) const {
    const Tensor x =
        words + (embed_positions_ ? (*embed_positions_)(positions + kFirstPosition, pass) : waves(positions, words));
    return nn::dropout(layernorm_embedding_ ? (*layernorm_embedding_)(x) : x, s.dropout, pass, place);
  }
  Tensor finish(const Tensor& x) const { return layer_norm_ ? (*layer_norm_)(x) : x; }

 private:
  // Sines of places at frequencies from 1 to 1/10000, then their cosines. Of an odd width tensor2tensor's, which end
  // sooner, have a 0 behind them.
  Tensor waves(const Tensor& positions, const Tensor& like) const {
    const auto wide = positions.options().dtype(at::kDouble);
    const std::int64_t cosines = s.hidden / 2, sines = s.waves_end_sooner ? cosines : (s.hidden + 1) / 2;
    const double whole = s.waves_end_sooner ? static_cast<double>(sines - 1) : static_cast<double>(s.hidden) / 2;
    const Tensor steps = at::arange(sines, wide) * (-std::log(10000.0) / whole);
    const Tensor angles = (positions + s.first_wave).to(at::kDouble).unsqueeze(-1) * steps.exp();
    const Tensor made = at::cat({angles.sin(), angles.narrow(-1, 0, cosines).cos()}, -1);
    return at::constant_pad_nd(made, {0, s.hidden - made.size(-1)}).to(like.scalar_type());
  }
  static constexpr std::int64_t kFirstPosition = 2;
  const BartShape& s;
  nn::Embedding* embed_positions_ = nullptr;      // null: waves
  nn::LayerNorm* layernorm_embedding_ = nullptr;  // null: none
  nn::LayerNorm* layer_norm_ = nullptr;           // likewise
};

}  // namespace hone::models
