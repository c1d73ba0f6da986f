// XGLM (Lin et al., 2022, arXiv:2112.10668), whose positions are waves, and BioGPT (Luo et al., 2022,
// arXiv:2210.10341), which learns them: fairseq's decoders, whose embeddings are multiplied by the root of their width.
//
// Letters in tensor names: B batch, T time, D hidden.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/registry.h"
#include "models/classic.h"

namespace hone::models {
namespace {

constexpr std::int64_t kFirstPlace = 2;

struct XglmConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "xglm", activation_function = "gelu";
  std::int64_t vocab_size = 256008, max_position_embeddings = 2048, d_model = 1024, ffn_dim = 4096, num_layers = 24,
               attention_heads = 16;
  std::optional<std::int64_t> decoder_start_token_id, pad_token_id = 1;
  config::Open bos_token_id{config::Node::scalar("0")}, eos_token_id{config::Node::scalar("2")};
  double dropout = 0.1, attention_dropout = 0.1, activation_dropout = 0, layerdrop = 0, init_std = 0.02;
  bool scale_embedding = true, add_cross_attention = false, tie_word_embeddings = true;

  static constexpr auto fields() {
    using C = XglmConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "xglm."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("max_position_embeddings", &C::max_position_embeddings, "Longest sequence the model is meant for.",
                  size),
            field("d_model", &C::d_model, "Width of the residual stream.", {.low = 4, .high = 2147483647}),
            field("ffn_dim", &C::ffn_dim, "Width inside the MLP.", size),
            field("num_layers", &C::num_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("attention_heads", &C::attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
            field("activation_function", &C::activation_function, "Activation of the MLP, by Hugging Face's name."),
            field("dropout", &C::dropout,
                  "Share that training drops of the embeddings, and of what attention and MLP add.", share),
            field("attention_dropout", &C::attention_dropout, "Share that training drops of the attention's weights.",
                  share),
            field("activation_dropout", &C::activation_dropout, "Share that training drops inside the MLP.", share),
            field("layerdrop", &C::layerdrop, "No effect: no layer is left out in training.", share),
            field("init_std", &C::init_std, "Standard deviation of fresh weights.", at_least(0)),
            field("scale_embedding", &C::scale_embedding, "Embeddings are multiplied by the root of d_model."),
            field("add_cross_attention", &C::add_cross_attention, "Must be false."),
            field("decoder_start_token_id", &C::decoder_start_token_id, "Kept for others; default 2."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id,
                  "Padding; its row of the embedding table gets no gradient from look-ups.")});
  }
  void validate(Problems& problems) const;
};

struct BioGptConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "biogpt", hidden_act = "gelu";
  std::int64_t vocab_size = 42384, hidden_size = 1024, num_hidden_layers = 24, num_attention_heads = 16,
               intermediate_size = 4096, max_position_embeddings = 1024;
  std::optional<std::int64_t> pad_token_id = 1;
  config::Open bos_token_id{config::Node::scalar("0")}, eos_token_id{config::Node::scalar("2")};
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1, activation_dropout = 0, layerdrop = 0,
         initializer_range = 0.02, layer_norm_eps = 1e-12;
  std::optional<double> classifier_dropout;
  bool scale_embedding = true, tie_word_embeddings = true;

  static constexpr auto fields() {
    using C = BioGptConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "biogpt."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
            field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
            field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
            field("max_position_embeddings", &C::max_position_embeddings,
                  "Positions that are learned: no document may be longer.", size),
            field("hidden_act", &C::hidden_act, "Activation of the MLP, by Hugging Face's name."),
            field("hidden_dropout_prob", &C::hidden_dropout_prob,
                  "Share that training drops of the embeddings, and of what attention and MLP add.", share),
            field("attention_probs_dropout_prob", &C::attention_probs_dropout_prob,
                  "Share that training drops of the attention's weights.", share),
            field("activation_dropout", &C::activation_dropout, "Share that training drops inside the MLP.", share),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a head for labels of tokens reads; default: "
                  "hidden_dropout_prob.", share),
            field("layerdrop", &C::layerdrop, "No effect: no layer is left out in training.", share),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("layer_norm_eps", &C::layer_norm_eps, "Has no effect: 1e-5 it is, in transformers as here."),
            field("scale_embedding", &C::scale_embedding, "Embeddings are multiplied by the root of hidden_size."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id,
                  "Padding; its row of the embedding table gets no gradient from look-ups.")});
  }
  void validate(Problems& problems) const;
};

void read_fairseq(ClassicShape& s, bool scaled) {
  leave_unrotated(s);
  s.eps = 1e-5, s.embedding_scale = scaled ? std::sqrt(static_cast<double>(s.hidden)) : 1;
  s.qkv_bias = s.output_bias = s.mlp_bias = true;
  s.output = "out_proj", s.last_norm = "layer_norm";
}

ClassicShape resolve(const XglmConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "xglm", s.architecture = "XGLMForCausalLM";
  read_sizes({c.vocab_size, c.d_model, c.ffn_dim, c.num_layers, c.attention_heads, c.max_position_embeddings, "d_model",
              "attention_heads"},
             s, problems);
  read_activation(c.activation_function, "activation_function", s, problems);
  read_pad(c.pad_token_id, s, problems);
  read_fairseq(s, c.scale_embedding);
  require_flag(c.add_cross_attention, false, "add_cross_attention", problems);
  s.tied = c.tie_word_embeddings, s.std = c.init_std;
  s.residual_dropout = s.embedding_dropout = c.dropout, s.attention_dropout = c.attention_dropout;
  s.activation_dropout = c.activation_dropout;
  s.labels_of_texts_exist = s.labels_of_words_exist = false;
  read_head(c, s, problems);
  return s;
}

ClassicShape resolve(const BioGptConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "biogpt", s.architecture = "BioGptForCausalLM";
  read_sizes({c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads,
              c.max_position_embeddings},
             s, problems);
  read_activation(c.hidden_act, "hidden_act", s, problems);
  read_pad(c.pad_token_id, s, problems);
  read_fairseq(s, c.scale_embedding);
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range;
  s.residual_dropout = s.embedding_dropout = c.hidden_dropout_prob;
  s.attention_dropout = c.attention_probs_dropout_prob, s.activation_dropout = c.activation_dropout;
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout_prob);
  s.body = "biogpt", s.head = "output_projection", s.token_classifier = "classifier";
  read_head(c, s, problems);
  return s;
}

void XglmConfig::validate(Problems& problems) const { resolve(*this, problems); }
void BioGptConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Xglm final : public ClassicModel<FairseqBlock, LastNorm> {
 public:
  Xglm(const XglmConfig& config, const HeadRequest& head) : ClassicModel(classic_shape_of(config, head)), c(config) {}

  config::Node hf_config() const override {
    config::Node node = written(c, s, dtype());
    node.at_or_add("decoder_start_token_id") =
        config::Values<std::int64_t>::write(c.decoder_start_token_id.value_or(2));
    return node;
  }
  // The waves, which old versions saved.
  bool is_no_weight(const std::string& tensor) const override { return tensor.ends_with("embed_positions.weights"); }

 private:
  // Sines of places at frequencies from 1 to 1/10000, then their cosines.
  Tensor with_places(const Tensor& x_BTD, Pass& pass) const override {
    const Tensor row_BT1 = (nn::positions(pass) + kFirstPlace).unsqueeze(-1), places_BT1 = row_BT1.to(at::kDouble);
    const std::int64_t half = s.hidden / 2;
    const Tensor steps = at::arange(half, places_BT1.options()) * (-std::log(10000.0) / static_cast<double>(half - 1));
    const Tensor angles = places_BT1 * steps.exp();
    const Tensor made = at::constant_pad_nd(at::cat({angles.sin(), angles.cos()}, -1), {0, s.hidden - 2 * half});
    // Of transformers' table the padding's row is zeros, whichever place that is.
    return x_BTD + (made * (row_BT1 != s.no_gradient_id)).to(x_BTD.scalar_type());
  }
  XglmConfig c;
};

class BioGpt final : public LearnedPlaces<FairseqBlock, LastNorm> {
 public:
  BioGpt(const BioGptConfig& config, const HeadRequest& head)
      : LearnedPlaces(classic_shape_of(config, head), "biogpt.embed_positions", kFirstPlace), c(config) {}

  config::Node hf_config() const override { return written(c, s, dtype()); }

 private:
  BioGptConfig c;
};

}  // namespace

void register_xglm(Registries& hone) {
  hone.models.add<Xglm, XglmConfig>("xglm", "XGLM: positions are waves, and embeddings multiplied.");
  hone.models.add<BioGpt, BioGptConfig>("biogpt", "BioGPT: learned positions, and embeddings multiplied.");
}

}  // namespace hone::models
