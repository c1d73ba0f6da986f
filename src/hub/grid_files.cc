// compressed-tensors' names, words and words of config.json.
#include "hub/grid_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hone/config_read.h"
#include "hone/error.h"

namespace hone::hub {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kCodesInWord = 8, kBits = 4;

std::int64_t bits_of(Grid grid) { return grid == Grid::int4 ? kBits : 8; }
std::string format_of(Grid grid) {
  return grid == Grid::int4 ? "pack-quantized" : grid == Grid::int8 ? "int-quantized" : "float-quantized";
}

// The first code of a word in its lowest bits, each 8 more than it is; what is beyond the last column is 0.
at::Tensor in_words(const at::Tensor& codes_OI) {
  const std::int64_t beyond = (kCodesInWord - codes_OI.size(1) % kCodesInWord) % kCodesInWord;
  const at::Tensor whole =
      at::constant_pad_nd(codes_OI.to(at::kLong) + 8, {0, beyond}).unflatten(1, {-1, kCodesInWord});
  const at::Tensor places = at::arange(kCodesInWord, at::kLong) * kBits;
  const at::Tensor words = whole.bitwise_left_shift(places).sum(-1);
  return at::where(words >= (std::int64_t{1} << 31), words - (std::int64_t{1} << 32), words).to(at::kInt);
}

ordered_json arguments(Grid grid, const std::string& strategy, bool symmetric, bool dynamic) {
  return {{"num_bits", bits_of(grid)}, {"type", grid == Grid::float8 ? "float" : "int"},
          {"symmetric", symmetric},    {"group_size", nullptr},
          {"strategy", strategy},      {"dynamic", dynamic},
          {"actorder", nullptr},       {"observer", dynamic ? ordered_json() : ordered_json("minmax")}};
}

}  // namespace

std::map<std::string, at::Tensor> grid_tensors(const std::string& name, const ops::OnGrid& made) {
  constexpr std::string_view kWeight = ".weight";
  HONE_ASSERT(name.ends_with(kWeight));
  const std::string module = name.substr(0, name.size() - kWeight.size());
  std::map<std::string, at::Tensor> all{{name + "_scale", made.scales_OG}};
  if (made.grid != Grid::int4) {
    all[name] = made.codes_OI;
    return all;
  }
  all[module + ".weight_packed"] = in_words(made.codes_OI);
  all[module + ".weight_shape"] = at::tensor({made.codes_OI.size(0), made.codes_OI.size(1)}, at::kLong);
  return all;
}

ordered_json grid_config(const FakeQuantized& grids, const std::vector<std::string>& ignored) {
  ordered_json weights = arguments(grids.weight, grids.group_size > 0 ? "group" : "channel", true, false);
  if (grids.group_size > 0) weights["group_size"] = grids.group_size;
  ordered_json inputs;
  if (grids.input != Grid::none) inputs = arguments(grids.input, "token", grids.input == Grid::float8, true);
  const ordered_json group = {
      {"targets", {"Linear"}}, {"weights", weights}, {"input_activations", inputs}, {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"},
          {"format", format_of(grids.weight)},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}},
          {"ignore", ignored},
          {"kv_cache_scheme", nullptr}};
}

std::string name_of(const FakeQuantized& grids) {
  const std::string name = config::Values<Grid>::write(grids.weight).text();
  return grids.group_size > 0 ? fmt::format("{} by groups of {}", name, grids.group_size) : name;
}

}  // namespace hone::hub
