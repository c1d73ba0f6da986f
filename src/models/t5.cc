// T5 (Raffel et al., 2019), T5 1.1 and FLAN-T5; mT5 (Xue et al., 2020); UMT5 (Chung et al., 2023), whose layers each
// have a bias of their own: an encoder and a decoder with norms before each part, and no positions but those of the
// bias.
//
// Letters in tensor names: B batch, T time, N tokens (of sources or targets), D hidden.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/encoder_decoder.h"
#include "models/t5_attention.h"
#include "ops/gated.h"
#include "tensor/dtype.h"

namespace hone::models {
namespace {

class T5Mlp final : public Module {
 public:
  explicit T5Mlp(const T5Shape& shape)
      : s(shape),
        wi(inner(s.gated ? "wi_0" : "wi")),
        wi_1(s.gated ? &inner("wi_1") : nullptr),
        wo(child<nn::Linear>("wo", s.inner, s.hidden,
                             nn::Linear::Options{.std = s.factor / std::sqrt(static_cast<double>(s.inner))})) {}

  Tensor operator()(const nn::Input& x, Pass& pass) const {
    if (!wi_1) return out(nn::activate(nn::linears(x, {&wi}, pass)[0], s.activation), pass);
    const auto both = nn::linears(x, {&wi, wi_1}, pass);
    return out(ops::gated(both[0], both[1], s.activation), pass);
  }

 private:
  Tensor out(const Tensor& x, Pass& pass) const { return wo(nn::dropout(x, s.dropout, pass, "inner"), pass); }
  nn::Linear& inner(const char* name) {
    return child<nn::Linear>(name, s.hidden, s.inner,
                             nn::Linear::Options{.std = s.factor / std::sqrt(static_cast<double>(s.hidden))});
  }
  const T5Shape& s;
  nn::Linear &wi, *const wi_1, &wo;
};

class T5EncoderBlock final : public nn::ResidualBlock {
 public:
  T5EncoderBlock(const T5Shape& shape, std::int64_t index) : s(shape), index_(index) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    if (!has_sources(pass)) return;
    if (index_ == 0) begin_sources(x, pass);
    x += nn::dropout(attention(attention_norm(x), pass), s.dropout, pass, "attention");
    x += nn::dropout(mlp(mlp_norm(x), pass), s.dropout, pass, "mlp");
  }

 private:
  const T5Shape& s;
  const std::int64_t index_;
  T5Attention& attention =
      child<T5Attention>("layer.0.SelfAttention", s, T5Attention::Of::sources, index_ == 0 || s.bias_in_each_layer);
  nn::RmsNorm& attention_norm = child<nn::RmsNorm>("layer.0.layer_norm", s.hidden, s.eps);
  T5Mlp& mlp = child<T5Mlp>("layer.1.DenseReluDense", s);
  nn::RmsNorm& mlp_norm = child<nn::RmsNorm>("layer.1.layer_norm", s.hidden, s.eps);
};

struct T5Encoder final : Module {
  explicit T5Encoder(const T5Shape& s)
      : block(child<nn::Stack<T5EncoderBlock>>("block", s.encoder_layers, s)),
        final_layer_norm(child<nn::RmsNorm>("final_layer_norm", s.hidden, s.eps)) {}
  nn::Stack<T5EncoderBlock>& block;
  nn::RmsNorm& final_layer_norm;
};

class T5DecoderBlock final : public nn::ResidualBlock {
 public:
  T5DecoderBlock(const T5Shape& shape, const T5Encoder& encoder, std::int64_t index)
      : s(shape), encoder_(encoder), index_(index) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    if (index_ == 0 && has_sources(pass))
      begin_targets(x, nn::dropout(encoder_.final_layer_norm(x), s.dropout, pass, "encoded"), pass);
    x += nn::dropout(attention(attention_norm(x), pass), s.dropout, pass, "attention");
    x += nn::dropout(to_sources(to_sources_norm(x), pass), s.dropout, pass, "attention to sources");
    x += nn::dropout(mlp(mlp_norm(x), pass), s.dropout, pass, "mlp");
  }

 private:
  const T5Shape& s;
  const T5Encoder& encoder_;
  const std::int64_t index_;
  T5Attention& attention =
      child<T5Attention>("layer.0.SelfAttention", s, T5Attention::Of::targets, index_ == 0 || s.bias_in_each_layer);
  nn::RmsNorm& attention_norm = child<nn::RmsNorm>("layer.0.layer_norm", s.hidden, s.eps);
  T5Attention& to_sources =
      child<T5Attention>("layer.1.EncDecAttention", s, T5Attention::Of::targets_to_sources, /*has_table=*/false);
  nn::RmsNorm& to_sources_norm = child<nn::RmsNorm>("layer.1.layer_norm", s.hidden, s.eps);
  T5Mlp& mlp = child<T5Mlp>("layer.2.DenseReluDense", s);
  nn::RmsNorm& mlp_norm = child<nn::RmsNorm>("layer.2.layer_norm", s.hidden, s.eps);
};

struct T5Decoder final : Module {
  T5Decoder(const T5Shape& s, const T5Encoder& encoder)
      : block(child<nn::Stack<T5DecoderBlock>>("block", s.decoder_layers, s, encoder)),
        final_layer_norm(child<nn::RmsNorm>("final_layer_norm", s.hidden, s.eps)) {}
  nn::Stack<T5DecoderBlock>& block;
  nn::RmsNorm& final_layer_norm;
};

class T5 final : public Seq2SeqLm {
 public:
  using Config = T5Config;
  explicit T5(const Config& config) : c(config), s(resolve(config)) {}

  Tensor embed(const Batch& batch, Pass& pass) const override {
    require_sources(pass, c.model_type);
    const Tensor words_BTD = nn::embedding_noise(shared(batch.ids_BT, pass), pass);
    if (has_sources(pass))
      leave_sources(nn::dropout(pass.plan().sources().of(words_BTD), s.dropout, pass, "embedded sources"), pass);
    return nn::dropout(words_BTD, s.dropout, pass, "embeddings");
  }
  std::vector<const Block*> blocks() const override {
    std::vector<const Block*> all(encoder.block.blocks().begin(), encoder.block.blocks().end());
    all.insert(all.end(), decoder.block.blocks().begin(), decoder.block.blocks().end());
    return all;
  }
  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor normed_1ND = nn::dropout(decoder.final_layer_norm(x_1ND), s.dropout, pass, "decoded");
    return s.scaled ? normed_1ND * (1 / std::sqrt(static_cast<double>(s.hidden))) : normed_1ND;
  }
  const nn::Head& head() const override { return lm_head; }
  std::int32_t decoder_start() const override { return s.start; }
  bool is_of_sources(const std::string& weight) const override { return is_of_encoder(weight, "EncDecAttention"); }
  std::int64_t vocab_size() const override { return s.vocab; }
  std::int64_t max_positions() const override { return std::numeric_limits<std::int32_t>::max(); }
  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> all(static_cast<std::size_t>(s.encoder_layers + s.decoder_layers),
                                    {s.heads, s.head_size, /*window=*/0, /*causal=*/false});
    all.resize(static_cast<std::size_t>(s.encoder_layers + 2 * s.decoder_layers), {s.heads, s.head_size});
    return all;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    spec.layers.resize(static_cast<std::size_t>(s.encoder_layers));
    spec.layers.resize(static_cast<std::size_t>(s.encoder_layers + s.decoder_layers), {s.heads, s.head_size});
    return spec;
  }
  config::Node hf_config() const override {
    const bool filled = shared.weight.filled();
    return to_hf_config(c, s, filled ? hf_name(shared.weight.use().scalar_type()) : "");
  }
  // The table once more, and what old folders have that no layer uses.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with("coder.embed_tokens.weight") ||
           tensor.ends_with("EncDecAttention.relative_attention_bias.weight");
  }

 private:
  Config c;
  T5Shape s;
  nn::Embedding& shared = child<nn::Embedding>("shared", s.vocab, s.hidden, s.factor);
  T5Encoder& encoder = child<T5Encoder>("encoder", s);
  T5Decoder& decoder = child<T5Decoder>("decoder", s, encoder);
  nn::Head& lm_head = child<nn::Head>("lm_head", s.hidden, s.vocab, s.factor, s.tied ? &shared.weight : nullptr);
};

}  // namespace

void register_t5(Registries& hone) {
  hone.models.add<T5>({"t5", "mt5", "umt5"}, "T5, T5 1.1, FLAN-T5, mT5 and UMT5: texts from texts.");
}

}  // namespace hone::models
