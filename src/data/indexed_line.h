// The line of a record, and of one that is not the only one that begins in its line which one of its file's it is: both
// in one number, as stores and record numbers have it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace hone::data {

inline constexpr int kLineBits = 20, kIndexBits = 30;
inline constexpr std::int64_t kHasIndex = std::int64_t{1} << (kLineBits + kIndexBits);

// index: from 0. What does not fit is the line alone.
inline std::int64_t indexed_line(std::int64_t line, std::int64_t index) {
  if (line >> kLineBits || index >> kIndexBits) return line;
  return kHasIndex | index << kLineBits | line;
}

inline std::int64_t line_of(std::int64_t line) {
  return line < kHasIndex ? line : line & ((std::int64_t{1} << kLineBits) - 1);
}

// "17", or of the first line's 1001st record "1[1000]".
inline std::string line_words(std::int64_t line) {
  if (line < kHasIndex) return std::to_string(line);
  return fmt::format("{}[{}]", line_of(line), (line - kHasIndex) >> kLineBits);
}

}  // namespace hone::data
