// The recipe's section `trainer.qat`: training of a model that is to be quantized.
#pragma once

#include <cstdint>
#include <string_view>

#include "hone/config_read.h"
#include "hone/quantization.h"

namespace hone {

// Quantization-aware training (Jacob et al., 2018, arXiv:1712.05877): products of blocks are made with what quantized
// weights would be, and gradients go to the weights as they are. Names are Axolotl's.
struct QatSection {
  Grid weight_dtype = Grid::none, activation_dtype = Grid::none;
  std::int64_t group_size = 32, fake_quant_after_n_steps = 0;
  static constexpr std::string_view kShorthand = "weight_dtype";
  bool on() const { return weight_dtype != Grid::none; }
  FakeQuantized grids() const {
    return {weight_dtype, activation_dtype, weight_dtype == Grid::float8 ? 0 : group_size};
  }
  static constexpr auto fields() {
    using C = QatSection;
    return std::tuple{
        field("weight_dtype", &C::weight_dtype,
              "What weights of linear layers in blocks are rounded to in every pass: int4 or int8, a scale for "
              "group_size inputs of an output; float8, one for each output. `hone export --grid` then writes them so, "
              "and loses nothing."),
        field("activation_dtype", &C::activation_dtype,
              "What goes into those layers is rounded to: int8 or float8, by the largest of each token."),
        field("group_size", &C::group_size, "Inputs that share a scale; 0 = all of an output.",
              {.low = 0, .high = 1 << 20}),
        field("fake_quant_after_n_steps", &C::fake_quant_after_n_steps,
              "Nothing is rounded in so many steps, the first ones.", at_least(0))};
  }
  HONE_API void validate(Problems& problems) const;
};

}  // namespace hone
