// Falcon (Almazrouei et al., 2023, arXiv:2311.16867): attention and an MLP without a gate side by side or one behind
// the other, one key for all query heads, for a group of them or for each, rotated or with scores that fall with the
// distance.
//
// Letters in tensor names: N tokens, D hidden.
#include <ATen/ATen.h>

#include <fmt/format.h>

#include "hone/registry.h"
#include "models/classic.h"

namespace hone::models {
namespace {

using config::Node;

struct FalconConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "falcon", activation = "gelu";
  std::int64_t vocab_size = 65024, max_position_embeddings = 2048;
  std::optional<std::int64_t> hidden_size, n_embed, num_hidden_layers, num_attention_heads, num_kv_heads,
      num_ln_in_parallel_attn, ffn_hidden_size, ff_factor;
  config::Open pad_token_id, bos_token_id{Node::scalar("11")}, eos_token_id{Node::scalar("11")};
  config::Open rope_parameters, rope_scaling;
  std::optional<double> rope_theta, classifier_dropout;
  double hidden_dropout = 0, attention_dropout = 0, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool alibi = false, new_decoder_architecture = false, multi_query = true, parallel_attn = true, bias = false,
       tie_word_embeddings = true;
  std::optional<bool> apply_residual_connection_post_layernorm;

  static constexpr auto fields() {
    using C = FalconConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "falcon."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream; default 4544.", size),
            field("n_embed", &C::n_embed, "The same, as old folders say it.", size),
            field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks; default 32.",
                  {.low = 1, .high = 10000}),
            field("num_attention_heads", &C::num_attention_heads, "Query heads; default 71.",
                  {.low = 1, .high = 65536}),
            field("max_position_embeddings", &C::max_position_embeddings, "Longest sequence the model is meant for.",
                  size),
            field("new_decoder_architecture", &C::new_decoder_architecture,
                  "As the models from 40B on: groups of query heads share a key, as num_kv_heads says."),
            field("multi_query", &C::multi_query, "Otherwise: all query heads share one; false: each has its own."),
            field("num_kv_heads", &C::num_kv_heads, "Key and value heads of new_decoder_architecture; default: as "
                  "many as query heads.", {.low = 1, .high = 65536}),
            field("parallel_attn", &C::parallel_attn, "Attention and MLP are added at once; false: one behind the "
                  "other."),
            field("num_ln_in_parallel_attn", &C::num_ln_in_parallel_attn,
                  "new_decoder_architecture: 2, which is the default: attention and MLP have a norm each; 1: they read "
                  "the same.", {.low = 1, .high = 2}),
            field("alibi", &C::alibi, "Scores fall with the distance of key and query, and nothing is rotated."),
            field("bias", &C::bias, "Biases in attention and in the MLP."),
            field("ffn_hidden_size", &C::ffn_hidden_size, "Width inside the MLP; default: 4 hidden_size.", size),
            field("ff_factor", &C::ff_factor, "Has no effect, in transformers as here."),
            field("activation", &C::activation, "Activation of the MLP, by Hugging Face's name."),
            field("rope_parameters", &C::rope_parameters, "Rotary position embedding, transformers 5's form."),
            field("rope_scaling", &C::rope_scaling, "The same in transformers 4's form."),
            field("rope_theta", &C::rope_theta, "Base of the rotary frequencies; default 10000.",
                  {.low = 1, .high = 1e15}),
            field("hidden_dropout", &C::hidden_dropout,
                  "Share that training drops of what the MLP adds, and attention beside it.", share),
            field("attention_dropout", &C::attention_dropout,
                  "Share that training drops of what attention adds where the MLP is behind it, and, with alibi, of "
                  "its weights.", share),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a head for labels of tokens reads; default: hidden_dropout.",
                  share),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("apply_residual_connection_post_layernorm", &C::apply_residual_connection_post_layernorm,
                  "Has no effect, in transformers as here."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id, "Padding; kept for others.")});
  }
  void validate(Problems& problems) const;
};

// How a block's norms are.
enum class FalconNorms { one, two, serial };

struct FalconShape : ClassicShape {
  FalconNorms norms = FalconNorms::one;
  double attention_part_dropout = 0;  // of what attention adds, where the MLP is behind it
};

FalconNorms norms_of(const FalconConfig& c, Problems& problems) {
  const bool two = c.num_ln_in_parallel_attn.value_or(c.new_decoder_architecture ? 2 : 1) == 2;
  if (c.new_decoder_architecture)
    problems.require(c.parallel_attn, "parallel_attn", "got false, expected true with new_decoder_architecture");
  else
    problems.require(!two, "num_ln_in_parallel_attn", "got 2, expected 1 without new_decoder_architecture");
  if (!c.parallel_attn) return FalconNorms::serial;
  return two ? FalconNorms::two : FalconNorms::one;
}

void read_heads(const FalconConfig& c, FalconShape& s, Problems& problems) {
  if (c.new_decoder_architecture) {
    s.kv_heads = c.num_kv_heads.value_or(s.heads), s.qkv_form = QkvForm::by_groups;
    problems.require(s.heads % s.kv_heads == 0, "num_kv_heads",
                     fmt::format("got {}, expected a divisor of num_attention_heads ({})", s.kv_heads, s.heads));
  } else if (c.multi_query) {
    s.kv_heads = 1, s.qkv_form = QkvForm::by_groups;
  } else {
    s.qkv_form = QkvForm::by_heads;
    problems.require(c.num_kv_heads.value_or(s.heads) == s.heads, "num_kv_heads",
                     fmt::format("got {}, expected num_attention_heads ({}) without multi_query",
                                 c.num_kv_heads.value_or(0), s.heads));
  }
}

void read_places(const FalconConfig& c, FalconShape& s, Problems& problems) {
  const auto given = [](const config::Open& open) { return open.node.is_null() ? nullptr : &open.node; };
  problems.require(c.alibi || s.head_size % 2 == 0, "hidden_size",
                   fmt::format("got {}, of which a head has {}; expected an even number", s.hidden, s.head_size));
  s.rope = nn::read_rope({.parameters = given(c.rope_parameters),
                          .scaling = given(c.rope_scaling),
                          .theta = c.rope_theta,
                          .partial_rotary_factor = {},
                          .default_theta = 10000,
                          .may_be_partial = false,
                          .original_max_position_embeddings = {},
                          .head_size = c.alibi ? 2 : s.head_size,
                          .max_positions = s.max_positions},
                         problems);
  if (!c.alibi) return;
  leave_unrotated(s);
  s.attention_dropout = c.attention_dropout;  // where heads are rotated, transformers drops no weights
  // transformers has them in bf16, and scales them as it scales scores.
  for (const double slope : nn::alibi_slopes(s.heads))
    s.slopes.push_back(static_cast<double>(static_cast<c10::BFloat16>(static_cast<float>(slope))) * s.attention_scale);
}

FalconShape resolve(const FalconConfig& c, Problems& problems) {
  FalconShape s;
  s.model_type = "falcon", s.architecture = "FalconForCausalLM";
  const std::int64_t hidden = one_of("n_embed", c.n_embed, "hidden_size", c.hidden_size, 4544, problems);
  read_sizes({.vocab = c.vocab_size,
              .hidden = hidden,
              .inner = c.ffn_hidden_size.value_or(4 * hidden),
              .layers = c.num_hidden_layers.value_or(32),
              .heads = c.num_attention_heads.value_or(71),
              .max_positions = c.max_position_embeddings},
             s, problems);
  read_activation(c.activation, "activation", s, problems);
  read_heads(c, s, problems);
  read_places(c, s, problems);
  s.norms = norms_of(c, problems);
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.layer_norm_epsilon;
  s.qkv_bias = s.output_bias = s.mlp_bias = c.bias;
  s.residual_dropout = c.hidden_dropout, s.attention_part_dropout = c.attention_dropout;
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout);
  s.body = "transformer", s.table = "word_embeddings", s.stack = "h", s.last_norm = "ln_f", s.output = "dense";
  s.token_classifier = "classifier";
  read_head(c, s, problems);
  return s;
}

void FalconConfig::validate(Problems& problems) const { resolve(*this, problems); }

class FalconBlock final : public nn::ResidualBlock {
 public:
  FalconBlock(const FalconShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attention(child<ClassicAttention>("self_attention", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    if (s.norms == FalconNorms::serial) {
      x += nn::dropout(self_attention(attention_norm(x), pass), s.attention_part_dropout, pass, "attention");
      x += nn::dropout(mlp((*mlp_norm)(x), pass), s.residual_dropout, pass, "mlp");
      return;
    }
    const Tensor normed_1ND = attention_norm(x), mlp_in_1ND = mlp_norm ? Tensor((*mlp_norm)(x)) : normed_1ND;
    const Tensor made_1ND = mlp(mlp_in_1ND, pass) + self_attention(normed_1ND, pass);
    x += nn::dropout(made_1ND, s.residual_dropout, pass, "both");
  }

 private:
  nn::LayerNorm& norm(const char* name) { return child<nn::LayerNorm>(name, s.hidden, s.eps); }
  const FalconShape& s;
  nn::LayerNorm& attention_norm = norm(s.norms == FalconNorms::two ? "ln_attn" : "input_layernorm");
  const nn::LayerNorm* mlp_norm = s.norms == FalconNorms::two      ? &norm("ln_mlp")
                                  : s.norms == FalconNorms::serial ? &norm("post_attention_layernorm")
                                                                   : nullptr;  // the MLP reads the other one
  ClassicAttention& self_attention;
  PlainMlp& mlp = child<PlainMlp>("mlp", s.mlp_options("dense_h_to_4h", "dense_4h_to_h"));
};

class Falcon final : public ClassicModel<FalconBlock, nn::LayerNorm, FalconShape> {
 public:
  Falcon(const FalconConfig& config, const HeadRequest& head)
      : ClassicModel(classic_shape_of(config, head)), c(config) {}

  Node hf_config() const override {
    Node node = written(c, s, dtype(), {"num_ln_in_parallel_attn"});
    const auto put = [&](const char* key, std::int64_t value) {
      node.at_or_add(key) = config::Values<std::int64_t>::write(value);
    };
    put("hidden_size", s.hidden), put("num_hidden_layers", s.layers), put("num_attention_heads", s.heads);
    put("ffn_hidden_size", s.inner);
    put("num_kv_heads", c.num_kv_heads.value_or(s.heads));
    if (c.new_decoder_architecture) put("num_ln_in_parallel_attn", s.norms == FalconNorms::two ? 2 : 1);
    node.at_or_add("rope_parameters") = nn::write_rope(s.rope);
    drop_keys(node, {"n_embed", "rope_scaling", "rope_theta", "ff_factor", "apply_residual_connection_post_layernorm"});
    return node;
  }

 private:
  FalconConfig c;
};

}  // namespace

void register_falcon(Registries& hone) {
  hone.models.add<Falcon, FalconConfig>("falcon", "Falcon: all query heads, or groups of them, share one key.");
}

}  // namespace hone::models
