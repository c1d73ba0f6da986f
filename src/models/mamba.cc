// Mamba (Gu and Dao, 2023, arXiv:2312.00752) and Falcon Mamba (TII, 2024, arXiv:2410.05355): state spaces of channels
// alone. The latter's steps, B and C have a mean square of 1 each.
#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/mamba_keys.h"
#include "models/mamba_model.h"
#include "nn/selective_state.h"

namespace hone::models {
namespace {

struct MambaConfig {
  std::string model_type = "mamba";
  std::optional<std::vector<std::string>> architectures;
  std::int64_t vocab_size = 50280, hidden_size = 768, num_hidden_layers = 32, state_size = 16, conv_kernel = 4,
               expand = 2;
  std::optional<std::int64_t> intermediate_size;
  bool use_bias = false, use_conv_bias = true, tie_word_embeddings = true, rescale_prenorm_residual = false;
  std::string hidden_act = "silu", time_step_init_scheme = "random";
  double layer_norm_epsilon = 1e-5, initializer_range = 0.1, time_step_min = 0.001, time_step_max = 0.1,
         time_step_floor = 1e-4, time_step_scale = 1;
  config::Open time_step_rank{config::Node::scalar("auto")};
  config::Open bos_token_id{config::Node::scalar("0")}, eos_token_id{config::Node::scalar("0")},
      pad_token_id{config::Node::scalar("0")};
  // How others compute it, kept; and what old files say besides.
  bool residual_in_fp32 = true, use_mambapy = false, use_associative_scan = true;
  std::optional<std::int64_t> d_inner, d_model, n_layer, pad_vocab_size_multiple;
  std::optional<bool> fused_add_norm, rms_norm;
  config::Open ssm_cfg;

  static constexpr auto fields() {
    using C = MambaConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, few{.low = 1, .high = 65536},
        step{.low = 1e-9, .high = 1e3};
    return std::tuple{
        field("model_type", &C::model_type, "mamba or falcon_mamba."),
        field("architectures", &C::architectures, "MambaForCausalLM or FalconMambaForCausalLM; no effect."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Blocks.", {.low = 1, .high = 10000}),
        field("state_size", &C::state_size, "States of each channel.", few),
        field("conv_kernel", &C::conv_kernel, "Tokens that the convolution before a state reads.",
              {.low = 2, .high = 64}),
        field("expand", &C::expand, "Channels, in hidden_size, unless intermediate_size says how many.", few),
        field("intermediate_size", &C::intermediate_size, "Channels; absent: expand * hidden_size.", size),
        field("use_bias", &C::use_bias, "Biases of the products around the state."),
        field("use_conv_bias", &C::use_conv_bias, "Bias of the convolution."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("rescale_prenorm_residual", &C::rescale_prenorm_residual,
              "Fresh weights behind states are smaller, the more layers there are."),
        field("hidden_act", &C::hidden_act, "Must be silu."),
        field("time_step_init_scheme", &C::time_step_init_scheme,
              "random or constant; no effect: fresh weights of steps are random."),
        field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the mean square in RMSNorm.",
              {.low = 0, .high = 1}),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("time_step_min", &C::time_step_min, "Least step of a fresh model.", step),
        field("time_step_max", &C::time_step_max, "Most step of a fresh model.", step),
        field("time_step_floor", &C::time_step_floor, "What fresh steps are not below.", step),
        field("time_step_scale", &C::time_step_scale, "What fresh weights of steps are multiplied by.",
              {.low = 1e-9, .high = 1e6}),
        field("time_step_rank", &C::time_step_rank,
              "Rank of the product that makes steps; auto: hidden_size / 16, rounded up."),
        field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
        field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
        field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
        field("residual_in_fp32", &C::residual_in_fp32, "No effect: sums are of the run's type."),
        field("use_mambapy", &C::use_mambapy, "No effect: how others compute it, as the next."),
        field("use_associative_scan", &C::use_associative_scan, "No effect."),
        field("d_inner", &C::d_inner, "What old files say besides, as all that follow; no effect."),
        field("d_model", &C::d_model, "No effect."), field("n_layer", &C::n_layer, "No effect."),
        field("pad_vocab_size_multiple", &C::pad_vocab_size_multiple, "No effect."),
        field("fused_add_norm", &C::fused_add_norm, "No effect."), field("rms_norm", &C::rms_norm, "No effect."),
        field("ssm_cfg", &C::ssm_cfg, "No effect.")};
  }
  std::vector<std::pair<const char*, double>> numbers() const {
    return {{"initializer_range", initializer_range}, {"layer_norm_epsilon", layer_norm_epsilon},
            {"time_step_min", time_step_min},         {"time_step_max", time_step_max},
            {"time_step_floor", time_step_floor},     {"time_step_scale", time_step_scale}};
  }
  void validate(Problems& problems) const;
};

struct FalconMambaConfig : MambaConfig {
  using Base = MambaConfig;
  double mixer_rms_eps = 1e-6;
  std::optional<bool> use_falcon_mambapy;
  static constexpr auto fields() {
    using C = FalconMambaConfig;
    return std::tuple_cat(MambaConfig::fields(),
                          std::tuple{field("mixer_rms_eps", &C::mixer_rms_eps,
                                           "Added to the mean square of steps, B and C.", {.low = 0, .high = 1}),
                                     field("use_falcon_mambapy", &C::use_falcon_mambapy, "No effect.")});
  }
  std::vector<std::pair<const char*, double>> numbers() const {
    auto all = MambaConfig::numbers();
    all.emplace_back("mixer_rms_eps", mixer_rms_eps);
    return all;
  }
  void validate(Problems& problems) const;
};

// As wide as numbers that lie evenly up to `most`.
double deviation_of(double most) { return most / std::sqrt(3.0); }
double inverse_root(std::int64_t read) { return 1 / std::sqrt(static_cast<double>(read)); }

nn::SelectiveState::Options resolve(const MambaConfig& c, Problems& problems) {
  const std::int64_t inner = c.intermediate_size.value_or(c.expand * c.hidden_size),
                     rank = read_or_auto(c.time_step_rank, (c.hidden_size + 15) / 16, "time_step_rank", problems);
  const nn::SelectiveState::Options o{
      .hidden = c.hidden_size,
      .inner = inner,
      .state_size = c.state_size,
      .rank = rank,
      .taps = c.conv_kernel,
      .conv_bias = c.use_conv_bias,
      .in_bias = c.use_bias,
      .out_bias = c.use_bias,
      .std = c.initializer_range,
      .conv_std = deviation_of(inverse_root(c.conv_kernel)),
      .out_std = deviation_of(inverse_root(c.rescale_prenorm_residual ? inner * c.num_hidden_layers : inner)),
      .step_std = deviation_of(inverse_root(rank) * c.time_step_scale),
      .least_fresh_step = std::max(c.time_step_min, c.time_step_floor),
      .most_fresh_step = std::max(c.time_step_max, c.time_step_floor)};
  problems.require(c.hidden_act == "silu" || c.hidden_act == "swish", "hidden_act",
                   fmt::format("got {}, expected silu", c.hidden_act));
  problems.require(c.time_step_init_scheme == "random" || c.time_step_init_scheme == "constant",
                   "time_step_init_scheme",
                   fmt::format("got {}, expected random or constant", c.time_step_init_scheme));
  problems.require(c.time_step_min <= c.time_step_max, "time_step_max", "expected at least time_step_min");
  const double of_channel = 3.0 * static_cast<double>(o.hidden) + 2.0 * static_cast<double>(rank) +
                            3.0 * static_cast<double>(o.state_size) + static_cast<double>(o.taps);
  check_parameters(static_cast<double>(c.num_hidden_layers) * static_cast<double>(inner) * of_channel,
                   c.intermediate_size ? "intermediate_size" : "expand", problems);
  return o;
}
nn::SelectiveState::Options resolve(const FalconMambaConfig& c, Problems& problems) {
  nn::SelectiveState::Options o = resolve(static_cast<const MambaConfig&>(c), problems);
  o.norm = nn::SelectiveState::Norm::bare, o.norm_eps = c.mixer_rms_eps;
  return o;
}

void MambaConfig::validate(Problems& problems) const { resolve(*this, problems); }
void FalconMambaConfig::validate(Problems& problems) const { resolve(*this, problems); }

template <class C>
C completed(const C& c, const nn::SelectiveState::Options& o) {
  C full = c;
  full.architectures = {std::is_same_v<C, FalconMambaConfig> ? "FalconMambaForCausalLM" : "MambaForCausalLM"};
  full.time_step_rank.node = config::Values<std::int64_t>::write(o.rank);
  full.intermediate_size = o.inner;
  return full;
}

}  // namespace

void register_mamba(Registries& hone) {
  hone.models.add<MambaModel<MambaConfig, nn::SelectiveState>>("mamba", "Mamba: state spaces of channels alone.");
  hone.models.add<MambaModel<FalconMambaConfig, nn::SelectiveState>>(
      "falcon_mamba", "Falcon Mamba: Mamba whose steps, B and C are normed.");
}

}  // namespace hone::models
