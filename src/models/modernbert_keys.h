// What config.json of ModernBERT and of its decoder says alike, beside the keys of B, and what it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hone/config.h"
#include "hone/op_options.h"
#include "nn/rope.h"

namespace hone::models {

template <class B>
struct ModernKeys : B {
  using Base = B;
  std::string hidden_activation = "gelu", classifier_activation = "gelu";
  std::int64_t vocab_size = 50368, hidden_size = 768, num_hidden_layers = 22, num_attention_heads = 12,
               intermediate_size = 1152, max_position_embeddings = 8192;
  std::optional<std::int64_t> global_attn_every_n_layers;
  std::optional<std::vector<std::string>> layer_types;
  config::Open rope_parameters;
  std::optional<double> global_rope_theta, local_rope_theta, layer_norm_eps;
  double norm_eps = 1e-5, initializer_range = 0.02, initializer_cutoff_factor = 2;
  double attention_dropout = 0, embedding_dropout = 0, mlp_dropout = 0, classifier_dropout = 0;
  bool norm_bias = false, attention_bias = false, mlp_bias = false, classifier_bias = false, decoder_bias = true;
  std::optional<std::string> position_embedding_type;
  std::optional<bool> reference_compile, repad_logits_with_grad;
  config::Open bos_token_id = id("50281"), eos_token_id = id("50282"), cls_token_id = id("50281"),
               sep_token_id = id("50282");

  static constexpr auto fields() {
    using C = ModernKeys;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr const char* nothing = "No effect, in transformers as here.";
    return std::tuple_cat(
        B::fields(),
        std::tuple{
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
            field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
            field("intermediate_size", &C::intermediate_size, "Width inside the gated MLP.", size),
            field("hidden_activation", &C::hidden_activation, "Activation of the MLP, by Hugging Face's name."),
            field("max_position_embeddings", &C::max_position_embeddings, "Longest text the model is meant for.", size),
            field("layer_types", &C::layer_types, "full_attention or sliding_attention of each layer."),
            field("global_attn_every_n_layers", &C::global_attn_every_n_layers,
                  "Without layer_types: the first layer of so many sees all tokens, the others slide; default 3.",
                  at_least(1)),
            field("rope_parameters", &C::rope_parameters,
                  "Rotary position embedding: sections full_attention and sliding_attention."),
            field("global_rope_theta", &C::global_rope_theta, "Base where rope_parameters says none; default 160000.",
                  {.low = 1, .high = 1e15}),
            field("local_rope_theta", &C::local_rope_theta, "The same of sliding layers; default 10000.",
                  {.low = 1, .high = 1e15}),
            field("norm_eps", &C::norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
            field("norm_bias", &C::norm_bias, "Biases in LayerNorm."),
            field("attention_bias", &C::attention_bias, "Biases in the attention's projections."),
            field("mlp_bias", &C::mlp_bias, "Biases in the MLP."),
            field("attention_dropout", &C::attention_dropout,
                  "Share that training drops of the attention's weights, and of what attention adds.", share),
            field("embedding_dropout", &C::embedding_dropout, "Share that training drops of the embeddings.", share),
            field("mlp_dropout", &C::mlp_dropout, "Share that training drops inside the MLP.", share),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
                  {.low = 0, .high = 100}),
            field("initializer_cutoff_factor", &C::initializer_cutoff_factor,
                  "Kept for others: fresh weights are normal numbers that nothing cuts off."),
            field("classifier_dropout", &C::classifier_dropout, "Share that training drops before the classifier.",
                  share),
            field("classifier_bias", &C::classifier_bias,
                  "A bias in the heads' first product, and of a decoder in the classifier's."),
            field("classifier_activation", &C::classifier_activation, "The heads' activation, by Hugging Face's name."),
            field("decoder_bias", &C::decoder_bias, "A bias of each token in the head that tells tokens."),
            field("layer_norm_eps", &C::layer_norm_eps, nothing),
            field("position_embedding_type", &C::position_embedding_type, nothing),
            field("reference_compile", &C::reference_compile, nothing),
            field("repad_logits_with_grad", &C::repad_logits_with_grad, nothing),
            field("bos_token_id", &C::bos_token_id, "Kept for others."),
            field("eos_token_id", &C::eos_token_id, "Kept for others."),
            field("cls_token_id", &C::cls_token_id, "Kept for others."),
            field("sep_token_id", &C::sep_token_id, "Kept for others.")});
  }

 private:
  static config::Open id(const char* number) { return config::Open{config::Node::scalar(number)}; }
};

// Which layers slide: by layer_types, else all but the first of so many.
std::vector<bool> modern_layers(std::int64_t layers, std::optional<std::int64_t> global_every,
                                const std::optional<std::vector<std::string>>& layer_types, Problems& problems);

struct ModernRopes {
  nn::RopeConfig all, sliding;
};
// rope_parameters, and the bases where it says none.
struct ModernRopeKeys {
  const config::Node& parameters;
  std::optional<double> global_theta, local_theta;
  std::int64_t head_size, max_positions;
};
ModernRopes modern_ropes(const ModernRopeKeys& keys, Problems& problems);

// Keys of config.json as transformers 5 writes them, of layers and of positions.
config::Node modern_layer_keys(const std::vector<bool>& slides, const ModernRopes& ropes);

}  // namespace hone::models
