// Which layer a tensor is of.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hone::models {

// 7 of "model.layers.7.mlp.gate.weight"; nothing: it is of none.
inline std::optional<std::int64_t> layer_of(std::string_view tensor) {
  constexpr std::string_view prefix = "model.layers.";
  if (!tensor.starts_with(prefix)) return std::nullopt;
  std::int64_t layer = 0;
  const char *const begin = tensor.data() + prefix.size(), *const end = tensor.data() + tensor.size();
  if (std::from_chars(begin, end, layer).ec != std::errc()) return std::nullopt;
  return layer;
}

}  // namespace hone::models
