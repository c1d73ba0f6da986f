// OPT (Zhang et al., 2022, arXiv:2205.01068), and Galactica: learned positions, whose rows begin with the third one.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens.
#include "hone/registry.h"
#include "models/classic.h"

namespace hone::models {
namespace {

constexpr std::int64_t kFirstPosition = 2;

struct OptConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "opt", activation_function = "relu";
  std::int64_t vocab_size = 50272, hidden_size = 768, num_hidden_layers = 12, ffn_dim = 3072, num_attention_heads = 12,
               max_position_embeddings = 2048;
  std::optional<std::int64_t> word_embed_proj_dim, pad_token_id = 1;
  config::Open bos_token_id{config::Node::scalar("2")}, eos_token_id{config::Node::scalar("2")};
  double dropout = 0.1, attention_dropout = 0, layerdrop = 0, init_std = 0.02, activation_dropout = 0;
  bool do_layer_norm_before = true, remove_final_layer_norm = false, enable_bias = true,
       layer_norm_elementwise_affine = true, tie_word_embeddings = true;

  static constexpr auto fields() {
    using C = OptConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "opt."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
            field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("ffn_dim", &C::ffn_dim, "Width inside the MLP.", size),
            field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
            field("max_position_embeddings", &C::max_position_embeddings,
                  "Positions that are learned: no document may be longer.", size),
            field("word_embed_proj_dim", &C::word_embed_proj_dim,
                  "Width of the embedding table and of what the head reads; default: hidden_size.", size),
            field("activation_function", &C::activation_function, "Activation of the MLP, by Hugging Face's name."),
            field("dropout", &C::dropout, "Share that training drops of what attention and MLP add.", share),
            field("attention_dropout", &C::attention_dropout, "Share that training drops of the attention's weights.",
                  share),
            field("layerdrop", &C::layerdrop, "No effect: no layer is left out in training.", share),
            field("activation_dropout", &C::activation_dropout, "Has no effect, in transformers as here.", share),
            field("init_std", &C::init_std, "Standard deviation of fresh weights.", at_least(0)),
            field("do_layer_norm_before", &C::do_layer_norm_before,
                  "Norms before attention and MLP; false: behind what they are added to."),
            field("_remove_final_layer_norm", &C::remove_final_layer_norm, "No norm before the head."),
            field("enable_bias", &C::enable_bias, "Biases in attention and in the MLP."),
            field("layer_norm_elementwise_affine", &C::layer_norm_elementwise_affine, "Norms have weights."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id,
                  "Padding; its row of the embedding table gets no gradient from look-ups.")});
  }
  void validate(Problems& problems) const;
};

ClassicShape resolve(const OptConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "opt", s.architecture = "OPTForCausalLM";
  read_sizes({c.vocab_size, c.hidden_size, c.ffn_dim, c.num_hidden_layers, c.num_attention_heads,
              c.max_position_embeddings},
             s, problems);
  read_activation(c.activation_function, "activation_function", s, problems);
  read_pad(c.pad_token_id, s, problems);
  leave_unrotated(s);
  s.word_size = c.word_embed_proj_dim.value_or(c.hidden_size);
  s.tied = c.tie_word_embeddings, s.std = c.init_std, s.eps = 1e-5;
  s.qkv_bias = s.output_bias = s.mlp_bias = c.enable_bias;
  s.norm_weights = c.layer_norm_elementwise_affine, s.norms_first = c.do_layer_norm_before;
  s.normed_at_last = c.do_layer_norm_before && !c.remove_final_layer_norm;
  s.residual_dropout = c.dropout, s.attention_dropout = c.attention_dropout;
  s.output = "out_proj", s.body = "model.decoder", s.last_norm = "final_layer_norm";
  s.labels_of_words_exist = false;
  read_head(c, s, problems);
  return s;
}

void OptConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Opt final : public LearnedPlaces<FairseqBlock, LastNorm> {
 public:
  Opt(const OptConfig& config, const HeadRequest& head)
      : LearnedPlaces(classic_shape_of(config, head), "model.decoder.embed_positions", kFirstPosition), c(config) {
    if (s.words() == s.hidden) return;
    const nn::Linear::Options options{.std = s.std};
    project_in = &child<nn::Linear>("model.decoder.project_in", s.words(), s.hidden, options);
    project_out = &child<nn::Linear>("model.decoder.project_out", s.hidden, s.words(), options);
  }

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor x = LearnedPlaces::finish(x_1ND, pass);
    return project_out ? (*project_out)(x, pass) : x;
  }
  std::string base_prefix() const override { return "model."; }
  // What fairseq's folders say of themselves.
  bool is_no_weight(const std::string& tensor) const override { return tensor.ends_with("decoder.version"); }

  config::Node hf_config() const override {
    config::Node node = written(c, s, dtype());
    node.at_or_add("word_embed_proj_dim") = config::Values<std::int64_t>::write(s.words());
    drop_keys(node, {"activation_dropout"});
    return node;
  }

 private:
  Tensor with_places(const Tensor& x_BTD, Pass& pass) const override {
    return LearnedPlaces::with_places(project_in ? (*project_in)(x_BTD, pass) : x_BTD, pass);
  }
  OptConfig c;
  nn::Linear *project_in = nullptr, *project_out = nullptr;  // null: the table is as wide as all else
};

}  // namespace

void register_opt(Registries& hone) {
  hone.models.add<Opt, OptConfig>("opt", "OPT and Galactica: learned positions, an MLP without a gate.");
}

}  // namespace hone::models
