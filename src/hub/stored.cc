// The precision that a model folder was saved in.
#include "hone/hub.h"
#include "hub/model_tensors.h"
#include "hub/quantized_files.h"

namespace hone {

Precision stored_precision(const std::filesystem::path& folder) {
  const hub::ModelTensors tensors(folder);
  const hub::QuantizedFiles quantized(tensors.all());
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& [name, place] : quantized.weights())
    if (!quantized.as(name)) bytes[tensors.saved_in(name)] += place.tensor->bytes();
  std::string most = "F32";
  for (const auto& [dtype, count] : bytes)
    if (count > bytes[most]) most = dtype;
  return most == "BF16" ? Precision::bf16 : most == "F64" ? Precision::fp64 : Precision::fp32;
}

}  // namespace hone
