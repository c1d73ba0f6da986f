// Rotary position embedding: what a config.json says about it, and the angles that follow (transformers 5's formulas).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "ops/rope.h"

namespace hone::nn {

// proportional: a share of the frequencies of a whole head, 0 for the rest, which is not rotated.
enum class RopeType { standard, linear, dynamic, llama3, yarn, longrope, proportional };

}  // namespace hone::nn

template <>
inline constexpr auto hone::config::enum_names<hone::nn::RopeType> =
    std::to_array<std::pair<hone::nn::RopeType, std::string_view>>({{hone::nn::RopeType::standard, "default"},
                                                                    {hone::nn::RopeType::linear, "linear"},
                                                                    {hone::nn::RopeType::dynamic, "dynamic"},
                                                                    {hone::nn::RopeType::llama3, "llama3"},
                                                                    {hone::nn::RopeType::yarn, "yarn"},
                                                                    {hone::nn::RopeType::longrope, "longrope"},
                                                                    {hone::nn::RopeType::proportional,
                                                                     "proportional"}});

namespace hone::nn {

// HF's rope_parameters.
struct RopeConfig {
  RopeType rope_type = RopeType::standard;
  double rope_theta = 10000.0;
  std::optional<double> factor, attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim;
  std::optional<double> low_freq_factor, high_freq_factor;
  std::optional<std::int64_t> original_max_position_embeddings;
  std::vector<double> short_factor, long_factor;
  bool truncate = true;
  double partial_rotary_factor = 1;

  std::int64_t rotated(std::int64_t head_size) const {  // values of a head
    if (rope_type == RopeType::proportional) return head_size;
    return static_cast<std::int64_t>(static_cast<double>(head_size) * partial_rotary_factor);
  }

  static constexpr auto fields() {
    using C = RopeConfig;
    return std::tuple{
        field("rope_type", &C::rope_type, "How positions beyond the trained length are scaled."),
        field("rope_theta", &C::rope_theta, "Base of the rotation frequencies."),
        field("factor", &C::factor, "How many times longer than the original length a sequence may be."),
        field("attention_factor", &C::attention_factor, "yarn, longrope: scale of cos and sin; default: computed."),
        field("beta_fast", &C::beta_fast, "yarn: rotations above which a frequency is kept; default 32."),
        field("beta_slow", &C::beta_slow, "yarn: rotations below which a frequency is divided; default 1."),
        field("mscale", &C::mscale, "yarn: part of the attention factor."),
        field("mscale_all_dim", &C::mscale_all_dim, "yarn: part of the attention factor."),
        field("low_freq_factor", &C::low_freq_factor, "llama3: wavelengths above original / this are divided."),
        field("high_freq_factor", &C::high_freq_factor, "llama3: wavelengths below original / this are kept."),
        field("original_max_position_embeddings", &C::original_max_position_embeddings,
              "Length the model was first trained for; default max_position_embeddings.", at_least(1)),
        field("short_factor", &C::short_factor, "longrope: divisors of the frequencies up to the original length."),
        field("long_factor", &C::long_factor, "longrope: divisors of the frequencies beyond it."),
        field("truncate", &C::truncate, "yarn: round the ends of the ramp to whole dimensions."),
        field("partial_rotary_factor", &C::partial_rotary_factor, "Share of a head that is rotated.")};
  }
};

// What config.json may say, in transformers 5's form or in 4's, and the one RopeConfig that it means.
struct RopeSource {
  const config::Node* parameters = nullptr;  // rope_parameters
  const config::Node* scaling = nullptr;     // rope_scaling (4)
  std::optional<double> theta, partial_rotary_factor;
  double default_theta = 10000;
  bool may_be_partial = false;  // whether the model rotates as much of a head as partial_rotary_factor says
  std::optional<std::int64_t> original_max_position_embeddings;
  std::int64_t head_size = 0, max_positions = 0;  // of the model: the lists of longrope must fit
};
// The form that holds: scaling wins over parameters, theta inside wins over theta outside, `type` stands for rope_type.
// Unknown keys, nested forms and values that make no sense are problems; a known key that the type does not use is a
// warning.
RopeConfig read_rope(const RopeSource& source, Problems& problems);
config::Node write_rope(const RopeConfig& config);  // the keys that the type uses
config::Node hf_float(double value);                // "10000.0", not "10000": transformers 5 is strict about floats

// The frequencies of one model. Immutable but for what it keeps, which is not thread-safe.
class Rope {
 public:
  // REQUIRES: head_size even.
  Rope(RopeConfig config, std::int64_t head_size, std::int64_t max_positions);

  // Frequencies change with the length for dynamic and longrope: documents of one class share them. 0: as trained.
  std::int64_t length_class(std::int64_t length) const;
  at::Tensor frequencies(
      std::int64_t length_class) const;  // [K/2], fp32, in transformers' order of operations: the same bits
  at::Tensor angles(std::int64_t begin, std::int64_t end, std::int64_t length_class) const;  // of positions, [P, K/2]
  // Their cos and sin, scaled, for computing in `like`'s precision on its device; rows_N is left undefined.
  ops::RopeTable table(const at::Tensor& angles, const at::Tensor& like) const;
  // Of positions 0 to `end` at least, of length class 0: made when it is asked for first and kept until it is asked for
  // on another device, in another precision or further.
  const ops::RopeTable& kept_table(std::int64_t end, const at::Tensor& like) const;
  double attention_factor() const { return attention_factor_; }
  std::int64_t head_size() const { return head_size_; }
  const RopeConfig& config() const { return config_; }

 private:
  RopeConfig config_;
  std::int64_t head_size_, max_positions_, original_;
  double attention_factor_ = 1;
  mutable ops::RopeTable kept_;
};

}  // namespace hone::nn
