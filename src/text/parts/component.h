// Reading the components of tokenizer.json with messages that say where: "tokenizer.json: normalizer.prepend: ...".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/error.h"

namespace hone::text {

using Json = nlohmann::json;

[[noreturn]] void fail_at(const std::string& where, const std::string& fact);

// `type` of a component. REQUIRES nothing: anything but an object with a string is an error.
std::string type_of(const Json& config, const std::string& where);
// An error that names the type, what may stand there and, for parts that hone does not have yet, says so.
[[noreturn]] void fail_type(const std::string& where, const std::string& type, std::string_view supported);

// The text cannot be tokenized: this part of it is unknown, and so is the token for what is unknown.
[[noreturn]] void fail_unknown(std::string_view part, const std::string& unk_token);

// A member as it is; a null where there is none.
const Json& member(const Json& config, const char* name);
// A member; without a default it must be there. null counts as absent.
bool get_bool(const Json& config, const char* name, const std::string& where, std::optional<bool> fallback = {});
std::string get_string(const Json& config, const char* name, const std::string& where,
                       std::optional<std::string> fallback = {});
std::int64_t get_int(const Json& config, const char* name, const std::string& where, std::int64_t low,
                     std::int64_t high);
char32_t get_char(const Json& config, const char* name, const std::string& where);
// The list of a Sequence, each with its place in messages.
const Json& get_list(const Json& config, const char* name, const std::string& where);
// "where.name[i]"
std::string item_at(const std::string& where, const char* name, std::size_t i);

}  // namespace hone::text
