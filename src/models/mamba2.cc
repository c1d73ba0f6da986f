// Mamba-2 (Dao and Gu, 2024, arXiv:2405.21060): state spaces alone, as Codestral Mamba.
#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/mamba_keys.h"
#include "models/mamba_model.h"

namespace hone::models {
namespace {

struct Mamba2Config {
  std::string model_type = "mamba2";
  std::optional<std::vector<std::string>> architectures;
  std::int64_t vocab_size = 32768, hidden_size = 4096, num_hidden_layers = 64, num_heads = 128, head_dim = 64,
               state_size = 128, n_groups = 8, conv_kernel = 4, expand = 2;
  bool use_bias = false, use_conv_bias = true, tie_word_embeddings = false, rescale_prenorm_residual = false;
  std::string hidden_act = "silu";
  double layer_norm_epsilon = 1e-5, initializer_range = 0.1, time_step_min = 0.001, time_step_max = 0.1,
         time_step_floor = 1e-4;
  config::Open time_step_limit;
  config::Open bos_token_id{config::Node::scalar("0")}, eos_token_id{config::Node::scalar("2")},
      pad_token_id{config::Node::scalar("1")};
  // How others compute it, and what old files say besides; kept, but for the latter.
  std::int64_t chunk_size = 256;
  bool residual_in_fp32 = true;
  config::Open time_step_rank{config::Node::scalar("auto")};
  std::optional<std::int64_t> intermediate_size;
  std::optional<bool> norm_before_gate, rms_norm;
  std::optional<std::string> time_step_init_scheme;
  std::optional<double> time_step_scale;

  static constexpr auto fields() {
    using C = Mamba2Config;
    constexpr config::Range size{.low = 1, .high = 2147483647}, few{.low = 1, .high = 65536},
        step{.low = 1e-9, .high = 1e3};
    return std::tuple{
        field("model_type", &C::model_type, "mamba2."),
        field("architectures", &C::architectures, "Mamba2ForCausalLM; no effect."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Blocks.", {.low = 1, .high = 10000}),
        field("num_heads", &C::num_heads, "Heads, with a state each.", few),
        field("head_dim", &C::head_dim, "Size of a head; times num_heads it is expand * hidden_size.", few),
        field("state_size", &C::state_size, "Size of a state: what is written and read by has it.", few),
        field("n_groups", &C::n_groups, "Groups of heads that share what is written and read by.", few),
        field("conv_kernel", &C::conv_kernel, "Tokens that the convolution before a state reads.",
              {.low = 2, .high = 64}),
        field("expand", &C::expand, "Width of all heads together, in hidden_size.", few),
        field("use_bias", &C::use_bias, "Biases of the products around the state."),
        field("use_conv_bias", &C::use_conv_bias, "Bias of the convolution."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("rescale_prenorm_residual", &C::rescale_prenorm_residual,
              "Fresh weights behind states are smaller, the more layers there are."),
        field("hidden_act", &C::hidden_act, "Must be silu."),
        field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the mean square in RMSNorm.",
              {.low = 0, .high = 1}),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("time_step_min", &C::time_step_min, "Least step of a fresh model.", step),
        field("time_step_max", &C::time_step_max, "Most step of a fresh model.", step),
        field("time_step_floor", &C::time_step_floor, "What fresh steps are not below.", step),
        field("time_step_limit", &C::time_step_limit,
              "Least and most of the steps by which tokens are written; absent: 0 and infinity."),
        field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
        field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
        field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
        field("chunk_size", &C::chunk_size, "No effect: how many tokens are computed at a time changes no result.",
              size),
        field("residual_in_fp32", &C::residual_in_fp32, "No effect: sums are of the run's type."),
        field("time_step_rank", &C::time_step_rank, "No effect, in transformers as here; auto: hidden_size / 16."),
        field("intermediate_size", &C::intermediate_size, "What old files say besides, as all that follow; no effect."),
        field("norm_before_gate", &C::norm_before_gate, "No effect: transformers norms what is gated."),
        field("rms_norm", &C::rms_norm, "No effect."),
        field("time_step_init_scheme", &C::time_step_init_scheme, "No effect."),
        field("time_step_scale", &C::time_step_scale, "No effect.")};
  }
  std::vector<std::pair<const char*, double>> numbers() const {
    return {{"initializer_range", initializer_range},
            {"layer_norm_epsilon", layer_norm_epsilon},
            {"time_step_min", time_step_min},
            {"time_step_max", time_step_max},
            {"time_step_floor", time_step_floor}};
  }
  void validate(Problems& problems) const;
};

// As wide as numbers that lie evenly up to the inverse root of how many are read.
double deviation_of(std::int64_t read) { return 1 / std::sqrt(3 * static_cast<double>(read)); }

nn::StateSpace::Options resolve(const Mamba2Config& c, Problems& problems) {
  const StepLimits limits = read_step_limits(c.time_step_limit, problems);
  const std::int64_t inner = c.expand * c.hidden_size;
  MambaShape s{.mamba = {.hidden = c.hidden_size,
                         .heads = c.num_heads,
                         .head_size = c.head_dim,
                         .groups = c.n_groups,
                         .state_size = c.state_size,
                         .taps = c.conv_kernel,
                         .conv_bias = c.use_conv_bias,
                         .in_bias = c.use_bias,
                         .out_bias = c.use_bias,
                         .least_step = limits.least,
                         .most_step = limits.most,
                         .eps = c.layer_norm_epsilon,
                         .std = c.initializer_range,
                         .conv_std = deviation_of(c.conv_kernel),
                         .out_std = deviation_of(c.rescale_prenorm_residual ? inner * c.num_hidden_layers : inner),
                         .least_fresh_step = std::max(c.time_step_min, c.time_step_floor),
                         .most_fresh_step = std::max(c.time_step_max, c.time_step_floor)},
               .remembers = std::vector<bool>(static_cast<std::size_t>(c.num_hidden_layers), true)};
  check_state_spaces(s, inner, "num_heads", problems);
  problems.require(c.hidden_act == "silu" || c.hidden_act == "swish", "hidden_act",
                   fmt::format("got {}, expected silu", c.hidden_act));
  problems.require(c.time_step_min <= c.time_step_max, "time_step_max", "expected at least time_step_min");
  return s.mamba;
}

void Mamba2Config::validate(Problems& problems) const { resolve(*this, problems); }

Mamba2Config completed(const Mamba2Config& c, const nn::StateSpace::Options& o) {
  Mamba2Config full = c;
  full.architectures = {"Mamba2ForCausalLM"};
  if (full.time_step_rank.node.text() == "auto")
    full.time_step_rank.node = config::Values<std::int64_t>::write((c.hidden_size + 15) / 16);
  full.time_step_limit.node = write_step_limits({o.least_step, o.most_step});
  return full;
}

}  // namespace

void register_mamba2(Registries& hone) {
  hone.models.add<MambaModel<Mamba2Config, nn::StateSpace>>("mamba2",
                                                            "Mamba-2: state spaces alone, as Codestral Mamba.");
}

}  // namespace hone::models
