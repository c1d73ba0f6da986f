// OLMo Hybrid (Allen Institute for AI, 2026): most layers have memories that are corrected (gated delta net), some
// OLMo 3's attention, rotated or not; the former norm what they read, the latter what they give.
//
// Letters in tensor names: N tokens, D hidden, C channels, H heads of values, V size of a value.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/memory_layers.h"
#include "hone/registry.h"
#include "models/delta_shape.h"
#include "models/hybrid_model.h"
#include "nn/kv_cache.h"
#include "nn/own_channels.h"
#include "nn/plan.h"
#include "ops/gated.h"
#include "ops/short_conv.h"

namespace hone::models {
namespace {

using config::Node;

struct OlmoHybridConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim;
  std::int64_t linear_conv_kernel_dim = 4;
  double linear_a_log_min = 0, linear_a_log_max = 16;
  double linear_dt_min = 0.001, linear_dt_max = 0.1, linear_dt_init_floor = 1e-4;
  bool linear_allow_neg_eigval = true;

  static constexpr auto fields() {
    using C = OlmoHybridConfig;
    constexpr config::Range size{.low = 1, .high = 65536}, number{.low = 0, .high = 1e6};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("linear_num_key_heads", &C::linear_num_key_heads,
                  "Heads of queries and keys of memories; default num_attention_heads.", size),
            field("linear_num_value_heads", &C::linear_num_value_heads,
                  "Heads of values, with a memory each; default num_attention_heads.", size),
            field("linear_key_head_dim", &C::linear_key_head_dim,
                  "Size of a memory's queries and keys; default 3/4 of hidden_size / linear_num_key_heads.", size),
            field("linear_value_head_dim", &C::linear_value_head_dim,
                  "Size of a memory's values; default twice linear_key_head_dim.", size),
            field("linear_conv_kernel_dim", &C::linear_conv_kernel_dim,
                  "Tokens that the convolutions before a memory read.", {.low = 2, .high = 64}),
            field("linear_a_log_min", &C::linear_a_log_min, "Least rate at which a fresh memory forgets.", number),
            field("linear_a_log_max", &C::linear_a_log_max, "Most of it.", number),
            field("linear_dt_min", &C::linear_dt_min, "Least step of a fresh memory.", number),
            field("linear_dt_max", &C::linear_dt_max, "Most of it.", number),
            field("linear_dt_init_floor", &C::linear_dt_init_floor, "No step is less.", number),
            field("linear_allow_neg_eigval", &C::linear_allow_neg_eigval,
                  "Whether a token's value may replace what the memory has for its key twice over.")});
  }
  void validate(Problems& problems) const;
};

struct OlmoHybridShape : LlamaShape, DeltaShape {
  double step_scale = 1;
  Init fresh_rates, fresh_steps;
};

constexpr const char *kOfAttention = "full_attention", *kOfMemory = "linear_attention";

// Published files say of the rotation that there is none: its base is null.
bool is_rotated(const LlamaConfig& c) {
  const Node& rope = c.rope_parameters.node;
  const Node* theta = rope.is_map() ? rope.find("rope_theta") : nullptr;
  return c.rope_theta || has_rope_scaling(c) || !theta || !theta->is_null();
}

std::vector<std::string> types_of(const OlmoHybridConfig& c) {
  if (c.layer_types) return *c.layer_types;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(32), 10000);
  std::vector<std::string> types;
  for (std::int64_t i = 0; i < layers; ++i) types.emplace_back(i % 4 == 3 ? kOfAttention : kOfMemory);
  if (layers > 0 && layers < 4) types.back() = kOfAttention;
  return types;
}

void read_layers(const OlmoHybridConfig& c, OlmoHybridShape& s, Problems& problems) {
  const std::vector<std::string> types = types_of(c);
  const std::size_t before = problems.size();
  problems.require(std::ssize(types) == s.layers, "layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", types.size(), s.layers));
  for (std::size_t i = 0; i < types.size(); ++i) {
    problems.require(types[i] == kOfAttention || types[i] == kOfMemory, fmt::format("layer_types.{}", i),
                     fmt::format("got \"{}\", expected {} or {}", types[i], kOfAttention, kOfMemory));
    s.remembers.push_back(types[i] == kOfMemory);
  }
  if (problems.size() > before) return;
  const auto memories = std::count(s.remembers.begin(), s.remembers.end(), true);
  problems.require(memories > 0 && memories < std::ssize(s.remembers), "layer_types",
                   fmt::format("expected both {} and {}, as transformers has it", kOfAttention, kOfMemory));
}

void read_memories(const OlmoHybridConfig& c, OlmoHybridShape& s, Problems& problems) {
  s.key_heads = c.linear_num_key_heads.value_or(s.heads), s.value_heads = c.linear_num_value_heads.value_or(s.heads);
  s.key_size = c.linear_key_head_dim.value_or(std::max<std::int64_t>(1, 3 * s.hidden / (4 * s.key_heads)));
  s.value_size = c.linear_value_head_dim.value_or(2 * s.key_size);
  s.taps = c.linear_conv_kernel_dim;
  s.step_scale = c.linear_allow_neg_eigval ? 2 : 1;
  problems.require(s.value_heads % s.key_heads == 0, "linear_num_value_heads",
                   fmt::format("got {}, expected a multiple of linear_num_key_heads ({})", s.value_heads, s.key_heads));
  const double least = std::max(c.linear_dt_min, c.linear_dt_init_floor);
  problems.require(least > 0 && least <= c.linear_dt_max, "linear_dt_max",
                   fmt::format("got {}, expected at least {}, the least step", c.linear_dt_max, least));
  problems.require(
      c.linear_a_log_min < c.linear_a_log_max, "linear_a_log_max",
      fmt::format("got {}, expected more than linear_a_log_min ({})", c.linear_a_log_max, c.linear_a_log_min));
  s.fresh_steps = {.kind = Init::Kind::softplus_steps, .first = least, .last = c.linear_dt_max};
  s.fresh_rates = {.kind = Init::Kind::log_uniform,
                   .first = std::max(c.linear_a_log_min, 1e-2 * c.linear_a_log_max),
                   .last = c.linear_a_log_max};
}

OlmoHybridShape resolve(const OlmoHybridConfig& c, Problems& problems) {
  OlmoHybridShape s;
  LlamaConfig llama = c;
  llama.layer_types.reset();
  if (!is_rotated(c)) llama.rope_parameters.node = Node();
  if (!resolve_base(llama, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  problems.require(s.activation_name == "silu" || s.activation_name == "swish", "hidden_act",
                   fmt::format("got {}, expected silu, which these models have", s.activation_name));
  read_layers(c, s, problems);
  read_memories(c, s, problems);
  if (!is_rotated(c)) s.unrotated.assign(s.remembers.size(), true);
  return s;
}

void OlmoHybridConfig::validate(Problems& problems) const { resolve(*this, problems); }

// Of queries, keys and values one convolution each, which the cache has as one.
class JoinedConvolution final : public Module {
 public:
  explicit JoinedConvolution(const OlmoHybridShape& shape) : s(shape) {}

  Tensor operator()(const Tensor& x_NC, Pass& pass) const {
    const nn::Plan& plan = pass.plan();
    const ops::ShortConvWeights weights = this->weights();
    if (pass.cache) return pass.cache->short_conv(pass.layer, x_NC, weights, plan);
    if (plan.context()) return nn::short_conv_of_own_channels(x_NC, weights, *plan.context(), plan);
    return plan.from_documents(ops::short_conv(plan.to_documents(x_NC), weights, plan.documents(), {}));
  }
  ops::ShortConvWeights weights() const {
    return {at::cat({q_conv1d.use(), k_conv1d.use(), v_conv1d.use()}).squeeze(1), Tensor(), /*silu=*/true};
  }

 private:
  Weight& weight(const char* name, std::int64_t channels) {
    return parameter(name, {channels, 1, s.taps}, {.std = s.std});
  }
  const OlmoHybridShape& s;
  Weight& q_conv1d = weight("q_conv1d.weight", s.keys());
  Weight& k_conv1d = weight("k_conv1d.weight", s.keys());
  Weight& v_conv1d = weight("v_conv1d.weight", s.values());
};

constexpr double kOutputEps = 1e-5;  // of what memories give, whatever rms_norm_eps is

class OlmoDeltaNet final : public Module {
 public:
  explicit OlmoDeltaNet(const OlmoHybridShape& shape) : s(shape) {
    for (nn::Linear* gate : {&a_proj, &b_proj}) gate->weight.set_takes_float8(false);
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj, &g_proj, &a_proj, &b_proj}, pass);
    const Tensor mixed_NC = convolve(at::cat({made[0], made[1], made[2]}, -1).squeeze(0), pass);
    const auto parts = mixed_NC.split_with_sizes({s.keys(), s.keys(), s.values()}, -1);
    const Tensor decay_NH = -in_wide(A_log.use()).exp() * at::softplus(in_wide(made[4].squeeze(0)) + dt_bias.use());
    const Tensor step_NH = in_wide(made[5].squeeze(0)).sigmoid() * s.step_scale;
    const Tensor y_NHV = nn::gated_delta(heads(parts[0], s.key_heads), heads(parts[1], s.key_heads),
                                         heads(parts[2], s.value_heads), decay_NH, step_NH, pass);
    const Tensor gate_NHV = heads(made[3], s.value_heads);
    return o_proj(ops::gated(gate_NHV, o_norm(y_NHV), ops::Activation::silu).flatten(1).unsqueeze(0), pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    const std::int64_t group = s.value_heads / s.key_heads, mixed = 2 * s.keys() + s.values(),
                       gates = mixed + s.values();
    nn::MemoryForm form{.kind = nn::MemoryForm::Kind::delta, .out = o_proj.with_adapter(pass)};
    for (const nn::Linear* product : {&q_proj, &k_proj, &v_proj, &g_proj, &a_proj, &b_proj})
      form.in.push_back(product->with_adapter(pass));
    form.convolution = convolve.weights(), form.convolved = {{.column = 0, .channel = 0, .count = mixed}};
    form.groups = s.key_heads, form.heads = s.value_heads, form.key_size = s.key_size, form.value_size = s.value_size;
    form.gate = {mixed, group * s.value_size}, form.decay = {gates, group}, form.step = {gates + s.value_heads, group};
    form.rate_H = in_wide(A_log.use()).exp(), form.bias_H = in_wide(dt_bias.use()).contiguous();
    form.step_scale = s.step_scale, form.norm = o_norm.weight.use(), form.eps = kOutputEps;
    layer.memory = std::make_shared<const nn::MemoryForm>(std::move(form));
  }

 private:
  static Tensor heads(const Tensor& x, std::int64_t count) { return x.view({-1, count, x.size(-1) / count}); }
  // In fp32 at least: what goes into an exponential, or a product over the whole text.
  static Tensor in_wide(const Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.std = s.std});
  }

  const OlmoHybridShape& s;
  nn::Linear& q_proj = projection("q_proj", s.hidden, s.keys());
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.keys());
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.values());
  nn::Linear& a_proj = projection("a_proj", s.hidden, s.value_heads);
  nn::Linear& b_proj = projection("b_proj", s.hidden, s.value_heads);
  nn::Linear& g_proj = projection("g_proj", s.hidden, s.values());
  nn::Linear& o_proj = projection("o_proj", s.values(), s.hidden);
  JoinedConvolution& convolve = child<JoinedConvolution>("", s);
  Weight& A_log = parameter("A_log", {s.value_heads}, s.fresh_rates);
  Weight& dt_bias = parameter("dt_bias", {s.value_heads}, s.fresh_steps, /*decays=*/false);
  nn::RmsNorm& o_norm = child<nn::RmsNorm>("o_norm", s.value_size, ops::RmsNormForm(kOutputEps));
};

class OlmoHybridBlock final : public nn::ResidualBlock {
 public:
  OlmoHybridBlock(const OlmoHybridShape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.remembers[static_cast<std::size_t>(layer)]) {
      linear_attn = &child<OlmoDeltaNet>("linear_attn", s);
      of_mixer = &norm("attention_layer_norm"), of_mlp = &norm("feedforward_layer_norm");
    } else {
      self_attn = &child<LlamaAttention>("self_attn", s, ropes, layer);
      of_mixer = &norm("post_attention_layernorm"), of_mlp = &norm("post_feedforward_layernorm");
    }
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    if (linear_attn) {
      x += (*linear_attn)((*of_mixer)(x), pass);
      x += mlp((*of_mlp)(x), pass);
    } else {
      x += (*of_mixer)((*self_attn)(x.sum(), pass));
      x += (*of_mlp)(mlp(x.sum(), pass));
    }
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    linear_attn ? linear_attn->describe(layer, pass) : self_attn->describe(layer, pass);
    layer.mlp = mlp.with_adapters(pass);
    (linear_attn ? layer.attention_norm_D : layer.attention_out_norm_D) = of_mixer->weight.use();
    (linear_attn ? layer.mlp_norm_D : layer.mlp_out_norm_D) = of_mlp->weight.use();
    return layer;
  }

 private:
  nn::RmsNorm& norm(const char* name) { return child<nn::RmsNorm>(name, s.hidden, s.norm()); }
  const OlmoHybridShape& s;
  const OlmoDeltaNet* linear_attn = nullptr;  // one of the two
  const LlamaAttention* self_attn = nullptr;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  const nn::RmsNorm *of_mixer = nullptr, *of_mlp = nullptr;
};

class OlmoHybrid final : public HybridModel<OlmoHybridBlock, OlmoHybridShape> {
 public:
  OlmoHybrid(const OlmoHybridConfig& config, const HeadRequest& head)
      : HybridModel(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    const OlmoHybridConfig& c = config_;
    Node node = to_hf_config(c, s, dtype());
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    put("layer_types", types_of(c)), put("linear_allow_neg_eigval", c.linear_allow_neg_eigval);
    put("linear_conv_kernel_dim", s.taps), put("linear_key_head_dim", s.key_size);
    put("linear_value_head_dim", s.value_size), put("linear_num_key_heads", s.key_heads);
    put("linear_num_value_heads", s.value_heads);
    for (const auto& [key, value] : {std::pair{"linear_a_log_min", c.linear_a_log_min},
                                     {"linear_a_log_max", c.linear_a_log_max},
                                     {"linear_dt_min", c.linear_dt_min},
                                     {"linear_dt_max", c.linear_dt_max},
                                     {"linear_dt_init_floor", c.linear_dt_init_floor}})
      node.at_or_add(key) = nn::hf_float(value);
    if (!is_rotated(c)) node.at_or_add("rope_parameters").at_or_add("rope_theta") = Node();
    sort_keys(node);
    return node;
  }

 private:
  OlmoHybridConfig config_;
};

}  // namespace

void register_olmo_hybrid(Registries& hone) {
  hone.models.add<OlmoHybrid, OlmoHybridConfig>("olmo_hybrid", "OLMo Hybrid: memories in most layers.");
}

}  // namespace hone::models
