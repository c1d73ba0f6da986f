// The header of a safetensors file: its rules, shared by reader and writer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "hone/safetensors.h"

namespace hone::io {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;     // in the order of their bytes
  std::vector<std::uint32_t> by_name;  // places in `tensors`, sorted by name
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // in the file
};

// Everything is checked against the file's size before memory is asked for; throws Error(checkpoint).
SafetensorsHeader read_safetensors_header(const InFile& file);

// What is wrong with a tensor's name: empty, longer than 512 bytes, control characters. Nothing: it is fine.
std::optional<std::string> name_problem(const std::string& name);
// Bytes of a tensor; nothing: an unknown dtype, a negative size, an overflow, or a part of a byte.
std::optional<std::uint64_t> checked_bytes(const std::string& dtype, const std::vector<std::int64_t>& shape);

}  // namespace hone::io
