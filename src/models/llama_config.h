// What config.json of a Llama-like model may say, and the plain numbers that it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/label_keys.h"
#include "models/llama_families.h"
#include "models/sort_keys.h"
#include "nn/rope.h"
#include "ops/gated.h"

namespace hone::models {

// As written. Absent and null differ for some keys: those are kept open, with "default" standing for absent.
struct LlamaConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "llama";
  std::optional<std::int64_t> vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
  config::Open num_key_value_heads{config::Node::scalar("default")};
  std::optional<std::int64_t> head_dim, max_position_embeddings;
  std::optional<std::string> hidden_act;
  std::optional<double> rms_norm_eps, initializer_range;
  std::optional<bool> tie_word_embeddings, attention_bias, mlp_bias;
  config::Open rope_parameters, rope_scaling;
  std::optional<double> rope_theta, partial_rotary_factor;
  std::optional<std::int64_t> original_max_position_embeddings;
  config::Open sliding_window{config::Node::scalar("default")};
  std::optional<bool> use_sliding_window;
  std::optional<std::int64_t> max_window_layers;
  std::optional<std::vector<std::string>> layer_types;
  std::optional<double> attention_dropout, classifier_dropout;
  std::optional<std::int64_t> pretraining_tp;
  bool is_causal = true;
  config::Open bos_token_id{config::Node::scalar("default")}, eos_token_id{config::Node::scalar("default")},
      pad_token_id{config::Node::scalar("default")};

  static constexpr auto fields() {
    using C = LlamaConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        LabelKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "Which of the family, such as llama, mistral, qwen2 or qwen3."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
            field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
            field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("num_attention_heads", &C::num_attention_heads, "Query heads.", {.low = 1, .high = 65536}),
            field("num_key_value_heads", &C::num_key_value_heads,
                  "Key and value heads; null = as many as query heads."),
            field("head_dim", &C::head_dim,
                  "Size of a head; absent: hidden_size / num_attention_heads, but 256 in gemma, qwen3_next, "
                  "vaultgemma and qwen3_5_text, 128 in qwen3, glm, ministral3, ernie4_5, minimax_m2, seed_oss, "
                  "internlm3, iquestcoder, solar_open, hy_v3, mellum, lfm3 and cohere2_moe, 64 in gpt_oss.",
                  {.low = 2, .high = 65536}),
            field("max_position_embeddings", &C::max_position_embeddings, "Longest sequence the model is meant for.",
                  size),
            field("hidden_act", &C::hidden_act,
                  "Activation of the MLP: silu, gelu, gelu_new, gelu_pytorch_tanh, relu or, in arcee, nemotron, "
                  "jais2 and nanochat, relu2; in apertus xielu alone."),
            field("rms_norm_eps", &C::rms_norm_eps, "Added to the mean square in RMSNorm; default 1e-6 or 1e-5.",
                  {.low = 0, .high = 1}),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
                  {.low = 0, .high = 100}),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("attention_bias", &C::attention_bias, "Biases in the attention's projections."),
            field("mlp_bias", &C::mlp_bias,
                  "Biases in the MLP (llama, granite, smollm3, seed_oss, arcee, nemotron, internlm3, iquestcoder, "
                  "jais2, hy_v3)."),
            field("rope_parameters", &C::rope_parameters, "Rotary position embedding, transformers 5's form."),
            field("rope_scaling", &C::rope_scaling,
                  "Rotary position embedding, transformers 4's form; wins over rope_parameters."),
            field("rope_theta", &C::rope_theta, "Base of the rotary frequencies; default 10000, or the family's.",
                  {.low = 1, .high = 1e15}),
            field("partial_rotary_factor", &C::partial_rotary_factor,
                  "Share of a head that is rotated (phi, phi3, glm, glm4_moe, stablelm, nemotron, solar_open, "
                  "qwen3_next, qwen3_5_text)."),
            field("original_max_position_embeddings", &C::original_max_position_embeddings,
                  "Length before rotary scaling; wins over the one in rope_parameters.", size),
            field("sliding_window", &C::sliding_window,
                  "Tokens that a token of a sliding layer sees, itself included; null = all."),
            field("use_sliding_window", &C::use_sliding_window,
                  "qwen2, qwen3, qwen3_moe, smollm3: whether there are sliding layers."),
            field("max_window_layers", &C::max_window_layers,
                  "qwen2, qwen3: layers from this one on slide, if layer_types is absent.", at_least(0)),
            field("layer_types", &C::layer_types,
                  "full_attention, sliding_attention, linear_attention or conv for each layer, where a family has "
                  "several."),
            field("attention_dropout", &C::attention_dropout,
                  "Share of attention weights that training drops; which ones is a function of run.seed and the step.",
                  {.low = 0, .high = 0.999}),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a classification head of tokens reads; default 0.1, or "
                  "hidden_dropout where a family has that.",
                  {.low = 0, .high = 0.999}),
            field("pretraining_tp", &C::pretraining_tp, "Must be 1."),
            field("is_causal", &C::is_causal, "Must be true."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id,
                  "Padding; its row of the embedding table gets no gradient from look-ups.")});
  }
  void validate(Problems& problems) const;
};

// What it means.
struct LlamaShape {
  std::string model_type, architecture;
  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, max_positions = 0;
  std::string activation_name = "silu";
  ops::Activation activation = ops::Activation::silu;
  double eps = 1e-6, std = 0.02, attention_dropout = 0;
  ops::RmsFactor factor = ops::RmsFactor::weight;  // of the norms
  bool tied = false, qkv_bias = false, output_bias = false, mlp_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool sinks = false;  // of each query head, in attention
  bool sees_all = false;  // a token sees those behind it, too: texts are read, and not continued
  double clip = 0;     // queries, keys and values are cut to [-clip, clip]; 0: they are not
  // Queries are multiplied by 1 + beta log(1 + floor(position / length)), as in Llama 4; beta 0: they are not.
  struct QueryGrowth {
    double beta = 0;
    std::int64_t length = 1;
  } growth;
  bool norm_bias = false;  // of LayerNorms, where a model has these
  bool head_bias = false;
  const char *q_norm = "q_norm", *k_norm = "k_norm", *output = "o_proj";  // what parts of attention are called
  const char *attention_norm = "input_layernorm", *mlp_norm = "post_attention_layernorm", *mlp_name = "mlp";
  std::int64_t no_gradient_id = -1;
  double attention_scale = 1, attention_soft_cap = 0, logit_soft_cap = 0, embedding_scale = 1;
  double residual_scale = 1, hidden_scale = 1;  // of what is added, and of what the head reads
  double residual_dropout = 0;                  // of what is added, in training
  std::vector<std::int64_t> windows;  // per layer; 0 = all tokens
  std::int64_t global_head_size = 0;  // of layers that see all tokens, where theirs is another; 0: head_size
  std::int64_t sliding_window = 0;    // what config.json says of it, though no layer slides; 0: nothing
  nn::RopeConfig rope;
  std::optional<nn::RopeConfig> sliding_rope;  // of the layers that slide, where they have another
  std::vector<double> thetas;                  // of each layer's own angles; 0: it is not rotated; empty: all alike
  std::vector<bool> unrotated;                 // per layer; empty: all are rotated
  bool rotates_neighbours = false;             // values 2i and 2i + 1 of a head, not i and i + half
  const char* last_norm = "norm";              // what the norm before the head is called
  const char *body = "model", *table = "embed_tokens";  // likewise all but the head, and the table of words
  const char *stack = "layers", *head = "lm_head";      // likewise the blocks, and the language model's head
  const char *token_classifier = "score", *text_classifier = "score";  // likewise heads for labels
  bool text_classifier_bias = false;
  std::int64_t word_size = 0;  // of the table's rows and of what heads read; 0: hidden
  HeadLabels labels;  // of a classification head, which is there instead of the language model's
  double classifier_dropout = 0.1;  // of what such a head of tokens reads, in training

  ops::RmsNormForm norm() const { return {eps, factor}; }
  std::int64_t words() const { return word_size > 0 ? word_size : hidden; }
};
LlamaShape resolve(const LlamaConfig& config, Problems& problems);
// The same for families with a configuration of their own, which goes on where this is true: nothing is wrong so far.
bool resolve_base(const LlamaConfig& config, LlamaShape& shape, Problems& problems);
// The head that is asked for instead of the one that config.json says. Throws Error(config): there is no such model.
void give_head(const HeadRequest& head, LlamaShape& shape);
void warn_ignored(const LlamaConfig& config);  // of keys that have no effect

// What a model of a family is made of: of its configuration C there is resolve(const C&, Problems&). Throws
// Error(config).
template <class C>
auto shape_of(const C& config, const HeadRequest& head) {
  Problems problems;
  auto shape = resolve(config, problems);
  problems.raise("the model's configuration");
  give_head(head, shape);
  warn_ignored(config);
  return shape;
}

// Whether there is anything in rope_scaling: an empty section is none, in transformers as here.
bool has_rope_scaling(const LlamaConfig& config);

// Whether a key that may be null is absent.
bool is_default(const config::Open& open);

// config.json in transformers 5's form; dtype "" = not known yet.
config::Node to_hf_config(const LlamaConfig& config, const LlamaShape& shape, const std::string& dtype);

// For families whose two kinds of layers have each their own rotary parameters: what is read into `rope` and
// `sliding_rope`, and how it is written.
void read_two_ropes(const LlamaConfig& config, std::optional<double> sliding_theta, double theta, LlamaShape& shape,
                    Problems& problems);
config::Node write_two_ropes(const LlamaShape& shape);

// Keys of Llama's that a family does not have: a problem each.
void refuse_keys(const std::string& family, const std::vector<std::pair<const char*, bool>>& given, Problems& problems);
// The same of families without a say in biases of the MLP and in which layers slide; lists_layers: but for layer_types.
void refuse_rare_keys(const LlamaConfig& config, bool lists_layers, Problems& problems);

}  // namespace hone::models
