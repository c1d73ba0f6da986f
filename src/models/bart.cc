// BART (Lewis et al., 2019), and with other norms and positions mBART (Liu et al., 2020), M2M-100 (Fan et al., 2020)
// and NLLB (2022), Pegasus (Zhang et al., 2019) and Marian (Junczys-Dowmunt et al., 2018): an encoder and a decoder as
// in "Attention Is All You Need".
//
// Letters in tensor names: B batch, T time, S tokens of sources, N of targets, D hidden.
// Children carry Hugging Face's names.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/bart_stack.h"
#include "tensor/dtype.h"

namespace hone::models {
namespace {

class BartEncoderBlock final : public BartBlock {
 public:
  BartEncoderBlock(const BartShape& shape, std::int64_t index)
      : BartBlock(shape, shape.encoder, BartAttention::Of::sources, index) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    if (!has_sources(pass)) return;
    if (index_ == 0) begin_sources(x, pass);
    add_attention(x, pass);
    add_mlp(x, pass);
  }
};

struct BartEncoder final : BartEnds {
  explicit BartEncoder(const BartShape& s)
      : BartEnds(s), layers(child<nn::Stack<BartEncoderBlock>>("layers", s.encoder.layers, s)) {}
  nn::Stack<BartEncoderBlock>& layers;
};

class BartDecoderBlock final : public BartBlock {
 public:
  BartDecoderBlock(const BartShape& shape, const BartEncoder& encoder, std::int64_t index)
      : BartBlock(shape, shape.decoder, BartAttention::Of::targets, index), encoder_(encoder) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    if (index_ == 0 && has_sources(pass)) begin_targets(x, encoder_.finish(x.sum()), pass);
    add_attention(x, pass);
    add(x, encoder_attn_layer_norm, pass, "attention to sources",
        [&](const nn::Input& in) { return encoder_attn(in, pass); });
    add_mlp(x, pass);
  }

 private:
  const BartEncoder& encoder_;
  BartAttention& encoder_attn = child<BartAttention>("encoder_attn", s, BartAttention::Of::targets_to_sources);
  nn::LayerNorm& encoder_attn_layer_norm = norm("encoder_attn_layer_norm");
};

struct BartDecoder final : BartEnds {
  BartDecoder(const BartShape& s, const BartEncoder& encoder)
      : BartEnds(s), layers(child<nn::Stack<BartDecoderBlock>>("layers", s.decoder.layers, s, encoder)) {}
  nn::Stack<BartDecoderBlock>& layers;
};

struct BartBody final : Module {
  explicit BartBody(const BartShape& s)
      : shared(child<nn::Embedding>("shared", s.vocab, s.hidden, s.std, s.no_gradient_id)),
        encoder(child<BartEncoder>("encoder", s)),
        decoder(child<BartDecoder>("decoder", s, encoder)) {}
  nn::Embedding& shared;
  BartEncoder& encoder;
  BartDecoder& decoder;
};

class Bart final : public Seq2SeqLm {
 public:
  using Config = BartConfig;
  explicit Bart(const Config& config) : c(config), s(resolve(config)) {}

  Tensor embed(const Batch& batch, Pass& pass) const override {
    require_sources(pass, c.model_type);
    const Tensor words_BTD = nn::embedding_noise(model.shared(batch.ids_BT, pass), pass) * s.embedding_scale;
    if (has_sources(pass))
      leave_sources(model.encoder.embed(pass.plan().sources().of(words_BTD), nn::source_positions(pass), pass,
                                        "embedded sources"),
                    pass);
    return model.decoder.embed(words_BTD, nn::positions(pass), pass, "embeddings");
  }
  std::vector<const Block*> blocks() const override {
    const auto& of_sources = model.encoder.layers.blocks();
    const auto& of_targets = model.decoder.layers.blocks();
    std::vector<const Block*> all(of_sources.begin(), of_sources.end());
    all.insert(all.end(), of_targets.begin(), of_targets.end());
    return all;
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return model.decoder.finish(x_1ND); }
  const nn::Head& head() const override { return lm_head; }
  std::int32_t decoder_start() const override { return s.start; }
  bool is_of_sources(const std::string& weight) const override { return is_of_encoder(weight, "encoder_attn"); }
  std::int64_t vocab_size() const override { return s.vocab; }
  std::int64_t max_positions() const override { return s.positions; }
  bool positions_are_learned() const override { return s.learned_positions; }
  std::vector<AttentionLayer> attention() const override {
    const auto size = [&](const BartSide& side) { return s.hidden / side.heads; };
    std::vector<AttentionLayer> all(static_cast<std::size_t>(s.encoder.layers),
                                    {s.encoder.heads, size(s.encoder), /*window=*/0, /*causal=*/false});
    const std::size_t layers = all.size() + static_cast<std::size_t>(s.decoder.layers);
    all.resize(layers, {s.decoder.heads, size(s.decoder)});
    all.resize(layers + static_cast<std::size_t>(s.decoder.layers),
               {s.decoder.heads, size(s.decoder), /*window=*/0, /*causal=*/false});
    return all;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    spec.layers.resize(static_cast<std::size_t>(s.encoder.layers));
    spec.layers.resize(static_cast<std::size_t>(s.encoder.layers + s.decoder.layers),
                       {s.decoder.heads, s.hidden / s.decoder.heads});
    return spec;
  }
  config::Node hf_config() const override {
    const Weight& table = model.shared.weight;
    return to_hf_config(c, s, table.filled() ? hf_name(table.use().scalar_type()) : "");
  }
  std::string base_prefix() const override { return "model."; }
  // The table once more, waves that follow from their places, and marks of versions.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with("coder.embed_tokens.weight") || tensor.ends_with("coder.version") ||
           (!s.learned_positions && (tensor.ends_with("coder.embed_positions.weight") ||
                                     tensor.ends_with("coder.embed_positions.weights")));
  }
  bool may_be_fresh(const std::string& weight) const override { return weight == "final_logits_bias"; }

 private:
  Config c;
  BartShape s;
  BartBody& model = child<BartBody>("model", s);
  Weight* final_logits_bias = s.biased_head ? &buffer("final_logits_bias", {1, s.vocab}, {.kind = Init::Kind::zeros},
                                                      [](const Tensor& value, const Tensor&) { return value; })
                                            : nullptr;
  nn::Head& lm_head =
      child<nn::Head>("lm_head", s.hidden, s.vocab, s.std, &model.shared.weight, /*soft_cap=*/0, final_logits_bias);
};

}  // namespace

void register_bart(Registries& hone) {
  hone.models.add<Bart>({"bart", "mbart", "m2m_100", "pegasus", "marian"},
                        "BART, mBART, M2M-100 and NLLB, Pegasus and Marian: texts from texts.");
}

}  // namespace hone::models
