// BLOOM (BigScience, 2022, arXiv:2211.05100): scores fall with the distance, queries, keys and values of a head are one
// behind the other in one weight, and embeddings are normed.
//
// Letters in tensor names: B batch, T time, D hidden.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/classic.h"

namespace hone::models {
namespace {

struct BloomConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "bloom";
  std::int64_t vocab_size = 250880;
  std::optional<std::int64_t> hidden_size, n_embed, n_layer, num_hidden_layers, n_head, num_attention_heads, n_inner,
      seq_length, offset_alibi, pad_token_id, unk_token_id;
  config::Open bos_token_id{config::Node::scalar("1")}, eos_token_id{config::Node::scalar("2")};
  double hidden_dropout = 0, attention_dropout = 0, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  std::optional<double> classifier_dropout;
  bool apply_residual_connection_post_layernorm = false, tie_word_embeddings = true, slow_but_exact = false;
  std::int64_t pretraining_tp = 1;
  std::optional<bool> attention_softmax_in_fp32, bias_dropout_fusion, masked_softmax_fusion, skip_bias_add,
      skip_bias_add_qkv;

  static constexpr auto fields() {
    using C = BloomConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr const char* nothing = "Has no effect, in transformers as here.";
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "bloom."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream; default 64.", size),
            field("n_embed", &C::n_embed, "The same, as old folders say it.", size),
            field("n_layer", &C::n_layer, "Transformer blocks; default 2.", {.low = 1, .high = 10000}),
            field("num_hidden_layers", &C::num_hidden_layers, "The same by another name.", {.low = 1, .high = 10000}),
            field("n_head", &C::n_head, "Attention heads; default 8.", {.low = 1, .high = 65536}),
            field("num_attention_heads", &C::num_attention_heads, "The same by another name.",
                  {.low = 1, .high = 65536}),
            field("seq_length", &C::seq_length, "Longest sequence the model is meant for; default 2048.", size),
            field("hidden_dropout", &C::hidden_dropout, "Share that training drops of what attention and MLP add.",
                  share),
            field("attention_dropout", &C::attention_dropout, "Share that training drops of the attention's weights.",
                  share),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a head for labels of tokens reads; default: hidden_dropout.",
                  share),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("apply_residual_connection_post_layernorm", &C::apply_residual_connection_post_layernorm,
                  "Attention and MLP are added to the norm that they read, and not to what it is of."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
            field("pretraining_tp", &C::pretraining_tp, nothing), field("slow_but_exact", &C::slow_but_exact, nothing),
            field("n_inner", &C::n_inner, nothing), field("offset_alibi", &C::offset_alibi, nothing),
            field("unk_token_id", &C::unk_token_id, nothing),
            field("attention_softmax_in_fp32", &C::attention_softmax_in_fp32, nothing),
            field("bias_dropout_fusion", &C::bias_dropout_fusion, nothing),
            field("masked_softmax_fusion", &C::masked_softmax_fusion, nothing),
            field("skip_bias_add", &C::skip_bias_add, nothing),
            field("skip_bias_add_qkv", &C::skip_bias_add_qkv, nothing)});
  }
  void validate(Problems& problems) const;
};

ClassicShape resolve(const BloomConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "bloom", s.architecture = "BloomForCausalLM";
  const std::int64_t hidden = one_of("n_embed", c.n_embed, "hidden_size", c.hidden_size, 64, problems);
  read_sizes({.vocab = c.vocab_size,
              .hidden = hidden,
              .inner = 4 * hidden,
              .layers = one_of("n_layer", c.n_layer, "num_hidden_layers", c.num_hidden_layers, 2, problems),
              .heads = one_of("n_head", c.n_head, "num_attention_heads", c.num_attention_heads, 8, problems),
              .max_positions = c.seq_length.value_or(2048),
              .heads_key = "n_head"},
             s, problems);
  leave_unrotated(s);
  s.slopes = nn::alibi_slopes(s.heads);
  s.activation = ops::Activation::gelu_tanh;
  s.adds_to_norms = c.apply_residual_connection_post_layernorm;
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.layer_norm_epsilon;
  s.qkv_bias = s.output_bias = s.mlp_bias = true;
  s.residual_dropout = c.hidden_dropout, s.attention_dropout = c.attention_dropout;
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout);
  s.body = "transformer", s.table = "word_embeddings", s.stack = "h", s.last_norm = "ln_f", s.output = "dense";
  s.qkv_form = QkvForm::by_heads, s.token_classifier = "classifier";
  read_head(c, s, problems);
  return s;
}

void BloomConfig::validate(Problems& problems) const { resolve(*this, problems); }

constexpr SerialNames kNames{"input_layernorm", "self_attention", "post_attention_layernorm",
                             "mlp",             "dense_h_to_4h",  "dense_4h_to_h"};

class Bloom final : public ClassicModel<SerialBlock<kNames>> {
 public:
  Bloom(const BloomConfig& config, const HeadRequest& head)
      : ClassicModel(classic_shape_of(config, head)), c(config) {}

  config::Node hf_config() const override {
    config::Node node = written(c, s, dtype());
    node.at_or_add("hidden_size") = config::Values<std::int64_t>::write(s.hidden);
    node.at_or_add("n_layer") = config::Values<std::int64_t>::write(s.layers);
    node.at_or_add("n_head") = config::Values<std::int64_t>::write(s.heads);
    drop_keys(node, {"n_embed", "num_hidden_layers", "num_attention_heads", "n_inner", "offset_alibi", "unk_token_id",
                     "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "skip_bias_add",
                     "skip_bias_add_qkv"});
    if (!c.seq_length) drop_keys(node, {"seq_length"});
    return node;
  }

 private:
  Tensor with_places(const Tensor& x_BTD, Pass&) const override { return word_embeddings_layernorm(x_BTD); }
  BloomConfig c;
  nn::LayerNorm& word_embeddings_layernorm =
      child<nn::LayerNorm>("transformer.word_embeddings_layernorm", s.hidden, s.eps);
};

}  // namespace

void register_bloom(Registries& hone) {
  hone.models.add<Bloom, BloomConfig>("bloom", "BLOOM: scores fall with the distance of key and query (ALiBi).");
}

}  // namespace hone::models
