// MPNet (Song et al., 2020, arXiv:2004.09297): BERT's encoder without token types, whose scores have a bias by distance
// that all layers share; alone, with a classification head, with one that answers questions, or with one for masked
// tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, S documents, R distances.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "mpnet.".
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "hone/registry.h"
#include "models/encoder_model.h"
#include "models/encoder_parts.h"
#include "nn/shared_keys.h"
#include "ops/embedding.h"
#include "ops/relative_bias.h"
#include "tensor/device.h"

namespace hone::models {
namespace {

constexpr std::int64_t kPadding = 1;   // whose rows get no gradient, and behind which positions begin, whatever
                                       // config.json says
constexpr std::int64_t kBuckets = 32;  // of distances, half of them for keys behind the query
constexpr const char* kBias = "bias";  // what the embeddings leave for all layers

struct OfMpnet : UsualOfEncoders {
  static constexpr const char *kType = "mpnet", *kOfType = "mpnet.", *kBos = "0", *kEos = "2", *kPad = "1";
  static constexpr const char *kOfPositions = "Positions that are learned: a document may have 2 tokens less.",
                              *kOfPad = "Kept for others: the model takes 1, as in transformers.";
  static constexpr std::int64_t kVocab = 30527, kFewestPositions = kPadding + 2;
};

struct MpnetConfig : EncoderKeys<OfMpnet> {
  using Base = EncoderKeys<OfMpnet>;
  std::int64_t relative_attention_num_buckets = kBuckets;

  static constexpr auto fields() {
    return std::tuple_cat(Base::fields(),
                          std::tuple{field("relative_attention_num_buckets",
                                           &MpnetConfig::relative_attention_num_buckets,
                                           "Rows of the table of distances, of which 32 are used.",
                                           {.low = kBuckets, .high = 2147483647})});
  }
  void validate(Problems& problems) const;
};

EncoderShape resolve(const MpnetConfig& c, Problems& problems) {
  EncoderShape s;
  problems.require(c.vocab_size > kPadding, "vocab_size", "got 1, expected more: token 1 is padding");
  read_shape(c, s, problems);
  s.no_gradient_id = kPadding;
  return s;
}

void MpnetConfig::validate(Problems& problems) const { resolve(*this, problems); }

EncoderShape resolve(const MpnetConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}

// The bucket of each distance of a key from the query, -(m - 1), ..., m - 1, as T5 has it; in fp32, as transformers.
Tensor buckets_of_keys(std::int64_t most) {
  constexpr std::int64_t kHalf = kBuckets / 2, kExact = kHalf / 2, kFarthest = 128;
  const Tensor behind_R = at::arange(-(most - 1), most, at::kLong).neg();
  const Tensor far_R = behind_R.abs();
  const Tensor by_log_R =
      ((far_R.clamp_min(1).to(at::kFloat) / kExact).log() / std::log(double{kFarthest} / kExact) * (kHalf - kExact))
          .to(at::kLong) +
      kExact;
  const Tensor near_R = at::where(far_R < kExact, far_R, by_log_R.clamp_max(kHalf - 1));
  return near_R + (behind_R < 0).to(at::kLong) * kHalf;
}

// What all parts of a model look at.
struct Mpnet {
  MpnetConfig c;
  EncoderShape s;
  nn::Linear::Options linear() const { return {.bias = true, .std = c.initializer_range}; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, c.hidden_dropout_prob, pass, place);
  }
};

class MpnetEmbeddings final : public Module {
 public:
  explicit MpnetEmbeddings(const Mpnet& mpnet) : m(mpnet) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const Tensor words_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    const Tensor positions = nn::positions(pass) + kPadding + 1;
    return m.drop(layer_norm(words_BTD + position_embeddings(positions, pass)), pass, "embeddings");
  }

  const Mpnet& m;
  nn::Embedding& word_embeddings =
      child<nn::Embedding>("word_embeddings", m.c.vocab_size, m.c.hidden_size, m.c.initializer_range, kPadding);
  nn::Embedding& position_embeddings = child<nn::Embedding>("position_embeddings", m.c.max_position_embeddings,
                                                            m.c.hidden_size, m.c.initializer_range, kPadding);
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", m.c.hidden_size, m.c.layer_norm_eps);
};

class MpnetAttention final : public Module {
 public:
  explicit MpnetAttention(const Mpnet& mpnet) : m(mpnet) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q, &k, &v}, pass);
    const Tensor& bias_HR = nn::left(pass, kBias);
    const ops::RelativeBias bias{bias_HR, bias_HR.size(1) / 2};
    const Tensor seen_1ND = attend_in_heads(qkv, m.s, m.c.attention_probs_dropout_prob, pass, &bias);
    nn::Residual x(x_1ND);
    x += m.drop(o(seen_1ND, pass), pass, "attention");
    return layer_norm(x);
  }

 private:
  nn::Linear& square(const char* name) { return child<nn::Linear>(name, m.c.hidden_size, m.c.hidden_size, m.linear()); }
  const Mpnet& m;
  nn::Linear &q = square("attn.q"), &k = square("attn.k"), &v = square("attn.v"), &o = square("attn.o");
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", m.c.hidden_size, m.c.layer_norm_eps);
};

class MpnetLayer final : public Block {
 public:
  MpnetLayer(const Mpnet& mpnet, std::int64_t) : m(mpnet) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor attended_1ND = attention(x_1ND, pass);
    nn::Residual x(attended_1ND);
    x += m.drop(output(nn::activate(intermediate(attended_1ND, pass), m.s.activation), pass), pass, "mlp");
    return layer_norm(x);
  }

 private:
  const Mpnet& m;
  MpnetAttention& attention = child<MpnetAttention>("attention", m);
  nn::Linear& intermediate =
      child<nn::Linear>("intermediate.dense", m.c.hidden_size, m.c.intermediate_size, m.linear());
  nn::Linear& output = child<nn::Linear>("output.dense", m.c.intermediate_size, m.c.hidden_size, m.linear());
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("output.LayerNorm", m.c.hidden_size, m.c.layer_norm_eps);
};

// A bias for each bucket and head. As Hugging Face's Trainer has it, it does not decay.
struct MpnetBiases final : Module {
  explicit MpnetBiases(const Mpnet& mpnet)
      : weight(parameter("weight", {mpnet.c.relative_attention_num_buckets, mpnet.c.num_attention_heads},
                         {.kind = Init::Kind::normal, .std = mpnet.c.initializer_range}, /*decays=*/false)) {}
  Weight& weight;
};

struct MpnetBody final : Module {
  MpnetBody(const Mpnet& mpnet, bool pools) : m(mpnet) {
    if (pools) child<nn::Linear>("pooler.dense", m.c.hidden_size, m.c.hidden_size, m.linear());  // kept for others
  }
  const Mpnet& m;
  MpnetEmbeddings& embeddings = child<MpnetEmbeddings>("embeddings", m);
  nn::Stack<MpnetLayer>& layer = child<nn::Stack<MpnetLayer>>("encoder.layer", m.c.num_hidden_layers, m);
  MpnetBiases& relative_attention_bias = child<MpnetBiases>("encoder.relative_attention_bias", m);
};

class MpnetModel final : public EncoderModel {
 public:
  MpnetModel(const MpnetConfig& config, const HeadRequest& head)
      : EncoderModel({"mpnet", "MPNet", {"lm_head.decoder", "lm_head.bias"}}),
        m{config, resolve(config, head)},
        body_(child<MpnetBody>(body_name(), m, !m.s.has_head())) {
    const std::int64_t hidden = m.c.hidden_size;
    if (!m.s.labels.empty()) add_products(hidden, m.linear(), /*activation: tanh*/ {});
    if (m.s.masked_lm)  // whatever hidden_act says
      add_mask_head({"dense", "layer_norm", ops::Activation::gelu, hidden, hidden, m.c.initializer_range,
                     m.c.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    std::int64_t longest = 1;
    for (const ops::Span& span : pass.plan().documents().spans()) longest = std::max(longest, span.end - span.begin);
    const Tensor buckets_R = devices::sent(buckets_of_keys(longest), batch.ids_BT.device());
    const Weight& table = body_.relative_attention_bias.weight;
    const Tensor bias_RH = ops::embedding(table.use(), buckets_R, /*no_gradient_id=*/-1, table.gradient_sum());
    pass.plan().left()[kBias] = bias_RH.t().contiguous();
    return body_.embeddings(batch, pass);
  }
  std::vector<const Block*> blocks() const override {
    return {body_.layer.blocks().begin(), body_.layer.blocks().end()};
  }
  std::int64_t max_positions() const override { return m.c.max_position_embeddings - kPadding - 1; }
  config::Node hf_config() const override { return as_hf_config(m.c); }

 private:
  const EncoderShape& shape() const override { return m.s; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }

  const Mpnet m;
  MpnetBody& body_;
};

}  // namespace

void register_mpnet(Registries& hone) {
  hone.models.add<MpnetModel, MpnetConfig>("mpnet",
                                           "MPNet, alone, with a classification head of texts or of tokens, with one "
                                           "that answers questions, or with one for "
                                           "masked tokens.");
}

}  // namespace hone::models
