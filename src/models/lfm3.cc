// LFM3 (Liquid AI, 2026): LFM2 with windows in some layers, a gate of each head's result, and norms behind attention,
// convolution and MLP, too.
//
// Letters in tensor names: N tokens, D hidden, H heads, K head size.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/gated_convolution.h"
#include "models/decoding_llama.h"

namespace hone::models {
namespace {

using config::Node;

struct Lfm3Config : LlamaConfig {
  using Base = LlamaConfig;
  double norm_eps = 1e-5;
  bool conv_bias = false, use_sandwich_norm = true, use_attention_gate = true;
  std::int64_t conv_L_cache = 7;

  static constexpr auto fields() {
    using C = Lfm3Config;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("norm_eps", &C::norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
                   field("conv_bias", &C::conv_bias, "Biases of convolutions and of the projections around them."),
                   field("conv_L_cache", &C::conv_L_cache, "Tokens that a convolution reads.", {.low = 2, .high = 64}),
                   field("use_sandwich_norm", &C::use_sandwich_norm,
                         "Whether what attention, convolution and MLP give is normed."),
                   field("use_attention_gate", &C::use_attention_gate,
                         "Whether each head's result is multiplied by a sigmoid of the token.")});
  }
  void validate(Problems& problems) const;
};

struct Lfm3Shape : LlamaShape {
  std::vector<bool> convolves;  // per layer: has a convolution, not attention
  std::int64_t taps = 0;
  bool conv_bias = false, norms_outputs = true, gates = true;
  bool any_convolves() const { return std::find(convolves.begin(), convolves.end(), true) != convolves.end(); }
};

constexpr const char *kLfmFull = "full_attention", *kLfmSliding = "sliding_attention", *kLfmConv = "conv";
constexpr double kFarBase = 1e6,
                 kNearBase = 10000;  // bases of the rotation, of layers that see all and of those that slide

std::vector<std::string> types_of(const Lfm3Config& c) {
  if (c.layer_types) return *c.layer_types;
  std::vector<std::string> types;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(24), 10000);
  for (std::int64_t i = 0; i < layers; ++i)
    types.push_back(i % 4 == 2 ? kLfmFull : i % 4 == 0 && i > 0 ? kLfmSliding : kLfmConv);
  return types;
}

// Half of the frequencies, and 0 for the others, as transformers has it where nothing is said.
Node default_ropes() {
  Node both = Node::map();
  Node& full = both.at_or_add(kLfmFull) = Node::map();
  full.at_or_add("rope_type") = Node::scalar("proportional"), full.at_or_add("rope_theta") = nn::hf_float(kFarBase);
  full.at_or_add("partial_rotary_factor") = Node::scalar("0.5");
  return both;
}

// Llama's keys, with what transformers takes for those that are absent, and attention where there is a convolution.
LlamaConfig as_llama(const Lfm3Config& c) {
  LlamaConfig made = c;
  made.rms_norm_eps = c.norm_eps;
  if (is_default(c.sliding_window)) made.sliding_window.node = config::Values<std::int64_t>::write(256);
  if (c.rope_parameters.node.is_null()) made.rope_parameters.node = default_ropes();
  made.layer_types = types_of(c);
  for (std::string& type : *made.layer_types)
    if (type == kLfmConv) type = kLfmFull;
  return made;
}

void refuse_others(const Lfm3Config& c, const Lfm3Shape& s, Problems& problems) {
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  refuse_keys(c.model_type,
              {{"rms_norm_eps", c.rms_norm_eps.has_value()},
               {"rope_theta", c.rope_theta.has_value()},
               {"rope_scaling", has_rope_scaling(c)}},
              problems);
  problems.require(s.activation_name == "silu" || s.activation_name == "swish", "hidden_act",
                   fmt::format("got {}, expected silu, which these models have", s.activation_name));
}

Lfm3Shape resolve(const Lfm3Config& c, Problems& problems) {
  Lfm3Shape s;
  const std::size_t before = problems.size();
  for (std::size_t i = 0; c.layer_types && i < c.layer_types->size(); ++i) {
    const std::string& type = (*c.layer_types)[i];
    problems.require(type == kLfmFull || type == kLfmSliding || type == kLfmConv, fmt::format("layer_types.{}", i),
                     fmt::format("got \"{}\", expected {}, {} or {}", type, kLfmFull, kLfmSliding, kLfmConv));
  }
  const LlamaConfig llama = as_llama(c);
  if (problems.size() > before || !resolve_base(llama, s, problems)) return s;
  refuse_others(c, s, problems);
  read_two_ropes(llama, kNearBase, kFarBase, s, problems);
  for (const std::string& type : types_of(c)) s.convolves.push_back(type == kLfmConv);
  s.last_norm = "embedding_norm", s.attention_norm = "operator_norm", s.mlp_norm = "ffn_norm";
  s.taps = c.conv_L_cache, s.conv_bias = c.conv_bias;
  s.norms_outputs = c.use_sandwich_norm, s.gates = c.use_attention_gate;
  return s;
}

void Lfm3Config::validate(Problems& problems) const { resolve(*this, problems); }

class HeadGatedAttention final : public Module {
 public:
  HeadGatedAttention(const Lfm3Shape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attend_(shape, ropes, layer) {
    if (s.gates) gate_proj = &projection("gate_proj", s.heads, /*bias=*/false);
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = gate_proj ? nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj, gate_proj}, pass)
                                : nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto heads = [&](const Tensor& x, std::int64_t count) { return x.view({-1, count, s.head_size}); };
    const Tensor y_NHK =
        attend_(q_norm(heads(made[0], s.heads)), k_norm(heads(made[1], s.kv_heads)), heads(made[2], s.kv_heads), pass);
    const Tensor gated_NHK = gate_proj ? y_NHK * made[3].sigmoid().view({-1, s.heads, 1}) : y_NHK;
    return o_proj(gated_NHK.flatten(1).unsqueeze(0), pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.q = q_proj.with_adapter(pass), layer.k = k_proj.with_adapter(pass), layer.v = v_proj.with_adapter(pass);
    layer.o = o_proj.with_adapter(pass), layer.q_norm = q_norm.weight.use(), layer.k_norm = k_norm.weight.use();
    if (gate_proj) layer.head_gate = gate_proj->with_adapter(pass);
    layer.window = attend_.window(), layer.rope = attend_.rope();
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t out, bool bias) {
    return child<nn::Linear>(name, s.hidden, out, nn::Linear::Options{.bias = bias, .std = s.std});
  }
  const Lfm3Shape& s;
  LayerAttention attend_;
  nn::Linear& q_proj = projection("q_proj", s.heads* s.head_size, s.qkv_bias);
  nn::Linear& k_proj = projection("k_proj", s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& v_proj = projection("v_proj", s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear* gate_proj = nullptr;  // null: there is none
  nn::Linear& o_proj = child<nn::Linear>("o_proj", s.heads* s.head_size, s.hidden,
                                         nn::Linear::Options{.bias = s.output_bias, .std = s.std});
  nn::RmsNorm& q_norm = child<nn::RmsNorm>("q_norm", s.head_size, s.norm());
  nn::RmsNorm& k_norm = child<nn::RmsNorm>("k_norm", s.head_size, s.norm());
};

class Lfm3Block final : public nn::ResidualBlock {
 public:
  Lfm3Block(const Lfm3Shape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.convolves[static_cast<std::size_t>(layer)])
      conv = &child<GatedConvolution>("conv", GatedConvolution::Options{s.hidden, s.taps, s.conv_bias, s.std});
    else
      self_attn = &child<HeadGatedAttention>("self_attn", s, ropes, layer);
    if (!s.norms_outputs) return;
    post_operator_norm = &norm("post_operator_norm"), post_ffn_norm = &norm("post_ffn_norm");
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor mixed_1ND = conv ? (*conv)(operator_norm(x), pass) : (*self_attn)(operator_norm(x), pass);
    x += post_operator_norm ? (*post_operator_norm)(mixed_1ND) : mixed_1ND;
    const Tensor made_1ND = mlp(ffn_norm(x), pass);
    x += post_ffn_norm ? (*post_ffn_norm)(made_1ND) : made_1ND;
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    conv ? conv->describe(layer, pass) : self_attn->describe(layer, pass);
    layer.mlp = mlp.with_adapters(pass);
    layer.attention_norm_D = operator_norm.weight.use(), layer.mlp_norm_D = ffn_norm.weight.use();
    if (post_operator_norm)
      layer.attention_out_norm_D = post_operator_norm->weight.use(), layer.mlp_out_norm_D = post_ffn_norm->weight.use();
    return layer;
  }

 private:
  nn::RmsNorm& norm(const char* name) { return child<nn::RmsNorm>(name, s.hidden, s.norm()); }
  const Lfm3Shape& s;
  const GatedConvolution* conv = nullptr;  // one of the two
  const HeadGatedAttention* self_attn = nullptr;
  nn::GatedMlp& mlp = child<nn::GatedMlp>(
      "feed_forward", nn::GatedMlp::Options{
                          .hidden = s.hidden, .inner = s.inner, .std = s.std, .gate = "w1", .up = "w3", .down = "w2"});
  nn::RmsNorm& operator_norm = norm(s.attention_norm);
  nn::RmsNorm& ffn_norm = norm(s.mlp_norm);
  const nn::RmsNorm *post_operator_norm = nullptr, *post_ffn_norm = nullptr;
};

class Lfm3 final : public DecodingLlama<Lfm3Block, Lfm3Shape> {
 public:
  Lfm3(const Lfm3Config& config, const HeadRequest& head) : DecodingLlama(shape_of(config, head)), config_(config) {}

  // A convolution sees other tokens, too, and not through nn::attend.
  bool shares_prefixes() const override { return !s.any_convolves() && LlamaModel::shares_prefixes(); }
  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> layers;
    for (std::size_t i = 0; i < s.convolves.size(); ++i)
      if (!s.convolves[i]) layers.push_back({s.heads, s.head_size, s.windows[i]});
    return layers;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (std::size_t i = 0; i < s.convolves.size(); ++i)
      spec.layers.push_back(s.convolves[i] ? CacheSpec::Layer{.memory = {.convolved = s.hidden, .taps = s.taps}}
                                           : CacheSpec::Layer{s.kv_heads, s.head_size, s.windows[i]});
    return spec;
  }
  Node hf_config() const override {
    Node node = to_hf_config(as_llama(config_), s, dtype());
    std::erase_if(node.entries(), [](const Node::Entry& entry) { return entry.first == "hidden_act"; });
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    put("conv_L_cache", s.taps), put("conv_bias", s.conv_bias), put("layer_types", types_of(config_));
    put("use_attention_gate", s.gates), put("use_sandwich_norm", s.norms_outputs);
    sort_keys(node);
    return node;
  }

 private:
  Lfm3Config config_;
};

}  // namespace

void register_lfm3(Registries& hone) {
  hone.models.add<Lfm3, Lfm3Config>("lfm3", "LFM3: gated short convolutions, and attention in windows and without.");
}

}  // namespace hone::models
