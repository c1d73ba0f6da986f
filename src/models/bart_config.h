// What config.json of BART and its relatives may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/op_options.h"

namespace hone::models {

struct BartConfig {
  std::string model_type = "bart";
  std::optional<std::string> activation_function;
  std::optional<std::int64_t> vocab_size, pad_token_id, decoder_start_token_id, decoder_vocab_size;
  std::int64_t max_position_embeddings = 1024, d_model = 1024, encoder_layers = 12, decoder_layers = 12;
  std::int64_t encoder_attention_heads = 16, decoder_attention_heads = 16;
  std::int64_t encoder_ffn_dim = 4096, decoder_ffn_dim = 4096;
  double dropout = 0.1, activation_dropout = 0, init_std = 0.02;
  double encoder_layerdrop = 0, decoder_layerdrop = 0;
  std::optional<double> attention_dropout, classifier_dropout, classif_dropout;
  std::optional<bool> scale_embedding;
  bool tie_word_embeddings = true, share_encoder_decoder_embeddings = true;
  std::optional<bool> normalize_before, normalize_embedding, add_final_layer_norm, add_bias_logits;
  std::optional<bool> static_position_embeddings, force_bos_token_to_be_generated, gradient_checkpointing;
  std::optional<std::int64_t> extra_pos_embeddings, num_hidden_layers, old_num_labels;
  config::Open bos_token_id, eos_token_id, forced_bos_token_id, forced_eos_token_id{config::Node::scalar("default")};

  static constexpr auto fields() {
    using C = BartConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr config::Range layers{.low = 1, .high = 10000}, id{.low = 0, .high = 2147483647};
    constexpr config::Range heads{.low = 1, .high = 65536};
    return std::tuple{
        field("model_type", &C::model_type, "bart, mbart, m2m_100, pegasus or marian."),
        field("vocab_size", &C::vocab_size,
              "Rows of the embedding table; default 50265, of m2m_100 128112, of marian 58101.", size),
        field("max_position_embeddings", &C::max_position_embeddings,
              "Positions; those of bart and mbart are learned: no document may be longer.", size),
        field("d_model", &C::d_model, "Width of the residual stream.", size),
        field("encoder_layers", &C::encoder_layers, "Blocks of the encoder.", layers),
        field("decoder_layers", &C::decoder_layers, "Blocks of the decoder.", layers),
        field("encoder_attention_heads", &C::encoder_attention_heads, "Attention heads of the encoder.", heads),
        field("decoder_attention_heads", &C::decoder_attention_heads, "Attention heads of the decoder.", heads),
        field("encoder_ffn_dim", &C::encoder_ffn_dim, "Width inside the encoder's MLP.", size),
        field("decoder_ffn_dim", &C::decoder_ffn_dim, "Width inside the decoder's MLP.", size),
        field("activation_function", &C::activation_function,
              "Activation of the MLP, by Hugging Face's name; default gelu, of m2m_100 relu."),
        field("dropout", &C::dropout, "Share that training drops of embeddings and of what parts add.", share),
        field("attention_dropout", &C::attention_dropout,
              "Share of attention weights that training drops; default 0, of m2m_100 0.1.", share),
        field("activation_dropout", &C::activation_dropout, "Share that training drops inside the MLP.", share),
        field("init_std", &C::init_std, "Standard deviation of fresh weights.", {.low = 0, .high = 100}),
        field("encoder_layerdrop", &C::encoder_layerdrop, "No effect: no layer is left out in training.", share),
        field("decoder_layerdrop", &C::decoder_layerdrop, "No effect: no layer is left out in training.", share),
        field("scale_embedding", &C::scale_embedding,
              "Multiply embeddings with sqrt(d_model); default false, of m2m_100 true."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Must be true."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups. Default 1, of pegasus 0, of "
              "marian 58100.",
              id),
        field("decoder_start_token_id", &C::decoder_start_token_id,
              "What a target is begun with; default: eos_token_id, of pegasus and marian pad_token_id. Of mbart it "
              "must be given: eos_token_id (2) of mBART-50, the target's language of those before it.",
              id),
        field("decoder_vocab_size", &C::decoder_vocab_size, "Of marian; must be vocab_size.", size),
        field("share_encoder_decoder_embeddings", &C::share_encoder_decoder_embeddings, "Of marian; must be true."),
        field("normalize_before", &C::normalize_before, "What old folders say; follows from model_type."),
        field("normalize_embedding", &C::normalize_embedding, "What old folders say; follows from model_type."),
        field("add_final_layer_norm", &C::add_final_layer_norm, "What old folders say; follows from model_type."),
        field("static_position_embeddings", &C::static_position_embeddings,
              "What old folders say; follows from model_type."),
        field("add_bias_logits", &C::add_bias_logits, "What old folders say; no effect."),
        field("extra_pos_embeddings", &C::extra_pos_embeddings, "What old folders say; no effect."),
        field("force_bos_token_to_be_generated", &C::force_bos_token_to_be_generated,
              "What old folders say; no effect."),
        field("gradient_checkpointing", &C::gradient_checkpointing, "No effect: trainer.checkpoint_blocks says it."),
        field("num_hidden_layers", &C::num_hidden_layers, "encoder_layers once more; no effect."),
        field("_num_labels", &C::old_num_labels, "Of a head that this model has not; no effect."),
        field("classifier_dropout", &C::classifier_dropout, "Of a head that this model has not; no effect.", share),
        field("classif_dropout", &C::classif_dropout, "Of a head that this model has not; no effect.", share),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("forced_bos_token_id", &C::forced_bos_token_id, "Kept for others; generation_config.json decides."),
        field("forced_eos_token_id", &C::forced_eos_token_id, "Kept for others; generation_config.json decides.")};
  }
  void validate(Problems& problems) const;
};

// One of the two stacks.
struct BartSide {
  std::int64_t layers = 0, heads = 0, inner = 0;
};

// What it means.
struct BartShape {
  std::int64_t vocab = 0, hidden = 0, positions = 0, no_gradient_id = -1;
  BartSide encoder = {}, decoder = {};
  ops::Activation activation = ops::Activation::gelu;
  bool norms_first = false;        // before each part, and one behind the last block, instead of behind each sum
  bool normed_embeddings = false;  // a norm of words and positions together
  bool learned_positions = false;  // else sines and cosines
  std::int64_t first_wave = 0;     // the place that the first position's are of
  bool waves_end_sooner = false;   // of the last frequency, and not of one more, a wave is as long as can be
  bool biased_head = true;
  double embedding_scale = 1, dropout = 0, attention_dropout = 0, activation_dropout = 0, std = 0.02;
  std::int32_t start = 0;
};
BartShape resolve(const BartConfig& config);  // throws Error(config)

// config.json in transformers 5's form; dtype "" = not known yet.
config::Node to_hf_config(const BartConfig& config, const BartShape& shape, const std::string& dtype);

}  // namespace hone::models
