// GPT-BigCode (Allal et al., 2023, arXiv:2301.03988), as SantaCoder and StarCoder 1: GPT-2 whose query heads share one
// key and one value.
#include "hone/registry.h"
#include "models/classic.h"

#include <cmath>

namespace hone::models {
namespace {

struct BigCodeConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "gpt_bigcode", activation_function = "gelu_pytorch_tanh";
  std::int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  std::optional<std::int64_t> n_inner, n_ctx, num_key_value_heads, max_batch_size, max_sequence_length;
  config::Open pad_token_id, bos_token_id{config::Node::scalar("50256")}, eos_token_id{config::Node::scalar("50256")};
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  std::optional<double> classifier_dropout, hidden_dropout;
  bool tie_word_embeddings = true, multi_query = true, scale_attn_weights = true, add_cross_attention = false,
       attention_softmax_in_fp32 = true, scale_attention_softmax_in_fp32 = true;
  std::optional<std::int64_t> attention_head_type, inference_runner;
  std::optional<bool> pad_key_length, pre_allocate_kv_cache, validate_runner_input;

  static constexpr auto fields() {
    using C = BigCodeConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr const char* nothing = "Has no effect, in transformers as here.";
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "gpt_bigcode."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("n_positions", &C::n_positions, "Positions that are learned: no document may be longer.", size),
            field("n_embd", &C::n_embd, "Width of the residual stream.", size),
            field("n_layer", &C::n_layer, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("n_head", &C::n_head, "Query heads.", {.low = 1, .high = 65536}),
            field("multi_query", &C::multi_query, "They share one key and one value; false: each has its own."),
            field("num_key_value_heads", &C::num_key_value_heads, "Follows from multi_query."),
            field("n_inner", &C::n_inner, "Width inside the MLP; default: 4 n_embd.", size),
            field("activation_function", &C::activation_function, "Activation of the MLP, by Hugging Face's name."),
            field("resid_pdrop", &C::resid_pdrop, "Share that training drops of what attention and MLP add.", share),
            field("embd_pdrop", &C::embd_pdrop, "Share that training drops of the embeddings.", share),
            field("attn_pdrop", &C::attn_pdrop, "Share that training drops of the attention's weights.", share),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a head for labels of tokens reads; default: hidden_dropout, or "
                  "0.1.", share),
            field("hidden_dropout", &C::hidden_dropout, "Only as the default of classifier_dropout.", share),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("scale_attn_weights", &C::scale_attn_weights,
                  "Scores are divided by the root of a head's size; false: they are not."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("add_cross_attention", &C::add_cross_attention, "Must be false."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
            field("attention_softmax_in_fp32", &C::attention_softmax_in_fp32, nothing),
            field("scale_attention_softmax_in_fp32", &C::scale_attention_softmax_in_fp32, nothing),
            field("n_ctx", &C::n_ctx, nothing), field("max_batch_size", &C::max_batch_size, nothing),
            field("max_sequence_length", &C::max_sequence_length, nothing),
            field("attention_head_type", &C::attention_head_type, nothing),
            field("inference_runner", &C::inference_runner, nothing),
            field("pad_key_length", &C::pad_key_length, nothing),
            field("pre_allocate_kv_cache", &C::pre_allocate_kv_cache, nothing),
            field("validate_runner_input", &C::validate_runner_input, nothing)});
  }
  void validate(Problems& problems) const;
};

ClassicShape resolve(const BigCodeConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "gpt_bigcode", s.architecture = "GPTBigCodeForCausalLM";
  read_sizes({.vocab = c.vocab_size,
              .hidden = c.n_embd,
              .inner = c.n_inner.value_or(4 * c.n_embd),
              .layers = c.n_layer,
              .heads = c.n_head,
              .max_positions = c.n_positions,
              .width_key = "n_embd",
              .heads_key = "n_head"},
             s, problems);
  read_activation(c.activation_function, "activation_function", s, problems);
  leave_unrotated(s);
  require_flag(c.add_cross_attention, false, "add_cross_attention", problems);
  if (c.multi_query) s.kv_heads = 1;
  problems.require(!c.num_key_value_heads || *c.num_key_value_heads == s.kv_heads, "num_key_value_heads",
                   "differs from multi_query; it may be left out");
  if (!c.scale_attn_weights) s.attention_scale = 1;
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.layer_norm_epsilon;
  s.added_std = s.std / std::sqrt(2.0 * static_cast<double>(s.layers));
  s.qkv_bias = s.output_bias = s.mlp_bias = true;
  s.residual_dropout = c.resid_pdrop, s.attention_dropout = c.attn_pdrop, s.embedding_dropout = c.embd_pdrop;
  s.classifier_dropout = c.classifier_dropout ? *c.classifier_dropout : c.hidden_dropout.value_or(0.1);
  s.body = "transformer", s.table = "wte", s.stack = "h", s.last_norm = "ln_f", s.output = "c_proj";
  s.qkv = "c_attn", s.qkv_form = c.multi_query ? QkvForm::by_groups : QkvForm::by_heads;
  s.token_classifier = "classifier";
  read_head(c, s, problems);
  return s;
}

void BigCodeConfig::validate(Problems& problems) const { resolve(*this, problems); }

constexpr SerialNames kBigCodeNames{"ln_1", "attn", "ln_2", "mlp", "c_fc", "c_proj"};

class GptBigCode final : public LearnedPlaces<SerialBlock<kBigCodeNames>> {
 public:
  GptBigCode(const BigCodeConfig& config, const HeadRequest& head)
      : LearnedPlaces(classic_shape_of(config, head), "transformer.wpe"), c(config) {}

  config::Node hf_config() const override {
    config::Node node = written(c, s, dtype(), {"n_inner"});
    node.at_or_add("num_key_value_heads") = config::Values<std::int64_t>::write(s.kv_heads);
    drop_keys(node, {"n_ctx", "max_batch_size", "max_sequence_length", "attention_head_type", "inference_runner",
                     "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input"});
    if (!c.hidden_dropout) drop_keys(node, {"hidden_dropout"});
    return node;
  }
  // Masks that old versions saved.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor == "transformer.bias" || tensor == "bias" || tensor.ends_with(".attn.bias") ||
           tensor.ends_with(".attn.masked_bias");
  }

 private:
  BigCodeConfig c;
};

}  // namespace

void register_gpt_bigcode(Registries& hone) {
  hone.models.add<GptBigCode, BigCodeConfig>("gpt_bigcode", "StarCoder 1: GPT-2 whose heads share one key and value.");
}

}  // namespace hone::models
