// DeBERTa: the encoder.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, P buckets of distances, M
// distances.
// Children carry Hugging Face's names.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hone/layers.h"
#include "models/deberta_config.h"
#include "models/encoder_model.h"
#include "models/encoder_parts.h"
#include "nn/disentangled.h"
#include "nn/plan.h"
#include "nn/shared_keys.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {

inline constexpr const char* kDistances =
    "distances";  // what the embeddings leave for all layers: the table, normalised

// The bucket of each distance -(m - 1), ..., m - 1, from 0 on. From half of the buckets on they are by logarithms, made
// in fp32 as transformers makes them: where one ends is a matter of rounding.
inline std::vector<std::int64_t> buckets_of_distances(std::int64_t most, std::int64_t buckets,
                                                      std::int64_t max_distance, std::int64_t span) {
  Tensor of_M = at::arange(-(most - 1), most, at::kLong);
  if (buckets > 0) {
    const std::int64_t mid = buckets / 2;
    const Tensor far_M = at::where(of_M.abs() < mid, at::full_like(of_M, mid - 1), of_M.abs());
    const auto ratio = static_cast<double>(max_distance - 1) / static_cast<double>(mid);
    const Tensor all = at::scalar_tensor(ratio, at::kFloat).log();
    const Tensor by_log_M = at::ceil((far_M / mid).log() / all * (mid - 1)) + mid;
    of_M = at::where(far_M <= mid, of_M.to(at::kFloat), by_log_M * of_M.sign()).to(at::kLong);
  }
  of_M = (of_M + span).clamp(0, 2 * span - 1).contiguous();
  const auto values = host::values<std::int64_t>(of_M);
  return {values.begin(), values.end()};
}

// What all parts of a model look at.
struct Deberta {
  Deberta(const DebertaConfig& config, const HeadRequest& head) : Deberta(config, resolve(config, head)) {}
  Deberta(const DebertaConfig& config, const DebertaShape& shape)
      : c(config),
        s(shape),
        buckets(s.c2p || s.p2c ? buckets_of_distances(std::max<std::int64_t>(c.max_position_embeddings, 512),
                                                      c.position_buckets, s.max_distance, s.span)
                               : std::vector<std::int64_t>()) {}
  const DebertaConfig c;
  const DebertaShape s;
  const std::vector<std::int64_t> buckets;
  nn::Linear::Options linear() const { return {.bias = true, .std = c.initializer_range}; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, c.hidden_dropout_prob, pass, place);
  }
  // Of a document that is longer than the model was made for, too.
  std::vector<std::int64_t> buckets_for(std::int64_t most) const {
    return 2 * most - 1 <= std::ssize(buckets) ? buckets
                                               : buckets_of_distances(most, c.position_buckets, s.max_distance, s.span);
  }
};

class DebertaEmbeddings final : public Module {
 public:
  explicit DebertaEmbeddings(const Deberta& deberta) : d(deberta) {
    if (d.c.position_biased_input) position_embeddings = &table("position_embeddings", d.c.max_position_embeddings);
    if (d.c.type_vocab_size > 0) token_type_embeddings = &table("token_type_embeddings", d.c.type_vocab_size);
  }
  Tensor operator()(const Batch& batch, Pass& pass) const {
    Tensor x_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    if (position_embeddings) x_BTD = x_BTD + (*position_embeddings)(nn::positions(pass), pass);
    if (token_type_embeddings)
      x_BTD = x_BTD + embedded_types(*token_type_embeddings, d.c.type_vocab_size, batch, pass);
    return d.drop(layer_norm(x_BTD), pass, "embeddings");
  }
  nn::Embedding& table(const char* name, std::int64_t rows, std::int64_t no_gradient_id = -1) {
    return child<nn::Embedding>(name, rows, d.c.hidden_size, d.c.initializer_range, no_gradient_id);
  }

  const Deberta& d;
  nn::Embedding& word_embeddings = table("word_embeddings", d.c.vocab_size, d.s.no_gradient_id);
  nn::Embedding *position_embeddings = nullptr, *token_type_embeddings = nullptr;
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", d.c.hidden_size, d.c.layer_norm_eps);
};

class DebertaSelfAttention final : public Module {
 public:
  explicit DebertaSelfAttention(const Deberta& deberta) : d(deberta) {
    if (d.s.joined) {
      make_joined();
      return;
    }
    query_proj = &square("query_proj"), key_proj = &square("key_proj"), value_proj = &square("value_proj");
    if (d.c.share_att_key) return;
    if (d.s.c2p) pos_key_proj = &square("pos_key_proj");
    if (d.s.p2c) pos_query_proj = &square("pos_query_proj");
  }
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const std::vector<Tensor> qkv = d.s.joined ? joined(x_1ND, pass)
                                               : nn::linears(x_1ND, {query_proj, key_proj, value_proj}, pass);
    ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(d.s.head_size * (1 + d.s.kinds))),
                                  .mask = ops::Mask::full(),
                                  .dropout = d.c.attention_probs_dropout_prob};
    const Tensor q = heads(qkv[0]), k = heads(qkv[1]), v = heads(qkv[2]);
    const bool by_distance = d.s.c2p || d.s.p2c;
    const Tensor seen_NHK = by_distance ? nn::attend_by_distance(q, k, v, distances(pass), pass, options)
                                        : nn::attend(q, k, v, pass, options);
    return seen_NHK.flatten(1).unsqueeze(0);
  }

 private:
  nn::Linear& square(const char* name, bool bias = true) {
    return child<nn::Linear>(name, d.c.hidden_size, d.c.hidden_size,
                             nn::Linear::Options{.bias = bias, .std = d.c.initializer_range});
  }
  void make_joined() {
    const std::int64_t hidden = d.c.hidden_size;
    const auto bias = [&](const char* name) {
      return &parameter(name, {hidden}, {.kind = Init::Kind::zeros}, /*decays=*/false);
    };
    in_proj = &child<nn::Linear>("in_proj", hidden, 3 * hidden,
                                 nn::Linear::Options{.bias = false, .std = d.c.initializer_range});
    q_bias = bias("q_bias"), v_bias = bias("v_bias");
    if (d.s.c2p) pos_key_proj = &square("pos_proj", /*bias=*/false);
    if (d.s.p2c) pos_query_proj = &square("pos_q_proj");
  }
  std::vector<Tensor> joined(const nn::Input& x_1ND, Pass& pass) const {
    const Tensor all = nn::linears(x_1ND, {in_proj}, pass)[0].view({-1, d.c.num_attention_heads, 3, d.s.head_size});
    const auto part = [&](std::int64_t which) { return all.select(2, which).flatten(1); };
    return {part(0) + q_bias->use(), part(1), part(2) + v_bias->use()};
  }
  Tensor heads(const Tensor& x) const { return x.view({-1, d.c.num_attention_heads, d.s.head_size}); }

  // Of the rows of the table alone that the pass's documents have distances for.
  ops::DistanceScores distances(Pass& pass) const {
    std::int64_t longest = 1;
    for (const ops::Span& span : pass.plan().documents().spans()) longest = std::max(longest, span.end - span.begin);
    ops::DistanceScores made{.buckets = d.buckets_for(longest)};
    const std::int64_t middle = std::ssize(made.buckets) / 2;
    const auto begin = made.buckets.begin() + middle - (longest - 1), end = made.buckets.begin() + middle + longest;
    const std::int64_t low = *begin, high = *(end - 1);
    made.buckets = {begin, end};
    for (std::int64_t& bucket : made.buckets) bucket -= low;
    const Tensor& table_PD = nn::left(pass, kDistances);
    const Tensor rows_PD = d.drop(table_PD.slice(0, low, high + 1), pass, "distances");
    if (d.s.c2p) made.keys_PHK = heads((*(d.c.share_att_key ? key_proj : pos_key_proj))(rows_PD, pass));
    if (d.s.p2c) made.queries_PHK = heads((*(d.c.share_att_key ? query_proj : pos_query_proj))(rows_PD, pass));
    return made;
  }

  const Deberta& d;
  nn::Linear *query_proj = nullptr, *key_proj = nullptr, *value_proj = nullptr, *in_proj = nullptr;
  Weight *q_bias = nullptr, *v_bias = nullptr;
  nn::Linear *pos_key_proj = nullptr, *pos_query_proj = nullptr;
};

// Beside the first layer: each token with its neighbours in the document, of what the embeddings gave.
class DebertaConvolution final : public Module {
 public:
  explicit DebertaConvolution(const Deberta& deberta) : d(deberta) {}
  Tensor operator()(const Tensor& x_1ND, const Tensor& y_1ND, Pass& pass) const {
    const Tensor made_1ND = d.drop(convolved(x_1ND.squeeze(0), pass).unsqueeze(0), pass, "convolution");
    return layer_norm(y_1ND + activated(made_1ND, d.s.conv_activation));
  }

 private:
  // What lies outside of the document is 0.
  Tensor convolved(const Tensor& x_ND, Pass& pass) const {
    const std::int64_t taps = d.c.conv_kernel_size, none = x_ND.size(0);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(none * taps), none);
    for (const ops::Span& span : pass.plan().documents().spans())
      for (std::int64_t i = span.begin; i < span.end; ++i)
        for (std::int64_t tap = 0; tap < taps; ++tap)
          if (const std::int64_t at = i + tap - taps / 2; at >= span.begin && at < span.end)
            rows[static_cast<std::size_t>(i * taps + tap)] = at;
    const Tensor padded_ND = at::cat({x_ND, at::zeros_like(x_ND.slice(0, 0, 1))});
    const Tensor seen =
        padded_ND.index_select(0, devices::sent(host::tensor_of(rows, {std::ssize(rows)}), x_ND.device()));
    const Tensor by_tap = weight.use().permute({0, 2, 1}).flatten(1);  // [D, taps * D]
    return at::linear(seen.view({none, -1}), by_tap, bias.use());
  }

  const Deberta& d;
  Weight& weight = parameter("conv.weight", {d.c.hidden_size, d.c.hidden_size, d.c.conv_kernel_size},
                             {.std = d.c.initializer_range});
  Weight& bias = parameter("conv.bias", {d.c.hidden_size}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", d.c.hidden_size, d.c.layer_norm_eps);
};

class DebertaLayer final : public Block {
 public:
  DebertaLayer(const Deberta& deberta, std::int64_t) : d(deberta) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    nn::Residual x(x_1ND);
    const Tensor attended_1ND = attention_output(self(x_1ND, pass), x, pass, "attention");
    nn::Residual y(attended_1ND);
    const Tensor made_1ND = output(nn::activate(intermediate(attended_1ND, pass), d.s.activation), y, pass, "mlp");
    return convolution ? (*convolution)(x_1ND, made_1ND, pass) : made_1ND;
  }
  const DebertaConvolution* convolution = nullptr;  // of the first layer

 private:
  const Deberta& d;
  DebertaSelfAttention& self = child<DebertaSelfAttention>("attention.self", d);
  EncoderOutput& attention_output = child<EncoderOutput>("attention.output", d.c, d.c.hidden_size);
  nn::Linear& intermediate =
      child<nn::Linear>("intermediate.dense", d.c.hidden_size, d.c.intermediate_size, d.linear());
  EncoderOutput& output = child<EncoderOutput>("output", d.c, d.c.intermediate_size);
};

class DebertaEncoder final : public Module {
 public:
  explicit DebertaEncoder(const Deberta& deberta) : d(deberta) {
    for (std::int64_t i = 0; i < d.c.num_hidden_layers; ++i)
      layers.push_back(&child<DebertaLayer>("layer." + std::to_string(i), d, i));
    if (d.c.relative_attention)
      rel_embeddings = &child<nn::Embedding>("rel_embeddings", 2 * d.s.span, d.c.hidden_size, d.c.initializer_range);
    if (d.s.norms_distances) layer_norm = &child<nn::LayerNorm>("LayerNorm", d.c.hidden_size, d.c.layer_norm_eps);
    if (d.c.conv_kernel_size > 0) layers[0]->convolution = &child<DebertaConvolution>("conv", d);
  }
  // The whole table, with what sits on it.
  Tensor distances(const Pass& pass) const {
    const auto whole = at::TensorOptions(rel_embeddings->weight.use().device()).dtype(at::kLong);
    const Tensor table_PD = (*rel_embeddings)(at::arange(2 * d.s.span, whole), pass);
    return layer_norm ? (*layer_norm)(table_PD) : table_PD;
  }

  const Deberta& d;
  std::vector<DebertaLayer*> layers;
  nn::Embedding* rel_embeddings = nullptr;
  nn::LayerNorm* layer_norm = nullptr;
};

struct DebertaBody final : Module {
  explicit DebertaBody(const Deberta& deberta) : d(deberta) {}
  const Deberta& d;
  DebertaEmbeddings& embeddings = child<DebertaEmbeddings>("embeddings", d);
  DebertaEncoder& encoder = child<DebertaEncoder>("encoder", d);
};

}  // namespace hone::models
