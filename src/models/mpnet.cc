// MPNet (Song et al., 2020, arXiv:2004.09297): BERT's encoder without token types, whose scores have a bias by distance
// that all layers share; alone, with a classification head, with one that answers questions, or with one for masked
// tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, S documents, R distances.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "mpnet.".
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/encoder_model.h"
#include "nn/shared_keys.h"
#include "nn/token_ids.h"
#include "ops/embedding.h"
#include "ops/relative_bias.h"
#include "tensor/device.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kPadding = 1;   // whose rows get no gradient, and behind which positions begin, whatever
                                       // config.json says
constexpr std::int64_t kBuckets = 32;  // of distances, half of them for keys behind the query
constexpr const char* kBias = "bias";  // what the embeddings leave for all layers

struct MpnetConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "mpnet", hidden_act = "gelu";
  std::int64_t vocab_size = 30527, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
               intermediate_size = 3072, max_position_embeddings = 512, relative_attention_num_buckets = kBuckets;
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1, initializer_range = 0.02,
         layer_norm_eps = 1e-12;
  bool tie_word_embeddings = true;
  config::Open bos_token_id{Node::scalar("0")}, eos_token_id{Node::scalar("2")}, pad_token_id{Node::scalar("1")};

  static constexpr auto own_fields() {
    using C = MpnetConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, "mpnet."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("max_position_embeddings", &C::max_position_embeddings,
              "Positions that are learned: a document may have 2 tokens less.", {.low = 3, .high = 2147483647}),
        field("relative_attention_num_buckets", &C::relative_attention_num_buckets,
              "Rows of the table of distances, of which 32 are used.", {.low = kBuckets, .high = 2147483647}),
        field("hidden_act", &C::hidden_act, "Activation of the MLP, by Hugging Face's name."),
        field("hidden_dropout_prob", &C::hidden_dropout_prob, "Share of hidden numbers that training drops.", share),
        field("attention_probs_dropout_prob", &C::attention_probs_dropout_prob,
              "Share of attention weights that training drops.", share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id, "Kept for others: the model takes 1, as in transformers.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const;
};

struct MpnetShape : EncoderHead {
  std::int64_t head_size = 0;
  ops::Activation activation = ops::Activation::gelu;
};

MpnetShape resolve(const MpnetConfig& c, Problems& problems) {
  MpnetShape s;
  problems.require(c.model_type == "mpnet", "model_type",
                   fmt::format("got {}, expected mpnet", hone::quoted(c.model_type)));
  problems.require(c.hidden_size % c.num_attention_heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads", c.hidden_size));
  problems.require(c.vocab_size > kPadding, "vocab_size", "got 1, expected more: token 1 is padding");
  const auto hidden = static_cast<double>(c.hidden_size);
  check_parameters(
      static_cast<double>(c.num_hidden_layers) * hidden * (4 * hidden + 2 * static_cast<double>(c.intermediate_size)) +
          static_cast<double>(c.vocab_size + c.max_position_embeddings) * hidden,
      "hidden_size", problems);
  s.head_size = c.hidden_size / c.num_attention_heads;
  s.activation = nn::read_activation(c.hidden_act, "hidden_act", problems);
  for (const auto& [key, id] : {std::pair{"bos_token_id", &c.bos_token_id},
                                {"eos_token_id", &c.eos_token_id},
                                {"pad_token_id", &c.pad_token_id}})
    nn::read_token_ids(id->node, key, c.vocab_size, problems);
  read_head(c, c.tie_word_embeddings, s, problems);
  return s;
}

void MpnetConfig::validate(Problems& problems) const { resolve(*this, problems); }

MpnetShape resolve(const MpnetConfig& c, const HeadRequest& head) {
  Problems problems;
  MpnetShape s = resolve(c, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  problems.raise("the model's configuration");
  return s;
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
  MpnetShape s;
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
    const auto heads = [&](const Tensor& x) { return x.view({-1, m.c.num_attention_heads, m.s.head_size}); };
    const Tensor& bias_HR = nn::left(pass, kBias);
    const ops::RelativeBias bias{bias_HR, bias_HR.size(1) / 2};
    ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(m.s.head_size)),
                                  .mask = ops::Mask::full(),
                                  .dropout = m.c.attention_probs_dropout_prob};
    options.bias = &bias;
    const Tensor seen = nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options);
    nn::Residual x(x_1ND);
    x += m.drop(o(seen.flatten(1).unsqueeze(0), pass), pass, "attention");
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
      : EncoderModel(m.s, "mpnet"),
        m{config, resolve(config, head)},
        body_(child<MpnetBody>(body_name(), m, !m.s.has_head())) {
    const std::int64_t hidden = m.c.hidden_size, labels = std::ssize(m.s.labels.names);
    if (of_tokens())
      product_ = &child<nn::Linear>(answers_questions() ? "qa_outputs" : "classifier", hidden, labels, m.linear());
    else if (labels > 0)
      head_ = &child<HeadOfTexts>("classifier", hidden, labels, m.linear());
    if (m.s.masked_lm)
      mask_head_ = &child<MaskHead>("lm_head", words(), m.c.vocab_size,
                                    MaskHead::Form{"dense", "layer_norm", ops::Activation::gelu, hidden, hidden,
                                                   m.c.initializer_range, m.c.layer_norm_eps});
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
  std::int64_t vocab_size() const override { return m.c.vocab_size; }
  std::int64_t max_positions() const override { return m.c.max_position_embeddings - kPadding - 1; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{m.c.num_attention_heads, m.s.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body_.layer.blocks().size(), layer);
  }
  Node hf_config() const override {
    return as_hf_config(config::write(m.c), "MPNet", m.c,
                        {{"hidden_dropout_prob", m.c.hidden_dropout_prob},
                         {"attention_probs_dropout_prob", m.c.attention_probs_dropout_prob},
                         {"initializer_range", m.c.initializer_range},
                         {"layer_norm_eps", m.c.layer_norm_eps}},
                        {{"bos_token_id", m.c.bos_token_id.node},
                         {"eos_token_id", m.c.eos_token_id.node},
                         {"pad_token_id", m.c.pad_token_id.node}});
  }

  Tensor logits(const Output& output, Pass& pass) const override {
    if (answers_questions()) return (*product_)(output.hidden_BTD, pass);
    if (product_) return (*product_)(m.drop(output.hidden_BTD, pass, "classifier"), pass);
    const Tensor inner_SD = at::tanh(head_->dense(m.drop(first_SD(output, pass), pass, "classifier"), pass));
    return head_->out_proj(m.drop(inner_SD, pass, "classifier/inner"), pass);
  }
  MaskHeadNames mask_head_names() const override { return {"lm_head.decoder", "lm_head.bias"}; }

 private:
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }

  const Mpnet m;
  MpnetBody& body_;
  HeadOfTexts* head_ = nullptr;    // of texts
  nn::Linear* product_ = nullptr;  // of each token
};

}  // namespace

void register_mpnet(Registries& hone) {
  hone.models.add<MpnetModel, MpnetConfig>("mpnet",
                                           "MPNet, alone, with a classification head of texts or of tokens, with one "
                                           "that answers questions, or with one for "
                                           "masked tokens.");
}

}  // namespace hone::models
