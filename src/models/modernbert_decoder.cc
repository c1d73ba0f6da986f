// ModernBERT as a decoder (Weller et al., 2025, arXiv:2507.11412, "Ettin"): rotary positions, gated MLPs, and layers
// that see all before them between layers that see what is near; with a head that has a layer of its own.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
#include <ATen/ATen.h>

#include <fmt/format.h>

#include <cmath>

#include "hone/registry.h"
#include "models/classic.h"
#include "models/modernbert_keys.h"
#include "ops/gated.h"

namespace hone::models {
namespace {

using config::Node;

struct ModernDecoderConfig : ModernKeys<ClassicKeys> {
  using Base = ModernKeys<ClassicKeys>;
  std::string model_type = "modernbert-decoder";
  std::int64_t local_attention = 128;
  bool tie_word_embeddings = true;
  std::optional<std::int64_t> sliding_window, pad_token_id = 50283, sparse_pred_ignore_index;
  std::optional<bool> deterministic_flash_attn, sparse_prediction;
  std::optional<std::string> classifier_pooling;

  static constexpr auto fields() {
    using C = ModernDecoderConfig;
    constexpr const char* nothing = "No effect, in transformers as here.";
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("model_type", &C::model_type, "modernbert-decoder."),
            field("local_attention", &C::local_attention,
                  "A token of a sliding layer sees half so many tokens, itself included.",
                  {.low = 2, .high = 2147483647}),
            field("sliding_window", &C::sliding_window, "Follows from local_attention."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("pad_token_id", &C::pad_token_id,
                  "Padding; its row of the embedding table gets no gradient from look-ups."),
            field("classifier_pooling", &C::classifier_pooling, nothing),
            field("deterministic_flash_attn", &C::deterministic_flash_attn, nothing),
            field("sparse_prediction", &C::sparse_prediction, nothing),
            field("sparse_pred_ignore_index", &C::sparse_pred_ignore_index, nothing)});
  }
  void validate(Problems& problems) const;
};

struct ModernShape : ClassicShape {
  ops::Activation head_activation = ops::Activation::gelu;
  bool head_start_bias = false;
};

void read_layers(const ModernDecoderConfig& c, ModernShape& s, Problems& problems) {
  const std::int64_t window = c.local_attention / 2;
  problems.require(!c.sliding_window || *c.sliding_window == window, "sliding_window",
                   fmt::format("differs from local_attention / 2 ({}); it may be left out", window));
  const auto slides = modern_layers(c.num_hidden_layers, c.global_attn_every_n_layers, c.layer_types, problems);
  for (std::size_t i = 0; i < slides.size(); ++i) s.windows[i] = slides[i] ? window : 0;
}

void read_ropes(const ModernDecoderConfig& c, ModernShape& s, Problems& problems) {
  const ModernRopes ropes = modern_ropes(
      {c.rope_parameters.node, c.global_rope_theta, c.local_rope_theta, s.head_size, s.max_positions}, problems);
  s.rope = ropes.all, s.sliding_rope = ropes.sliding;
}

ModernShape resolve(const ModernDecoderConfig& c, Problems& problems) {
  ModernShape s;
  s.model_type = "modernbert-decoder", s.architecture = "ModernBertDecoderForCausalLM";
  read_sizes({c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads,
              c.max_position_embeddings},
             s, problems);
  problems.require(s.head_size > 0 && s.head_size % 2 == 0, "hidden_size",
                   fmt::format("got {}, of which a head has {}; expected an even number", s.hidden, s.head_size));
  read_activation(c.hidden_activation, "hidden_activation", s, problems);
  s.head_activation = nn::read_activation(c.classifier_activation, "classifier_activation", problems);
  read_pad(c.pad_token_id, s, problems);
  read_layers(c, s, problems);
  if (s.head_size > 0 && s.head_size % 2 == 0) read_ropes(c, s, problems);
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.norm_eps, s.norm_bias = c.norm_bias;
  s.added_std = s.std / std::sqrt(2.0 * static_cast<double>(s.layers));
  s.qkv_bias = s.output_bias = c.attention_bias, s.mlp_bias = c.mlp_bias, s.head_bias = c.decoder_bias;
  s.attention_dropout = s.residual_dropout = c.attention_dropout, s.embedding_dropout = c.embedding_dropout;
  s.activation_dropout = c.mlp_dropout, s.classifier_dropout = c.classifier_dropout;
  s.head_start_bias = s.text_classifier_bias = c.classifier_bias;
  s.table = "embeddings.tok_embeddings", s.last_norm = "final_norm", s.head = "decoder", s.output = "Wo";
  s.text_classifier = "classifier", s.labels_of_words_exist = false;
  read_head(c, s, problems);
  return s;
}

void ModernDecoderConfig::validate(Problems& problems) const { resolve(*this, problems); }

class ModernDecoderMlp final : public Module {
 public:
  explicit ModernDecoderMlp(const ModernShape& shape) : s(shape) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto both = nn::linears(x_1ND, {&Wi}, pass)[0].chunk(2, -1);
    const Tensor inner = ops::gated(both[0].contiguous(), both[1].contiguous(), s.activation);
    return Wo(nn::dropout(inner, s.activation_dropout, pass, "inner"), pass);
  }

 private:
  const ModernShape& s;
  nn::Linear& Wi =
      child<nn::Linear>("Wi", s.hidden, 2 * s.inner, nn::Linear::Options{.bias = s.mlp_bias, .std = s.std});
  nn::Linear& Wo = child<nn::Linear>(
      "Wo", s.inner, s.hidden, nn::Linear::Options{.bias = s.mlp_bias, .std = s.added_std.value_or(s.std)});
};

// The first one reads the embeddings' norm as it is.
class ModernBlock final : public nn::ResidualBlock {
 public:
  ModernBlock(const ModernShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attn(child<ClassicAttention>("attn", s, ropes, layer)) {
    if (layer > 0) attn_norm = &child<nn::LayerNorm>("attn_norm", s.hidden, s.eps, s.norm_bias);
  }
  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor made = attn(attn_norm ? (*attn_norm)(x) : nn::Input(x.sum()), pass);
    x += nn::dropout(made, s.residual_dropout, pass, "attention");
    x += mlp(mlp_norm(x), pass);
  }

 private:
  const ModernShape& s;
  const nn::LayerNorm* attn_norm = nullptr;
  ClassicAttention& attn;
  nn::LayerNorm& mlp_norm = child<nn::LayerNorm>("mlp_norm", s.hidden, s.eps, s.norm_bias);
  ModernDecoderMlp& mlp = child<ModernDecoderMlp>("mlp", s);
};

// What both heads begin with.
class ModernDecoderHeadStart final : public Module {
 public:
  explicit ModernDecoderHeadStart(const ModernShape& shape) : s(shape) {}
  Tensor operator()(const Tensor& x, const Pass& pass) const {
    return norm(nn::activate(dense(x, pass), s.head_activation));
  }

 private:
  const ModernShape& s;
  nn::Linear& dense = child<nn::Linear>(
      "dense", s.hidden, s.hidden,
      nn::Linear::Options{.bias = s.head_start_bias, .std = s.added_std.value_or(s.std)});
  nn::LayerNorm& norm = child<nn::LayerNorm>("norm", s.hidden, s.eps, s.norm_bias);
};

class ModernBertDecoder final : public ClassicModel<ModernBlock, nn::LayerNorm, ModernShape> {
 public:
  ModernBertDecoder(const ModernDecoderConfig& config, const HeadRequest& head)
      : ClassicModel(classic_shape_of(config, head)), c(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor normed_1ND = ClassicModel::finish(x_1ND, pass);
    return s.labels.empty() ? head_start_(normed_1ND, pass) : normed_1ND;
  }
  Tensor logits(const hone::Output& output, Pass& pass) const override {
    const Tensor made_SD = head_start_(last_tokens(output.hidden_BTD, pass.batch), pass);
    return (*score)(nn::dropout(made_SD, s.classifier_dropout, pass, "classifier"), pass);
  }
  using CausalLm::logits;
  bool may_be_fresh(const std::string& weight) const override {
    return ClassicModel::may_be_fresh(weight) || weight.starts_with("head.");
  }

  Node hf_config() const override {
    Node node = written(c, s, dtype());
    std::vector<bool> slides;
    for (const std::int64_t window : s.windows) slides.push_back(window > 0);
    const Node keys = modern_layer_keys(slides, {s.rope, *s.sliding_rope});
    for (const auto& [key, value] : keys.entries()) node.at_or_add(key) = value;
    node.at_or_add("sliding_window") = config::Values<std::int64_t>::write(c.local_attention / 2);
    node.at_or_add("classifier_dropout") = nn::hf_float(s.classifier_dropout);
    drop_keys(node, {"global_attn_every_n_layers", "global_rope_theta", "local_rope_theta", "layer_norm_eps",
                     "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index",
                     "position_embedding_type", "classifier_pooling", "reference_compile", "repad_logits_with_grad"});
    return node;
  }

 private:
  Tensor with_places(const Tensor& x_BTD, Pass&) const override { return embedding_norm(x_BTD); }
  ModernDecoderConfig c;
  nn::LayerNorm& embedding_norm =
      child<nn::LayerNorm>("model.embeddings.norm", s.hidden, s.eps, s.norm_bias);
  ModernDecoderHeadStart& head_start_ = child<ModernDecoderHeadStart>(s.labels.empty() ? "lm_head" : "head", s);
};

}  // namespace

void register_modernbert_decoder(Registries& hone) {
  hone.models.add<ModernBertDecoder, ModernDecoderConfig>("modernbert-decoder",
                                                          "ModernBERT as a decoder, with a layer before its head.");
}

}  // namespace hone::models
