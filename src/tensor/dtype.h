// Names of element types: LibTorch's, safetensors' ("BF16"), Hugging Face's ("bfloat16").
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace hone {

std::string safetensors_name(at::ScalarType type);  // "F32"; throws Error(checkpoint) if it has none
std::optional<at::ScalarType> from_safetensors_name(const std::string& name);
std::string hf_name(at::ScalarType type);                             // "float32"
std::optional<at::ScalarType> from_hf_name(const std::string& name);  // "float32" and "torch.float32"
std::string shape_text(at::IntArrayRef shape);                        // "[2, 3]"

}  // namespace hone
