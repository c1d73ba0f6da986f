// What config.json of a Nemotron-H model may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/grouped_experts.h"
#include "models/mamba_keys.h"
#include "models/plain_mlp.h"

namespace hone::models {

struct NemotronHMambaKeys : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t ssm_state_size = 128, mamba_num_heads = 128, mamba_head_dim = 64, n_groups = 8, conv_kernel = 4,
               expand = 2, chunk_size = 128;
  config::Open time_step_limit;
  double time_step_min = 0.001, time_step_max = 0.1, time_step_floor = 1e-4;
  bool use_conv_bias = true, use_bias = false, mamba_proj_bias = false, rescale_prenorm_residual = true,
       residual_in_fp32 = false, use_mamba_kernels = true;
  std::string mamba_hidden_act = "silu", mamba_ssm_cache_dtype = "float32";
  std::optional<std::int64_t> time_step_rank;

  static constexpr auto fields() {
    using C = NemotronHMambaKeys;
    constexpr config::Range size{.low = 1, .high = 65536}, step{.low = 1e-9, .high = 1e3};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("mamba_num_heads", &C::mamba_num_heads, "Heads of a state space (Mamba-2), with a state each.", size),
            field("mamba_head_dim", &C::mamba_head_dim, "Size of such a head.", size),
            field("ssm_state_size", &C::ssm_state_size, "Size of a state: what is written and read by has it.", size),
            field("n_groups", &C::n_groups, "Groups of heads that share what is written and read by.", size),
            field("conv_kernel", &C::conv_kernel, "Tokens that the convolution before a state reads.",
                  {.low = 2, .high = 64}),
            field("use_conv_bias", &C::use_conv_bias, "Bias of the convolution."),
            field("use_bias", &C::use_bias, "Biases of the products around the state."),
            field("mamba_hidden_act", &C::mamba_hidden_act, "Must be silu."),
            field("time_step_min", &C::time_step_min, "Least step by which tokens are written, and of a fresh model.",
                  step),
            field("time_step_limit", &C::time_step_limit, "Has no effect, in transformers as here: time_step_min has."),
            field("time_step_max", &C::time_step_max, "Most step of a fresh model.", step),
            field("time_step_floor", &C::time_step_floor, "What fresh steps are not below.", step),
            field("rescale_prenorm_residual", &C::rescale_prenorm_residual,
                  "Fresh weights behind states are smaller, the more layers there are."),
            field("expand", &C::expand, "Has no effect: mamba_num_heads and mamba_head_dim have.", size),
            field("chunk_size", &C::chunk_size, "No effect: how many tokens are computed at a time changes no result.",
                  size),
            field("mamba_proj_bias", &C::mamba_proj_bias, "Has no effect: use_bias has."),
            field("mamba_ssm_cache_dtype", &C::mamba_ssm_cache_dtype, "No effect: states are fp32."),
            field("residual_in_fp32", &C::residual_in_fp32, "Has no effect, in transformers as here."),
            field("use_mamba_kernels", &C::use_mamba_kernels, "Has no effect, likewise."),
            field("time_step_rank", &C::time_step_rank, "Has no effect, likewise.")});
  }
};

struct NemotronHConfig : NemotronHMambaKeys {
  using Base = NemotronHMambaKeys;
  std::optional<std::vector<std::string>> layers_block_type, mtp_layers_block_type;
  std::optional<std::string> hybrid_override_pattern, mtp_hybrid_override_pattern, mlp_hidden_act;
  std::optional<double> layer_norm_epsilon, norm_eps;
  double hidden_dropout = 0, routed_scaling_factor = 1, router_bias_update_rate = 0;
  std::int64_t n_routed_experts = 8, n_shared_experts = 1, num_experts_per_tok = 2, moe_intermediate_size = 7688,
               moe_shared_expert_intermediate_size = 7688, n_group = 1, topk_group = 1, num_nextn_predict_layers = 0,
               num_logits_to_keep = 1;
  std::optional<std::int64_t> moe_latent_size;
  bool norm_topk_prob = true, output_router_logits = false, moe_shared_expert_overlap = true;

  static constexpr auto fields() {
    using C = NemotronHConfig;
    constexpr config::Range count{.low = 1, .high = 65536}, size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("layers_block_type", &C::layers_block_type,
                  "What each layer is: linear_attention (a state space), full_attention, mlp or moe."),
            field("hybrid_override_pattern", &C::hybrid_override_pattern,
                  "The same in letters, where the list is absent: M, *, - and E."),
            field("mlp_hidden_act", &C::mlp_hidden_act, "Activation of MLPs and experts: relu2, and in MLPs others."),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the mean square in RMSNorm; default 1e-5.",
                  {.low = 0, .high = 1}),
            field("n_routed_experts", &C::n_routed_experts, "Experts of a layer of moe.", count),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", count),
            field("moe_intermediate_size", &C::moe_intermediate_size, "Width inside an expert.", size),
            field("moe_shared_expert_intermediate_size", &C::moe_shared_expert_intermediate_size,
                  "Width inside the MLP that every token goes to beside its experts.", size),
            field("moe_latent_size", &C::moe_latent_size,
                  "Width of what experts read and give, between two products; null: hidden_size, without these.", size),
            field("n_group", &C::n_group, "Groups that experts lie in.", count),
            field("topk_group", &C::topk_group, "Groups that a token's experts are chosen from.", count),
            field("norm_topk_prob", &C::norm_topk_prob, "Make the weights of a token's experts sum to 1."),
            field("routed_scaling_factor", &C::routed_scaling_factor, "What these weights are multiplied by.",
                  {.low = 1e-9, .high = 1e9}),
            field(
                "router_bias_update_rate", &C::router_bias_update_rate,
                "hone's own: after each update the e_score_correction_bias of an expert rises by this if it had fewer "
                "tokens than the mean, and falls if it had more (arXiv:2412.19437). 0: it stays.",
                {.low = 0, .high = 1}),
            field("num_nextn_predict_layers", &C::num_nextn_predict_layers,
                  "Layers that guess further tokens: they are left out, in transformers as here.", at_least(0)),
            field("mtp_layers_block_type", &C::mtp_layers_block_type, "What those are; kept for others."),
            field("mtp_hybrid_override_pattern", &C::mtp_hybrid_override_pattern, "Has no effect, likewise."),
            field("n_shared_experts", &C::n_shared_experts, "Has no effect, in transformers as here.", at_least(0)),
            field("moe_shared_expert_overlap", &C::moe_shared_expert_overlap, "Has no effect, likewise."),
            field("output_router_logits", &C::output_router_logits,
                  "No effect: there is no balancing loss, in transformers as here."),
            field("hidden_dropout", &C::hidden_dropout, "Has no effect, in transformers as here."),
            field("norm_eps", &C::norm_eps, "Has no effect: layer_norm_epsilon has."),
            field("num_logits_to_keep", &C::num_logits_to_keep, "Has no effect; kept for others.")});
  }
  void validate(Problems& problems) const;
};

enum class NemotronHLayer { state, attention, mlp, experts };

struct NemotronHShape : SquaringShape, MambaShape {
  std::vector<NemotronHLayer> kinds;  // per layer
  GroupedExperts experts;
  std::int64_t shared_inner = 0, latent = 0;  // latent 0: experts read the hidden states
  bool any_experts() const;
};
NemotronHShape resolve(const NemotronHConfig& config, Problems& problems);
config::Node to_hf_config(const NemotronHConfig& config, const NemotronHShape& shape, const std::string& dtype);

}  // namespace hone::models
