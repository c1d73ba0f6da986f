// Falcon-H1 (TII, 2025, arXiv:2507.22448): every layer has a state space (Mamba-2) and attention side by side, whose
// results are added; numbers of its own multiply what goes into its parts and what comes out of them.
//
// Letters in tensor names: N tokens, D hidden, I inner.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/hf_values.h"
#include "models/hybrid_model.h"
#include "models/mamba_keys.h"
#include "ops/gated.h"

namespace hone::models {
namespace {

using Multipliers = std::optional<std::vector<double>>;

struct FalconH1Config : MambaKeys<LlamaConfig> {
  using Base = MambaKeys<LlamaConfig>;
  config::Open mamba_d_ssm{config::Node::scalar("1024")};
  bool mamba_norm_before_gate = true, mamba_rms_norm = false, projectors_bias = false;
  double lm_head_multiplier = 1, embedding_multiplier = 1, key_multiplier = 1, attention_out_multiplier = 1,
         attention_in_multiplier = 1, ssm_in_multiplier = 1, ssm_out_multiplier = 1;
  Multipliers mlp_multipliers, ssm_multipliers;
  std::optional<std::int64_t> num_logits_to_keep = 1;
  // Of published files; nothing of the model depends on them.
  std::optional<bool> mamba_use_mlp, rope_traditional;
  std::optional<std::int64_t> mlp_expansion_factor;
  std::optional<std::vector<std::int64_t>> attn_layer_indices;

  static constexpr auto fields() {
    using C = FalconH1Config;
    constexpr config::Range any{.low = 1e-9, .high = 1e9};
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("mamba_d_ssm", &C::mamba_d_ssm,
                  "Width of all heads of a state space together; null: mamba_expand * hidden_size."),
            field("mamba_norm_before_gate", &C::mamba_norm_before_gate,
                  "Norm what is read of the state, then gate it; false: the other way round."),
            field("mamba_rms_norm", &C::mamba_rms_norm, "Whether what is read of the state is normed."),
            field("projectors_bias", &C::projectors_bias, "Bias of the product behind the state."),
            field("lm_head_multiplier", &C::lm_head_multiplier, "What logits are multiplied with.", any),
            field("embedding_multiplier", &C::embedding_multiplier, "What embeddings are multiplied with.", any),
            field("key_multiplier", &C::key_multiplier, "What keys are multiplied with.", any),
            field("attention_in_multiplier", &C::attention_in_multiplier, "What attention reads is multiplied with.",
                  any),
            field("attention_out_multiplier", &C::attention_out_multiplier, "What it gives is.", any),
            field("ssm_in_multiplier", &C::ssm_in_multiplier, "What the state space reads is multiplied with.", any),
            field("ssm_out_multiplier", &C::ssm_out_multiplier, "What it gives is.", any),
            field("mlp_multipliers", &C::mlp_multipliers, "What the MLP's gate is multiplied with, and its result.",
                  any),
            field("ssm_multipliers", &C::ssm_multipliers,
                  "What the gate, x, B, C and the step of a state space are multiplied with.", any),
            field("num_logits_to_keep", &C::num_logits_to_keep, "Has no effect; kept for others."),
            field("attn_layer_indices", &C::attn_layer_indices, "Must be null: all layers have attention."),
            field("mamba_use_mlp", &C::mamba_use_mlp, "Must be true: there is an MLP."),
            field("rope_traditional", &C::rope_traditional, "Must be false."),
            field("mlp_expansion_factor", &C::mlp_expansion_factor, "Has no effect: intermediate_size has.")});
  }
  void validate(Problems& problems) const;
};

struct FalconH1Shape : LlamaShape, MambaShape {
  double attention_in = 1, attention_out = 1, state_in = 1, state_out = 1, mlp_gate = 1, mlp_out = 1;
};

std::vector<double> read_multipliers_of(const Multipliers& given, std::size_t count, const char* key,
                                        Problems& problems) {
  const std::vector<double> all = given.value_or(std::vector<double>(count, 1));
  problems.require(all.size() == count, key, fmt::format("got {} numbers, expected {}", all.size(), count));
  return all.size() == count ? all : std::vector<double>(count, 1);
}

std::int64_t width_of_heads(const FalconH1Config& c, std::int64_t hidden, Problems& problems) {
  std::int64_t width = c.mamba_expand * hidden;
  if (!c.mamba_d_ssm.node.is_null())
    config::Values<std::int64_t>::read(c.mamba_d_ssm.node, width,
                                       {problems, "mamba_d_ssm", {.low = 1, .high = 2147483647}});
  return width;
}

FalconH1Shape resolve(const FalconH1Config& c, Problems& problems) {
  using Norm = nn::StateSpace::Norm;
  FalconH1Shape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(!c.attn_layer_indices, "attn_layer_indices", "got a list, expected null: all layers have attention");
  problems.require(c.mamba_use_mlp.value_or(true), "mamba_use_mlp", "got false, expected true");
  problems.require(!c.rope_traditional.value_or(false), "rope_traditional", "got true, expected false");
  s.last_norm = "final_layernorm";
  s.remembers.assign(s.windows.size(), true);
  read_mamba(c, width_of_heads(c, s.hidden, problems), s, s, problems);
  s.mamba.out_bias = c.projectors_bias;
  s.mamba.norm = !c.mamba_rms_norm ? Norm::none : c.mamba_norm_before_gate ? Norm::then_gated : Norm::of_gated;
  const auto state = read_multipliers_of(c.ssm_multipliers, 5, "ssm_multipliers", problems);
  s.mamba.scales = {.gate = state[0], .x = state[1], .b = state[2], .c = state[3], .step = state[4]};
  const auto mlp = read_multipliers_of(c.mlp_multipliers, 2, "mlp_multipliers", problems);
  s.mlp_gate = mlp[0], s.mlp_out = mlp[1];
  s.attention_in = c.attention_in_multiplier, s.attention_out = c.attention_out_multiplier;
  s.state_in = c.ssm_in_multiplier, s.state_out = c.ssm_out_multiplier;
  s.attention_scale *= c.key_multiplier;
  s.embedding_scale = c.embedding_multiplier, s.hidden_scale = c.lm_head_multiplier;
  return s;
}

void FalconH1Config::validate(Problems& problems) const { resolve(*this, problems); }

class FalconH1Mlp final : public Module {
 public:
  explicit FalconH1Mlp(const FalconH1Shape& shape) : s(shape) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&gate_proj, &up_proj}, pass);
    return scaled(down_proj(ops::gated(scaled(made[0], s.mlp_gate), made[1], s.activation), pass), s.mlp_out);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.mlp = {gate_proj.with_adapter(pass), up_proj.with_adapter(pass), down_proj.with_adapter(pass)};
    layer.scales.gate = s.mlp_gate, layer.scales.mlp_out = s.mlp_out;
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = s.mlp_bias, .std = s.std});
  }
  const FalconH1Shape& s;
  nn::Linear& gate_proj = projection("gate_proj", s.hidden, s.inner);
  nn::Linear& up_proj = projection("up_proj", s.hidden, s.inner);
  nn::Linear& down_proj = projection("down_proj", s.inner, s.hidden);
};

class FalconH1Block final : public nn::ResidualBlock {
 public:
  FalconH1Block(const FalconH1Shape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor normed_1ND = input_layernorm(x);
    x += scaled(mamba(scaled(normed_1ND, s.state_in), pass), s.state_out) +
         scaled(self_attn(scaled(normed_1ND, s.attention_in), pass), s.attention_out);
    x += feed_forward(pre_ff_layernorm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    mamba.describe(layer, pass), self_attn.describe(layer, pass), feed_forward.describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = pre_ff_layernorm.weight.use();
    layer.is_beside = true;
    layer.scales.attention_in = s.attention_in, layer.scales.attention_out = s.attention_out;
    layer.scales.memory_in = s.state_in, layer.scales.memory_out = s.state_out;
    return layer;
  }

 private:
  const FalconH1Shape& s;
  nn::StateSpace& mamba = child<nn::StateSpace>("mamba", s.mamba);
  LlamaAttention& self_attn;
  FalconH1Mlp& feed_forward = child<FalconH1Mlp>("feed_forward", s);
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& pre_ff_layernorm = child<nn::RmsNorm>("pre_ff_layernorm", s.hidden, s.norm());
};

class FalconH1 final : public HybridModel<FalconH1Block, FalconH1Shape> {
 public:
  FalconH1(const FalconH1Config& config, const HeadRequest& head)
      : HybridModel(shape_of(config, head)), config_(config) {}

  std::vector<AttentionLayer> attention() const override { return LlamaModel::attention(); }
  CacheSpec cache_spec() const override {
    CacheSpec spec = LlamaModel::cache_spec();
    for (CacheSpec::Layer& layer : spec.layers) layer.memory = s.mamba.memory();
    return spec;
  }

  config::Node hf_config() const override {
    const FalconH1Config& c = config_;
    config::Node node = to_hf_config(c, s, dtype());
    write_mamba(c, s, node);
    const auto put = [&](const char* key, config::Node value) { node.at_or_add(key) = std::move(value); };
    const auto numbers = [](std::vector<double> values) {
      std::vector<config::Node> items;
      for (const double value : values) items.push_back(nn::hf_float(value));
      return config::Node::list(std::move(items));
    };
    put("mamba_d_ssm", c.mamba_d_ssm.node);
    put("mamba_norm_before_gate", hf_flag(c.mamba_norm_before_gate)), put("mamba_rms_norm", hf_flag(c.mamba_rms_norm));
    put("projectors_bias", hf_flag(c.projectors_bias));
    put("num_logits_to_keep", config::Values<std::optional<std::int64_t>>::write(c.num_logits_to_keep));
    put("lm_head_multiplier", nn::hf_float(c.lm_head_multiplier));
    put("embedding_multiplier", nn::hf_float(c.embedding_multiplier));
    put("key_multiplier", nn::hf_float(c.key_multiplier));
    put("attention_in_multiplier", nn::hf_float(s.attention_in));
    put("attention_out_multiplier", nn::hf_float(s.attention_out));
    put("ssm_in_multiplier", nn::hf_float(s.state_in)), put("ssm_out_multiplier", nn::hf_float(s.state_out));
    const auto& [gate, x, b, c_, step] = s.mamba.scales;
    put("ssm_multipliers", numbers({gate, x, b, c_, step}));
    put("mlp_multipliers", numbers({s.mlp_gate, s.mlp_out}));
    sort_keys(node);
    return node;
  }

 private:
  FalconH1Config config_;
};

}  // namespace

void register_falcon_h1(Registries& hone) {
  hone.models.add<FalconH1, FalconH1Config>("falcon_h1",
                                            "Falcon-H1: a state space (Mamba-2) and attention side by side.");
}

}  // namespace hone::models
