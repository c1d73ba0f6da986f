// What Gemma 4 hears with: weights alone.
#include "models/gemma4_audio.h"

#include <fmt/format.h>

#include <utility>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/gemma4_clipped.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

Node length(std::int64_t value) { return config::Values<std::int64_t>::write(value); }
Node quoted_text(const std::string& value) { return Node::scalar(value, /*quoted=*/true); }

// A part of the tower: weights by their names.
class KeptPart : public Module {
 public:
  explicit KeptPart(double std) : std_(std) {}
  void norm(const std::string& name, std::int64_t width) {
    child<KeptPart>(name, std_).parameter("weight", {width}, {.kind = Init::Kind::ones}, /*decays=*/false);
  }
  KeptPart& weight(const std::string& name, std::vector<std::int64_t> shape) {
    KeptPart& part = child<KeptPart>(name, std_);
    part.parameter("weight", std::move(shape), {.std = std_});
    return part;
  }
  void product(const std::string& name, std::int64_t in, std::int64_t out, bool clips) {
    KeptPart& part = child<KeptPart>(name, std_);
    if (clips) part.child<Gemma4Clips>("");
    part.weight("linear", {out, in});
  }
  KeptPart& part(const std::string& name) { return child<KeptPart>(name, std_); }
  void zeros(const std::string& name, std::int64_t width) {
    parameter(name, {width}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  }

 private:
  double std_;
};

class KeptBlock final : public KeptPart {
 public:
  KeptBlock(const Gemma4AudioConfig& config, std::int64_t /*layer*/) : KeptPart(config.initializer_range), c(config) {
    add_mlp("feed_forward1"), add_mlp("feed_forward2");
    add_attention();
    add_convolution();
    for (const char* name : {"norm_pre_attn", "norm_post_attn", "norm_out"}) norm(name, c.hidden_size);
  }

 private:
  void add_mlp(const char* name) {
    KeptPart& mlp = part(name);
    mlp.product("ffw_layer_1", c.hidden_size, 4 * c.hidden_size, c.use_clipped_linears);
    mlp.product("ffw_layer_2", 4 * c.hidden_size, c.hidden_size, c.use_clipped_linears);
    for (const char* norm : {"pre_layer_norm", "post_layer_norm"}) mlp.norm(norm, c.hidden_size);
  }
  void add_attention() {
    KeptPart& attention = part("self_attn");
    const std::int64_t size = c.hidden_size / c.num_attention_heads, heads = size * c.num_attention_heads;
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      attention.product(name, c.hidden_size, heads, c.use_clipped_linears);
    attention.product("post", c.hidden_size, c.hidden_size, c.use_clipped_linears);
    attention.weight("relative_k_proj", {heads, c.hidden_size});
    attention.zeros("per_dim_scale", size);
  }
  void add_convolution() {
    KeptPart& convolution = part("lconv1d");
    convolution.product("linear_start", c.hidden_size, 2 * c.hidden_size, c.use_clipped_linears);
    convolution.product("linear_end", c.hidden_size, c.hidden_size, c.use_clipped_linears);
    convolution.weight("depthwise_conv1d", {c.hidden_size, 1, c.conv_kernel_size});
    for (const char* norm : {"pre_layer_norm", "conv_norm"}) convolution.norm(norm, c.hidden_size);
  }

  const Gemma4AudioConfig& c;
};

void freeze(Module& module) {
  module.each_weight([](const std::string&, Weight& weight) {
    if (!weight.is_buffer()) weight.set_trainable(false);
  });
}

}  // namespace

void check(const Gemma4AudioConfig& c, Problems& problems) {
  problems.require(c.model_type == "gemma4_audio", "model_type",
                   fmt::format("got \"{}\", expected gemma4_audio", c.model_type));
  problems.require(c.subsampling_conv_channels.size() == 2, "subsampling_conv_channels",
                   fmt::format("got {} numbers, expected 2", c.subsampling_conv_channels.size()));
  problems.require(c.num_attention_heads <= c.hidden_size, "num_attention_heads",
                   fmt::format("got {}, expected at most hidden_size ({})", c.num_attention_heads, c.hidden_size));
  check_parameters(24.0 * static_cast<double>(c.num_hidden_layers) * static_cast<double>(c.hidden_size) *
                       static_cast<double>(c.hidden_size),
                   "hidden_size", problems);
}

Node to_hf_config(const Gemma4AudioConfig& c, const std::string& dtype) {
  Node node = Node::map();
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("attention_chunk_size", length(c.attention_chunk_size));
  put("attention_context_left", length(c.attention_context_left));
  put("attention_context_right", length(c.attention_context_right));
  put("attention_invalid_logits_value", nn::hf_float(c.attention_invalid_logits_value));
  put("attention_logit_cap", nn::hf_float(c.attention_logit_cap));
  put("conv_kernel_size", length(c.conv_kernel_size));
  if (!dtype.empty()) put("dtype", quoted_text(dtype));
  put("gradient_clipping", nn::hf_float(c.gradient_clipping));
  put("hidden_act", quoted_text(c.hidden_act));
  put("hidden_size", length(c.hidden_size));
  put("initializer_range", nn::hf_float(c.initializer_range));
  put("model_type", quoted_text("gemma4_audio"));
  put("num_attention_heads", length(c.num_attention_heads));
  put("num_hidden_layers", length(c.num_hidden_layers));
  put("output_proj_dims", length(c.output_proj_dims));
  put("residual_weight", nn::hf_float(c.residual_weight));
  put("rms_norm_eps", nn::hf_float(c.rms_norm_eps));
  put("subsampling_conv_channels", config::Values<std::vector<std::int64_t>>::write(c.subsampling_conv_channels));
  put("use_clipped_linears", config::Values<bool>::write(c.use_clipped_linears));
  return node;
}

std::int64_t Gemma4SoundConfig::width() const {
  constexpr std::int64_t usual = 640;
  for (const auto& named : {audio_embed_dim, audio_samples_per_token, hidden_size, output_proj_dims})
    if (named) return *named;
  return usual;
}

void check(const Gemma4SoundConfig& c, Problems& problems) {
  problems.require(c.model_type == "gemma4_unified_audio", "model_type",
                   fmt::format("got \"{}\", expected gemma4_unified_audio", c.model_type));
  for (const auto& [key, value] : {std::pair{"audio_samples_per_token", c.audio_samples_per_token},
                                   {"hidden_size", c.hidden_size},
                                   {"output_proj_dims", c.output_proj_dims}})
    problems.require(value.value_or(c.width()) == c.width(), key,
                     fmt::format("got {}, expected audio_embed_dim ({})", value.value_or(0), c.width()));
}

Node to_hf_config(const Gemma4SoundConfig& c, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("audio_embed_dim") = length(c.width());
  if (!dtype.empty()) node.at_or_add("dtype") = quoted_text(dtype);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("model_type") = quoted_text("gemma4_unified_audio");
  node.at_or_add("rms_norm_eps") = nn::hf_float(c.rms_norm_eps);
  return node;
}

Gemma4AudioTower::Gemma4AudioTower(const Gemma4AudioConfig& c) {
  const double std = c.initializer_range;
  const std::int64_t first = c.subsampling_conv_channels[0], second = c.subsampling_conv_channels[1];
  KeptPart& begin = child<KeptPart>("subsample_conv_projection", std);
  std::int64_t in = 1;
  for (const auto& [name, out] : {std::pair{"layer0", first}, {"layer1", second}}) {
    KeptPart& layer = begin.part(name);
    layer.weight("conv", {out, in, 3, 3});
    layer.norm("norm", out);
    in = out;
  }
  begin.weight("input_proj_linear", {c.hidden_size, first / 4 * second});
  child<nn::Stack<KeptBlock>>("layers", c.num_hidden_layers, c);
  child<KeptPart>("", std).weight("output_proj", {c.output_proj_dims, c.hidden_size}).zeros("bias", c.output_proj_dims);
  freeze(*this);
}

Gemma4SoundProduct::Gemma4SoundProduct(std::int64_t width, std::int64_t hidden, double std) {
  child<KeptPart>("", std).weight("embedding_projection", {hidden, width});
  freeze(*this);
}

}  // namespace hone::models
