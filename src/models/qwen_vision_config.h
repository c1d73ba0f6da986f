// What config.json says of the vision towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::models {

struct QwenVisionConfig {
  std::string model_type = "qwen2_5_vl_vision";
  std::int64_t num_heads = 16, spatial_merge_size = 2, temporal_patch_size = 2;
  std::optional<std::int64_t> depth, patch_size;
  std::optional<std::int64_t> hidden_size, intermediate_size, out_hidden_size, embed_dim, in_channels, in_chans;
  std::optional<std::string> hidden_act;
  double initializer_range = 0.02;
  std::optional<std::int64_t> window_size, tokens_per_second, mlp_ratio, num_position_embeddings;
  std::optional<std::vector<std::int64_t>> fullatt_block_indexes, deepstack_visual_indexes;
  config::Open rope_parameters;
  std::optional<std::int64_t> spatial_patch_size;

  static constexpr auto fields() {
    using C = QwenVisionConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type,
              "qwen2_vl_vision, qwen2_5_vl_vision, qwen3_vl_vision, qwen3_5_vision, or one of the latter two with _moe "
              "before its end."),
        field("depth", &C::depth, "Transformer blocks; default 32, in qwen3_vl and qwen3_5 27.",
              {.low = 1, .high = 10000}),
        field("num_heads", &C::num_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("patch_size", &C::patch_size, "Pixels of a patch's side; default 14, in qwen3_vl and qwen3_5 16.",
              {.low = 1, .high = 65536}),
        field("spatial_merge_size", &C::spatial_merge_size, "Rows, and columns, of patches that become one token.",
              {.low = 1, .high = 64}),
        field("temporal_patch_size", &C::temporal_patch_size, "Frames of a patch: a picture is repeated so often.",
              {.low = 1, .high = 64}),
        field("hidden_size", &C::hidden_size,
              "Width of the residual stream, in qwen2_vl of what the text model reads; default 3584, in qwen3_vl "
              "and qwen3_5 1152.",
              size),
        field("embed_dim", &C::embed_dim, "qwen2_vl: width of the residual stream; default 1280.", size),
        field("intermediate_size", &C::intermediate_size,
              "Width inside the MLP; default 3420, in qwen3_vl and qwen3_5 4304; not of qwen2_vl.", size),
        field("mlp_ratio", &C::mlp_ratio, "qwen2_vl: width inside the MLP, in embed_dim; default 4.",
              {.low = 1, .high = 1024}),
        field("out_hidden_size", &C::out_hidden_size,
              "Width of what the text model reads; default 3584; not of qwen2_vl.", size),
        field("in_channels", &C::in_channels, "Must be 3."),
        field("in_chans", &C::in_chans, "As published files call in_channels."),
        field("hidden_act", &C::hidden_act,
              "Activation of the MLP; default silu, in qwen2_vl quick_gelu, in qwen3_vl and qwen3_5 "
              "gelu_pytorch_tanh."),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("window_size", &C::window_size,
              "qwen2_5_vl: pixels of the side of what most blocks see at once; default 112.", size),
        field("fullatt_block_indexes", &C::fullatt_block_indexes,
              "qwen2_5_vl: blocks that see all of a picture; default 7, 15, 23, 31.", {.low = 0, .high = 10000}),
        field("num_position_embeddings", &C::num_position_embeddings,
              "qwen3_vl, qwen3_5: learned positions, a square of them; default 2304.", size),
        field("deepstack_visual_indexes", &C::deepstack_visual_indexes,
              "qwen3_vl: blocks whose output the first layers of the text model read, too; default 8, 16, 24. In "
              "qwen3_5 there are none.",
              {.low = 0, .high = 10000}),
        field("tokens_per_second", &C::tokens_per_second, "Kept for others: hone reads no videos."),
        field("rope_parameters", &C::rope_parameters, "Rotary position embedding of rows and columns."),
        field("spatial_patch_size", &C::spatial_patch_size, "No effect: patch_size says it.")};
  }
  void validate(Problems& problems) const;
};

// What it means.
struct QwenVisionShape {
  std::string type;      // as files call it
  bool windows = true;   // Qwen2.5-VL, whose norms are RMSNorms and whose MLPs are gated
  bool learned = false;  // Qwen3-VL and Qwen3.5, with learned positions
  bool deep = false;     // of these Qwen3-VL, of which texts read the output of several blocks
  std::int64_t hidden = 0, inner = 0, out = 0, heads = 0, depth = 0, patch = 0, merge = 0, frames = 0;
  std::int64_t window = 0;     // tokens in a row of a window
  std::vector<bool> sees_all;  // per block
  std::int64_t side = 0;       // of the square of learned positions
  std::vector<std::int64_t> deep_blocks;
  std::string activation;
  const char *fc1 = "fc1", *fc2 = "fc2";  // what products of the MLP are called
  double theta = 10000, std = 0.02;
  std::int64_t head_size() const { return hidden / heads; }
};
// A tower's rope_parameters: of type axial, the only one there is, and its base.
double axial_theta(const config::Open& rope, Problems& problems);
config::Node write_axial(double theta);

QwenVisionShape resolve(const QwenVisionConfig& config, Problems& problems);
std::vector<std::int64_t> full_blocks(const QwenVisionConfig& config);  // fullatt_block_indexes
config::Node to_hf_config(const QwenVisionConfig& config, const QwenVisionShape& shape, const std::string& dtype);

}  // namespace hone::models
