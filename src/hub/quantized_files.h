// Weights in fewer bits in safetensors, as transformers saves what bitsandbytes has quantized: a tensor of codes under
// the weight's name, and what they mean in tensors beside it.
//
//   four bits, weight W   W, W.absmax, W.quant_map, W.quant_state.bitsandbytes__nf4 (or fp4: JSON, a byte a number);
//                         W.nested_absmax, W.nested_quant_map where scales are quantized, too
//   int8, weight M.weight  M.weight, M.SCB, M.weight_format
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/places.h"
#include "ops/quantized.h"

namespace hone::hub {

class QuantizedFiles {
 public:
  // What `tensors` are of must outlive it, as they do themselves.
  explicit QuantizedFiles(const Places& tensors);
  // All tensors but those that say what others mean.
  const Places& weights() const { return weights_; }
  // How a tensor is held; nothing: in full.
  std::optional<QuantizedAs> as(const std::string& tensor) const;
  bool any() const { return !held_.empty(); }
  // REQUIRES: as(tensor). Error(checkpoint): a part that is missing, or not as it should be.
  std::shared_ptr<const ops::Quantized> read(const std::string& tensor, const std::vector<std::int64_t>& shape) const;
  // As whoever saved it says; nothing: it is in the file.
  std::optional<std::vector<std::int64_t>> shape(const std::string& tensor) const;

 private:
  std::shared_ptr<ops::Quantized> read_int8(const std::string& tensor, const std::vector<std::int64_t>& shape) const;
  std::shared_ptr<ops::Quantized> read_four_bits(const std::string& tensor,
                                                 const std::vector<std::int64_t>& shape) const;
  at::Tensor part(const std::string& name, at::ScalarType type, std::int64_t count) const;
  at::Tensor finite_part(const std::string& name, std::int64_t count) const;  // fp32
  const Places& tensors_;
  Places weights_;
  std::map<std::string, QuantizedAs> held_;
};

std::string name_of(QuantType type);  // "nf4"
bool holds_quantized(const std::filesystem::path& folder);

// What a weight is in such a file. dtype: as transformers' files say what the weight was: "bfloat16".
std::map<std::string, at::Tensor> quantized_tensors(const std::string& name, const ops::Quantized& quantized,
                                                    const std::string& dtype);

}  // namespace hone::hub
