// What config.json of T5 and its relatives may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/op_options.h"

namespace hone::models {

struct T5Config {
  std::string model_type = "t5";
  std::optional<std::int64_t> vocab_size, d_ff, num_layers, num_decoder_layers, num_heads, n_positions;
  std::int64_t d_model = 512, d_kv = 64, relative_attention_num_buckets = 32, relative_attention_max_distance = 128;
  std::optional<std::string> feed_forward_proj, dense_act_fn;
  std::optional<bool> is_gated_act, tie_word_embeddings, scale_decoder_outputs;
  double dropout_rate = 0.1, layer_norm_epsilon = 1e-6, initializer_factor = 1, classifier_dropout = 0;
  std::optional<std::int64_t> pad_token_id, decoder_start_token_id;
  config::Open bos_token_id, eos_token_id{config::Node::scalar("1")};

  static constexpr auto fields() {
    using C = T5Config;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr config::Range layers{.low = 1, .high = 10000}, id{.low = 0, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "t5, mt5 or umt5."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table; default 32128, of mt5 and umt5 250112.",
              size),
        field("d_model", &C::d_model, "Width of the residual stream.", size),
        field("d_kv", &C::d_kv, "Size of a head.", size),
        field("d_ff", &C::d_ff, "Width inside the MLP; default 2048, of mt5 and umt5 1024.", size),
        field("num_layers", &C::num_layers, "Blocks of the encoder; default 6, of mt5 and umt5 8.", layers),
        field("num_decoder_layers", &C::num_decoder_layers, "Blocks of the decoder; default: num_layers.", layers),
        field("num_heads", &C::num_heads, "Attention heads; default 8, of mt5 and umt5 6.", {.low = 1, .high = 65536}),
        field("relative_attention_num_buckets", &C::relative_attention_num_buckets,
              "Classes of distances, each with a bias for each head.", {.low = 4, .high = 65536}),
        field("relative_attention_max_distance", &C::relative_attention_max_distance,
              "From which distance on all are of one class.", {.low = 2, .high = 2147483647}),
        field("feed_forward_proj", &C::feed_forward_proj,
              "Activation of the MLP, with gated- before it where there is a gate; default relu, of mt5 and umt5 "
              "gated-gelu, which is gelu_new."),
        field("dense_act_fn", &C::dense_act_fn, "The activation alone; follows from feed_forward_proj."),
        field("is_gated_act", &C::is_gated_act, "Follows from feed_forward_proj."),
        field("tie_word_embeddings", &C::tie_word_embeddings,
              "Use the embedding table as the head's weight; default true, of mt5 false. Where a folder that "
              "transformers 5 wrote says true and has a head's weight, it is the head's."),
        field(
            "scale_decoder_outputs", &C::scale_decoder_outputs,
            "Whether what the head reads is divided by the root of d_model; default: where it is tied. Never of mt5."),
        field("dropout_rate", &C::dropout_rate,
              "Share that training drops of embeddings, attention's weights and what blocks add.", share),
        field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the mean square in RMSNorm.",
              {.low = 0, .high = 1}),
        field("initializer_factor", &C::initializer_factor, "Times the standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("classifier_dropout", &C::classifier_dropout, "Of a head that this model has not; no effect.", share),
        field("n_positions", &C::n_positions, "What old folders say of texts' lengths; no effect.", size),
        field("pad_token_id", &C::pad_token_id, "Padding; kept for others. Default 0.", id),
        field("decoder_start_token_id", &C::decoder_start_token_id,
              "What a target is begun with; default: pad_token_id.", id),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others.")};
  }
  void validate(Problems& problems) const;
};

// What it means.
struct T5Shape {
  std::int64_t vocab = 0, hidden = 0, inner = 0, heads = 0, head_size = 0, encoder_layers = 0, decoder_layers = 0;
  std::int64_t buckets = 0, most_distance = 0;
  ops::Activation activation = ops::Activation::relu;
  std::string activation_name;
  bool gated = false, tied = true, scaled = true;  // scaled: what the head reads
  bool bias_in_each_layer = false;  // a table of each, else the first one's
  double dropout = 0, eps = 0, factor = 1;
  std::int32_t start = 0;
};
T5Shape resolve(const T5Config& config);  // throws Error(config)

// config.json in transformers 5's form; dtype "" = not known yet.
config::Node to_hf_config(const T5Config& config, const T5Shape& shape, const std::string& dtype);

}  // namespace hone::models
