// Looking for packed weights.
#include "hub/packed/find_packed.h"

#include <algorithm>
#include <tuple>

#include "hub/mxfp4.h"
#include "hub/packed/find_codes.h"
#include "hub/packed/quantization_config.h"

namespace hone::hub {
namespace {

// Of the few tensors that config.json is asked about.
bool may_be_code(const SafetensorsSet::Place& place) {
  const auto& [name, dtype] = std::tie(place.tensor->name, place.tensor->dtype);
  return dtype.starts_with("F8_") || dtype == "I8" || dtype == "I32" || name.ends_with("_scale_inv") ||
         name.ends_with("weight_scale") || name.ends_with(".scales") || name.ends_with(".weight_packed");
}

// Of names that nothing but weights in few bits has.
void check_unquantized(const Places& tensors) {
  for (const auto& [name, place] : tensors)
    for (const char* end : {"_scale_inv", ".qweight", ".weight_packed", ".weight_scale"})
      if (name.ends_with(end))
        throw unfit(place,
                    "belongs to a weight in few bits, and config.json has no \"quantization_config\" that says how "
                    "to read it");
}

}  // namespace

PackedWeights find_packed(const Places& tensors, const std::filesystem::path& folder) {
  PackedWeights found;
  for (auto& weight : find_mxfp4(tensors)) found.weights.push_back(std::move(weight));
  if (std::none_of(tensors.begin(), tensors.end(), [](const auto& entry) { return may_be_code(entry.second); }))
    return found;
  if (const std::optional<PackedConfig> config = folder_quantization(folder))
    find_codes(tensors, *config, found);
  else
    check_unquantized(tensors);
  return found;
}

bool holds_packed(const std::filesystem::path& folder) {
  const SafetensorsSet files(folder);
  return !find_packed(files.tensors(), folder).weights.empty();
}

}  // namespace hone::hub
