// What config.json of an LFM2 model may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include "models/llama_config.h"
#include "nn/experts.h"

namespace hone::models {

// Of both kinds of LFM2: dense, and with routed experts.
struct Lfm2Keys : LlamaConfig {
  using Base = LlamaConfig;
  double norm_eps = 1e-5;
  bool conv_bias = false;
  std::int64_t conv_L_cache = 3;
  // Names of published files for keys that Llama has, too.
  std::optional<bool> tie_embedding;
  std::optional<double> theta;
  // Of published files.
  std::optional<std::int64_t> num_heads;
  std::optional<bool> use_pos_enc;

  static constexpr auto fields() {
    using C = Lfm2Keys;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("norm_eps", &C::norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
            field("conv_bias", &C::conv_bias, "Biases of convolutions and of the projections around them."),
            field("conv_L_cache", &C::conv_L_cache, "Tokens that a convolution reads.", {.low = 2, .high = 64}),
            field("tie_embedding", &C::tie_embedding, "tie_word_embeddings by another name; wins over it."),
            field("theta", &C::theta, "rope_theta by another name; must be the same.", {.low = 1, .high = 1e15}),
            field("use_pos_enc", &C::use_pos_enc, "Must be true: queries and keys are rotated."),
            field("num_heads", &C::num_heads, "Has no effect: num_attention_heads has.", {.low = 1, .high = 65536})});
  }
};

struct Lfm2Config : Lfm2Keys {
  using Base = Lfm2Keys;
  bool block_auto_adjust_ff_dim = true;
  std::optional<double> block_ffn_dim_multiplier = 1;
  std::int64_t block_multiple_of = 256;
  std::optional<std::vector<std::int64_t>> full_attn_idxs;
  std::optional<std::int64_t> block_ff_dim;
  // Of published files; nothing of the model depends on them.
  std::optional<std::int64_t> block_dim, conv_dim, conv_dim_out;
  std::optional<double> block_norm_eps, block_mlp_init_scale, block_out_init_scale;
  std::optional<bool> block_use_xavier_init, conv_use_xavier_init, block_use_swiglu;

  static constexpr auto fields() {
    using C = Lfm2Config;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        Lfm2Keys::fields(),
        std::tuple{
            field("block_auto_adjust_ff_dim", &C::block_auto_adjust_ff_dim,
                  "The MLP's width is two thirds of intermediate_size, times block_ffn_dim_multiplier, made a multiple "
                  "of block_multiple_of; false: it is intermediate_size."),
            field("block_ffn_dim_multiplier", &C::block_ffn_dim_multiplier,
                  "Factor of the MLP's width; null: none, and no multiple is made.",
                  {.low = 1e-6, .high = 1e6}),
            field("block_multiple_of", &C::block_multiple_of, "The MLP's width is made a multiple of it.", size),
            field("full_attn_idxs", &C::full_attn_idxs,
                  "Without layer_types, the layers with attention, the others have convolutions; absent: all.",
                  {.low = 0, .high = 10000}),
            field("block_ff_dim", &C::block_ff_dim, "intermediate_size by another name; wins over it.", size),
            field("block_use_swiglu", &C::block_use_swiglu, "Must be true: the MLP has a gate."),
            field("block_dim", &C::block_dim, "Has no effect: hidden_size has.", size),
            field("conv_dim", &C::conv_dim, "Has no effect, likewise.", size),
            field("conv_dim_out", &C::conv_dim_out, "Has no effect, likewise.", size),
            field("block_norm_eps", &C::block_norm_eps, "Has no effect: norm_eps has."),
            field("block_mlp_init_scale", &C::block_mlp_init_scale, "Has no effect: initializer_range has."),
            field("block_out_init_scale", &C::block_out_init_scale, "Has no effect, likewise."),
            field("block_use_xavier_init", &C::block_use_xavier_init, "Has no effect, likewise."),
            field("conv_use_xavier_init", &C::conv_use_xavier_init, "Has no effect, likewise.")});
  }
  void validate(Problems& problems) const;
};

struct Lfm2MoeConfig : Lfm2Keys {
  using Base = Lfm2Keys;
  std::int64_t num_dense_layers = 2, num_experts = 32, num_experts_per_tok = 4, moe_intermediate_size = 1792;
  bool use_expert_bias = true, norm_topk_prob = true, output_router_logits = false;
  double routed_scaling_factor = 1, router_bias_update_rate = 0;

  static constexpr auto fields() {
    using C = Lfm2MoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    return std::tuple_cat(
        Lfm2Keys::fields(),
        std::tuple{
            field("num_dense_layers", &C::num_dense_layers, "Layers that have an MLP, from the first one on.",
                  {.low = 0, .high = 10000}),
            field("num_experts", &C::num_experts, "Experts of each other layer.", count),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", count),
            field("moe_intermediate_size", &C::moe_intermediate_size, "Width inside an expert.",
                  {.low = 1, .high = 2147483647}),
            field("use_expert_bias", &C::use_expert_bias,
                  "Whether experts are chosen by their scores and a correction, which their weights do not have."),
            field("norm_topk_prob", &C::norm_topk_prob, "Make the weights of a token's experts sum to 1."),
            field("routed_scaling_factor", &C::routed_scaling_factor, "What these weights are multiplied by.",
                  {.low = 1e-9, .high = 1e9}),
            field("output_router_logits", &C::output_router_logits,
                  "No effect: there is no balancing loss, in transformers as here."),
            field(
                "router_bias_update_rate", &C::router_bias_update_rate,
                "hone's own: after each update the expert_bias of an expert rises by this if it had fewer tokens than "
                "the mean, and falls if it had more (arXiv:2412.19437). 0: it stays.",
                {.low = 0, .high = 1})});
  }
  void validate(Problems& problems) const;
};

struct Lfm2Shape : LlamaShape {
  std::vector<bool> convolves;  // per layer: has a convolution, not attention
  std::int64_t taps = 0, mlp_inner = 0;
  bool conv_bias = false;
  std::vector<bool> sparse;  // per layer: has experts, not an MLP
  nn::RoutedMlp::Options experts;

  bool any_convolves() const;
  bool any_sparse() const;
};
Lfm2Shape resolve(const Lfm2Config& config, Problems& problems);
Lfm2Shape resolve(const Lfm2MoeConfig& config, Problems& problems);

config::Node to_hf_config(const Lfm2Config& config, const Lfm2Shape& shape, const std::string& dtype);
config::Node to_hf_config(const Lfm2MoeConfig& config, const Lfm2Shape& shape, const std::string& dtype);

}  // namespace hone::models
