// JSON from files nobody vouches for: size and depth limits, no duplicate keys, errors with line and column.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "hone/error.h"

namespace hone::io {

struct JsonLimits {
  std::uint64_t bytes = 16'000'000;
  int depth = 100;
  ErrorKind kind = ErrorKind::data;  // of the Error that is thrown
  bool keeps_integers = false;       // that do not fit 64 bits; otherwise they become numbers with a point
};
inline constexpr JsonLimits kConfigJson{16'000'000, 100, ErrorKind::checkpoint};
inline constexpr JsonLimits kIndexJson{256'000'000, 100, ErrorKind::checkpoint};
inline constexpr JsonLimits kTokenizerJson{512'000'000, 100, ErrorKind::data};

// One value and nothing after it. `what` is the start of the error: "data.jsonl:17"; then comes ":line:column".
nlohmann::json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits = {});
// The same for one line of a larger file: errors say "file:line:column".
nlohmann::json parse_json_line(std::string_view text, const std::string& file, std::int64_t line,
                               const JsonLimits& limits = {});
// The same with the keys of objects in the text's order.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& what,
                                          const JsonLimits& limits = {});
nlohmann::ordered_json parse_ordered_json_line(std::string_view text, const std::string& file, std::int64_t line,
                                               const JsonLimits& limits = {});
// The digits of the first integer in the value that does not fit 64 bits with their sign. Beyond those without a sign
// there are such ones only where JsonLimits::keeps_integers has kept them.
std::optional<std::string> find_big_integer(const nlohmann::ordered_json& value);
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = kConfigJson);

}  // namespace hone::io
