// What config.json of an xLSTM says, and the plain numbers that it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::models {

// As written. Two keys say the width and two the number of blocks: published files have one of each, or both.
struct XLstmConfig {
  std::string model_type = "xlstm";
  std::optional<std::vector<std::string>> architectures;
  std::int64_t vocab_size = 50304;
  std::optional<std::int64_t> hidden_size, embedding_dim, num_hidden_layers, num_blocks;
  std::int64_t num_heads = 8;
  double qk_dim_factor = 0.5, v_dim_factor = 1, ffn_proj_factor = 2.667;
  std::int64_t ffn_round_up_to_multiple_of = 64;
  double norm_eps = 1e-6, eps = 1e-6;
  double gate_soft_cap = 15, output_logit_soft_cap = 30;
  bool tie_word_embeddings = false;
  bool use_bias = false, add_out_norm = true, norm_reduction_force_float32 = true;
  std::optional<bool> add_post_blocks_norm, add_embedding_dropout, add_post_norm, add_qk_norm;  // of old files
  std::string weight_mode = "single";
  config::Open bos_token_id{config::Node::scalar("0")}, eos_token_id{config::Node::scalar("2")},
      pad_token_id{config::Node::scalar("1")};
  // How others compute it; kept.
  std::string chunkwise_kernel = "chunkwise--native_autograd", sequence_kernel = "native_sequence__native",
              step_kernel = "native", mode = "inference", autocast_kernel_dtype = "bfloat16",
              inference_state_dtype = "float32";
  std::int64_t chunk_size = 64, max_inference_chunksize = 16384;
  bool return_last_states = true;
  // What old files say besides, of things that follow from other keys or are no part of the model.
  std::optional<std::int64_t> head_dim, mlstm_round_up_to_multiple_of;
  std::optional<double> cell_norm_eps, igate_bias_init_range;
  std::optional<bool> force_bos_token_insert, add_forward_backend_padding;

  static constexpr auto fields() {
    using C = XLstmConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, factor{.low = 1e-6, .high = 1e6},
        cap{.low = 1e-6, .high = 1e9};
    return std::tuple{
        field("model_type", &C::model_type, "xlstm."),
        field("architectures", &C::architectures, "xLSTMForCausalLM; no effect."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream; default 4096.", size),
        field("embedding_dim", &C::embedding_dim, "The same by its other name.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Blocks; default 32.", {.low = 1, .high = 10000}),
        field("num_blocks", &C::num_blocks, "The same by its other name.", {.low = 1, .high = 10000}),
        field("num_heads", &C::num_heads, "Heads, with a memory each.", {.low = 1, .high = 65536}),
        field("qk_dim_factor", &C::qk_dim_factor, "Width of all queries (all keys) over hidden_size.", factor),
        field("v_dim_factor", &C::v_dim_factor, "Width of all values over hidden_size.", factor),
        field("ffn_proj_factor", &C::ffn_proj_factor, "Width inside the MLP over hidden_size.", factor),
        field("ffn_round_up_to_multiple_of", &C::ffn_round_up_to_multiple_of, "That width is made a multiple of this.",
              size),
        field("norm_eps", &C::norm_eps, "Added to the mean square, or the variance, in norms.", {.low = 0, .high = 1}),
        field("eps", &C::eps, "Added to what a memory's reading is divided by.", {.low = 0, .high = 1}),
        field("gate_soft_cap", &C::gate_soft_cap, "Input and forget gates g become cap tanh(g / cap).", cap),
        field("output_logit_soft_cap", &C::output_logit_soft_cap, "The same of logits.", cap),
        field("tie_word_embeddings", &C::tie_word_embeddings,
              "Must be false: transformers 5 ties nothing here whatever it says."),
        field("use_bias", &C::use_bias, "Must be false; the gates have biases all the same."),
        field("add_out_norm", &C::add_out_norm, "Must be true."),
        field("add_post_blocks_norm", &C::add_post_blocks_norm, "Must be true."),
        field("norm_reduction_force_float32", &C::norm_reduction_force_float32, "No effect: norms are made in fp32."),
        field("add_embedding_dropout", &C::add_embedding_dropout, "Must be false."),
        field("add_post_norm", &C::add_post_norm, "Must be false."),
        field("add_qk_norm", &C::add_qk_norm, "Must be false."),
        field("weight_mode", &C::weight_mode, "Must be single: a weight for each product."),
        field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
        field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
        field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
        field("chunkwise_kernel", &C::chunkwise_kernel, "How transformers computes it, as the next seven; no effect."),
        field("sequence_kernel", &C::sequence_kernel, "No effect."),
        field("step_kernel", &C::step_kernel, "No effect."),
        field("mode", &C::mode, "No effect."),
        field("autocast_kernel_dtype", &C::autocast_kernel_dtype, "No effect: memories are computed in fp32."),
        field("inference_state_dtype", &C::inference_state_dtype, "No effect: memories are kept in fp32."),
        field("chunk_size", &C::chunk_size, "No effect.", size),
        field("max_inference_chunksize", &C::max_inference_chunksize, "No effect.", size),
        field("return_last_states", &C::return_last_states, "No effect."),
        field("head_dim", &C::head_dim, "What old files say besides, as all that follow; no effect."),
        field("mlstm_round_up_to_multiple_of", &C::mlstm_round_up_to_multiple_of, "No effect."),
        field("cell_norm_eps", &C::cell_norm_eps, "No effect."),
        field("igate_bias_init_range", &C::igate_bias_init_range, "No effect: fresh biases are -10."),
        field("force_bos_token_insert", &C::force_bos_token_insert,
              "No effect, as in transformers: the tokenizer decides."),
        field("add_forward_backend_padding", &C::add_forward_backend_padding, "No effect.")};
  }
  void validate(Problems& problems) const;
};

struct XLstmShape {
  std::int64_t hidden = 0, layers = 0, inner = 0, vocab = 0;
  std::int64_t heads = 0, key_size = 0, value_size = 0;  // of a head
  double norm_eps = 0, eps = 0, gate_cap = 0, logit_cap = 0;
};

XLstmShape resolve(const XLstmConfig& config, Problems& problems);
// As transformers 5 writes it.
config::Node to_hf_config(const XLstmConfig& config, const XLstmShape& shape, const std::string& dtype);

}  // namespace hone::models
