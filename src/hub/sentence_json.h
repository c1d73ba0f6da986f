// What the files of a sentence-transformers folder have in common: their names, how they are refused, and written.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "hone/error.h"

namespace hone::hub {

inline constexpr const char *kModules = "modules.json", *kPrompts = "config_sentence_transformers.json",
                            *kLengths = "sentence_bert_config.json";

// Error(checkpoint) for what hone has not, or what none may have.
inline Error not_had(const std::filesystem::path& file, const std::string& fact) {
  return Error(ErrorKind::checkpoint, fmt::format("{}: {}", file.string(), fact));
}

// A whole number above 0; nothing: there is none, or null.
inline std::optional<std::int64_t> count_in(const std::filesystem::path& file, const nlohmann::json& json,
                                            const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  if (!found->is_number_integer() || *found < 1)
    throw not_had(file, fmt::format("{}: got {}, expected a whole number above 0", key, found->dump()));
  return found->get<std::int64_t>();
}

inline std::string dumped(const nlohmann::ordered_json& json) { return json.dump(2) + "\n"; }

}  // namespace hone::hub
