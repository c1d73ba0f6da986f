// What config.json says of how Gemma 4 sees pictures.
#include "models/gemma4_vision_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

Node whole_number(std::int64_t value) { return config::Values<std::int64_t>::write(value); }
Node yes_or_no(bool value) { return config::Values<bool>::write(value); }
Node text_of(const std::string& value) { return Node::scalar(value, /*quoted=*/true); }

struct AxialRope {
  std::string rope_type = "axial";
  double rope_theta = 100;

  static constexpr auto fields() {
    return std::tuple{field("rope_type", &AxialRope::rope_type, "axial; older files say default."),
                      field("rope_theta", &AxialRope::rope_theta, "Base of the frequencies.",
                            {.low = 1, .high = 1e15})};
  }
};

double read_theta(const config::Open& given, Problems& problems) {
  AxialRope rope;
  if (!given.node.is_null())
    config::Values<AxialRope>::read(given.node, rope, {problems, "rope_parameters", {}});
  problems.require(rope.rope_type == "axial" || rope.rope_type == "default", "rope_parameters.rope_type",
                   fmt::format("got \"{}\", expected axial", rope.rope_type));
  return rope.rope_theta;
}

}  // namespace

Gemma4VisionShape resolve(const Gemma4VisionConfig& c, Problems& problems) {
  Gemma4VisionShape s;
  problems.require(c.model_type == "gemma4_vision", "model_type",
                   fmt::format("got \"{}\", expected gemma4_vision", c.model_type));
  s.hidden = c.hidden_size, s.inner = c.intermediate_size, s.layers = c.num_hidden_layers;
  s.heads = c.num_attention_heads, s.kv_heads = c.num_key_value_heads, s.head_size = c.head_dim;
  s.patch = c.patch_size, s.pooled = c.pooling_kernel_size, s.positions = c.position_embedding_size;
  s.eps = c.rms_norm_eps, s.dropout = c.attention_dropout, s.std = c.initializer_range;
  s.clips = c.use_clipped_linears, s.standardises = c.standardize;
  s.theta = read_theta(c.rope_parameters, problems);
  s.activation = nn::read_activation(c.hidden_activation, "hidden_activation", problems);
  problems.require(s.head_size % 4 == 0, "head_dim", fmt::format("got {}, expected a multiple of 4", s.head_size));
  problems.require(s.heads % s.kv_heads == 0, "num_attention_heads",
                   fmt::format("got {}, expected a multiple of num_key_value_heads ({})", s.heads, s.kv_heads));
  const double wide = static_cast<double>(s.hidden);
  const double of_heads = 2.0 * static_cast<double>(s.heads + s.kv_heads) * static_cast<double>(s.head_size);
  check_parameters(static_cast<double>(s.layers) * wide * (of_heads + 3.0 * static_cast<double>(s.inner)),
                   "hidden_size", problems);
  check_parameters(2.0 * static_cast<double>(s.positions) * wide, "position_embedding_size", problems);
  return s;
}

Node to_hf_config(const Gemma4VisionConfig& c, const Gemma4VisionShape& s, const std::string& dtype) {
  Node node = Node::map(), rope = Node::map();
  rope.at_or_add("rope_theta") = nn::hf_float(s.theta), rope.at_or_add("rope_type") = text_of("axial");
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("attention_bias", yes_or_no(c.attention_bias.value_or(false)));
  put("attention_dropout", nn::hf_float(c.attention_dropout));
  if (!dtype.empty()) put("dtype", text_of(dtype));
  put("head_dim", whole_number(s.head_size));
  put("hidden_activation", text_of(c.hidden_activation));
  put("hidden_size", whole_number(s.hidden));
  put("initializer_range", nn::hf_float(s.std));
  put("intermediate_size", whole_number(s.inner));
  put("max_position_embeddings", whole_number(c.max_position_embeddings));
  put("model_type", text_of("gemma4_vision"));
  put("num_attention_heads", whole_number(s.heads));
  put("num_hidden_layers", whole_number(s.layers));
  put("num_key_value_heads", whole_number(s.kv_heads));
  put("patch_size", whole_number(s.patch));
  put("pooling_kernel_size", whole_number(s.pooled));
  put("position_embedding_size", whole_number(s.positions));
  put("rms_norm_eps", nn::hf_float(s.eps));
  put("rope_parameters", std::move(rope));
  put("standardize", yes_or_no(s.standardises));
  put("use_clipped_linears", yes_or_no(s.clips));
  return node;
}

Gemma4PatchShape resolve(const Gemma4PatchConfig& c, Problems& problems) {
  problems.require(c.model_type == "gemma4_unified_vision", "model_type",
                   fmt::format("got \"{}\", expected gemma4_unified_vision", c.model_type));
  Gemma4PatchShape s;
  s.patch = c.patch_size * c.pooling_kernel_size;
  s.width = c.mm_embed_dim, s.positions = c.mm_posemb_size, s.eps = c.rms_norm_eps, s.std = c.initializer_range;
  problems.require(c.output_proj_dims == s.width, "output_proj_dims",
                   fmt::format("got {}, expected mm_embed_dim ({})", c.output_proj_dims, s.width));
  problems.require(c.model_patch_size.value_or(s.patch) == s.patch, "model_patch_size",
                   fmt::format("got {}, expected patch_size times pooling_kernel_size ({})",
                               c.model_patch_size.value_or(0), s.patch));
  const double wide = static_cast<double>(s.width);
  check_parameters(wide * (3.0 * static_cast<double>(s.patch * s.patch) + 2.0 * static_cast<double>(s.positions)),
                   "mm_embed_dim", problems);
  return s;
}

Node to_hf_config(const Gemma4PatchConfig& c, const std::string& dtype) {
  Node node = Node::map();
  if (!dtype.empty()) node.at_or_add("dtype") = text_of(dtype);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("mm_embed_dim") = whole_number(c.mm_embed_dim);
  node.at_or_add("mm_posemb_size") = whole_number(c.mm_posemb_size);
  node.at_or_add("model_type") = text_of("gemma4_unified_vision");
  node.at_or_add("output_proj_dims") = whole_number(c.output_proj_dims);
  node.at_or_add("patch_size") = whole_number(c.patch_size);
  node.at_or_add("pooling_kernel_size") = whole_number(c.pooling_kernel_size);
  node.at_or_add("rms_norm_eps") = nn::hf_float(c.rms_norm_eps);
  return node;
}

}  // namespace hone::models
