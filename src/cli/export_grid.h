// hone export --grid: a model whose weights are rounded for good, to what it was trained with or to anything else.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/export_source.h"
#include "hone/config_read.h"
#include "hone/quantization.h"

namespace hone::cli {

struct ExportGrid {
  Grid type = Grid::none, activation_dtype = Grid::none;
  std::optional<std::int64_t> group_size;
  static constexpr std::string_view kShorthand = "type";
  bool on() const { return type != Grid::none; }
  static constexpr auto fields() {
    using C = ExportGrid;
    return std::tuple{
        field("type", &C::type,
              "Weights of linear layers in blocks as int4, int8 or float8, as compressed-tensors has them for vLLM and "
              "transformers. Of a run with trainer.qat these are what it was trained with, to the bit."),
        field("activation_dtype", &C::activation_dtype,
              "What config.json asks of who computes with them: that inputs be rounded to int8 or float8, token by "
              "token."),
        field("group_size", &C::group_size,
              "Inputs that share a scale; 0 = all of an output. Default: the run's, else 32.",
              {.low = 0, .high = 1 << 20})};
  }
};

// Which weights, by their names in the folder, and how. The type that they are rounded in; nothing: their own.
struct OnGrids {
  FakeQuantized grids;
  std::map<std::string, FakeQuantized> tensors = {};
  std::vector<std::string> ignored = {};  // linear modules that are left
  std::optional<at::ScalarType> type = {};
};
// Error(config): it is quantized already, or a group does not fit. Error(usage): a run that was trained for another
// grid, or options that contradict each other.
OnGrids put_on_grids(const ExportSource& source, const ExportGrid& how);

}  // namespace hone::cli
