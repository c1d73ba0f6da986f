// Names of element types.
#include "tensor/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "hone/error.h"

namespace hone {
namespace {

struct Name {
  at::ScalarType type;
  const char *safetensors, *hf;
};
constexpr std::array kNames = {Name{at::kFloat, "F32", "float32"}, Name{at::kBFloat16, "BF16", "bfloat16"},
                               Name{at::kHalf, "F16", "float16"},  Name{at::kDouble, "F64", "float64"},
                               Name{at::kLong, "I64", "int64"},    Name{at::kInt, "I32", "int32"},
                               Name{at::kShort, "I16", "int16"},   Name{at::kChar, "I8", "int8"},
                               Name{at::kByte, "U8", "uint8"},     Name{at::kBool, "BOOL", "bool"}};

const Name& name_of(at::ScalarType type) {
  for (const Name& name : kNames)
    if (name.type == type) return name;
  throw Error(ErrorKind::checkpoint, fmt::format("element type {}: has no name in files", c10::toString(type)));
}

}  // namespace

std::string safetensors_name(at::ScalarType type) { return name_of(type).safetensors; }
std::string hf_name(at::ScalarType type) { return name_of(type).hf; }

std::optional<at::ScalarType> from_safetensors_name(const std::string& name) {
  for (const Name& known : kNames)
    if (known.safetensors == name) return known.type;
  return std::nullopt;
}

std::optional<at::ScalarType> from_hf_name(const std::string& name) {
  const std::string plain = name.starts_with("torch.") ? name.substr(6) : name;
  for (const Name& known : kNames)
    if (known.hf == plain) return known.type;
  return std::nullopt;
}

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace hone
