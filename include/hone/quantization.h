// Frozen weights in fewer bits, as bitsandbytes keeps them: what products of blocks are made with. And what weights are
// rounded to that are trained to be quantized.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone {

// stored: as the folder holds them. none: in full, also what the folder holds quantized. nf4, fp4: 64 numbers share a
// scale and have four bits each, which choose among 16 values (Dettmers et al., 2023, arXiv:2305.14314). int8: a row of
// the weight shares a scale (Dettmers et al., 2022, arXiv:2208.07339).
enum class QuantType { stored, none, nf4, fp4, int8 };
template <>
inline constexpr auto config::enum_names<QuantType> =
    std::to_array<std::pair<QuantType, std::string_view>>({{QuantType::stored, "stored"},
                                                           {QuantType::none, "none"},
                                                           {QuantType::nf4, "nf4"},
                                                           {QuantType::fp4, "fp4"},
                                                           {QuantType::int8, "int8"}});

// How a model's frozen weights are to be held. Those of two dimensions in its blocks are quantized, which is what
// transformers does; tables, heads, norms and biases stay as they are.
struct Quantization {
  QuantType type = QuantType::stored;
  bool double_quant = true;
  std::vector<std::string> skip = {};
  static constexpr std::string_view kShorthand = "type";
  static constexpr auto fields() {
    using C = Quantization;
    return std::tuple{
        field("type", &C::type,
              "Weights of blocks that are not trained, in fewer bits: nf4 or fp4 (four bits, a scale for 64), int8 (a "
              "scale for a row), none = in full, stored = as the folder holds them."),
        field("double_quant", &C::double_quant,
              "Of nf4 and fp4: scales are quantized, too, which saves 0.37 bits of a weight's 4.5."),
        field("skip", &C::skip,
              "Regular expressions: weights whose name one of them matches anywhere stay as they are.")};
  }
};

// What one weight is held as. REQUIRES: neither stored nor, where it is quantized, none.
struct QuantizedAs {
  QuantType type = QuantType::none;
  bool double_quant = false;
  bool operator==(const QuantizedAs&) const = default;
};

// Numbers times a scale: whole ones of so many bits, or those of fp8 (E4M3).
enum class Grid { none, int4, int8, float8 };
template <>
inline constexpr auto config::enum_names<Grid> = std::to_array<std::pair<Grid, std::string_view>>(
    {{Grid::none, "none"}, {Grid::int4, "int4"}, {Grid::int8, "int8"}, {Grid::float8, "float8"}});

// What a layer rounds its weight to, and what it multiplies it with (src/ops/fake_quantize.h). Of the weight group_size
// inputs share a scale; 0: all of an output. weight none: nothing is rounded.
struct FakeQuantized {
  Grid weight = Grid::none, input = Grid::none;
  std::int64_t group_size = 0;
  bool operator==(const FakeQuantized&) const = default;
};

}  // namespace hone
