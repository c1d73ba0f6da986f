// Checked access to the JSON of components.
#include "text/parts/component.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

const Json* find(const Json& config, const char* name) {
  if (!config.is_object()) return nullptr;
  const auto found = config.find(name);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}
std::string name_at(const std::string& where, const char* name) { return fmt::format("{}.{}", where, name); }

[[noreturn]] void fail_kind(const std::string& where, const char* name, const Json* got, std::string_view expected) {
  fail_at(name_at(where, name), fmt::format("got {}, expected {}", got ? got->type_name() : "nothing", expected));
}

}  // namespace

void fail_at(const std::string& where, const std::string& fact) {
  throw Error(ErrorKind::config, fmt::format("{}: {}", where, fact));
}

std::string type_of(const Json& config, const std::string& where) {
  if (!config.is_object()) fail_at(where, fmt::format("got {}, expected an object with a type", config.type_name()));
  return get_string(config, "type", where);
}

void fail_type(const std::string& where, const std::string& type, std::string_view supported) {
  fail_at(where, fmt::format("the type {} is not supported; expected one of {}", hone::quoted(type), supported));
}

void fail_unknown(std::string_view part, const std::string& unk_token) {
  const std::string end = unk_token.empty()
                              ? "which has no token for that"
                              : fmt::format("and its unk_token {} is not in its vocabulary", hone::quoted(unk_token));
  throw Error(ErrorKind::data,
              fmt::format("text to tokenize: {} is unknown to the tokenizer, {}", hone::quoted(part), end));
}

const Json& member(const Json& config, const char* name) {
  static const Json none;
  const Json* found = find(config, name);
  return found ? *found : none;
}

bool get_bool(const Json& config, const char* name, const std::string& where, std::optional<bool> fallback) {
  const Json* value = find(config, name);
  if (!value && fallback) return *fallback;
  if (!value || !value->is_boolean()) fail_kind(where, name, value, "true or false");
  return value->get<bool>();
}

std::string get_string(const Json& config, const char* name, const std::string& where,
                       std::optional<std::string> fallback) {
  const Json* value = find(config, name);
  if (!value && fallback) return *fallback;
  if (!value || !value->is_string()) fail_kind(where, name, value, "a string");
  return value->get<std::string>();
}

std::int64_t get_int(const Json& config, const char* name, const std::string& where, std::int64_t low,
                     std::int64_t high) {
  const Json* value = find(config, name);
  if (!value || !value->is_number_integer()) fail_kind(where, name, value, "a whole number");
  const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = huge ? INT64_MAX : value->get<std::int64_t>();
  if (number < low || number > high)
    fail_at(name_at(where, name), fmt::format("got {}, expected {} to {}", value->dump(), low, high));
  return number;
}

char32_t get_char(const Json& config, const char* name, const std::string& where) {
  const std::string text = get_string(config, name, where);
  std::size_t at = 0;
  const char32_t c = text.empty() ? 0 : next_code_point(text, at);
  if (text.empty() || at != text.size())
    fail_at(name_at(where, name), fmt::format("got {}, expected one character", hone::quoted(text)));
  return c;
}

const Json& get_list(const Json& config, const char* name, const std::string& where) {
  const Json* value = find(config, name);
  if (!value || !value->is_array()) fail_kind(where, name, value, "a list");
  return *value;
}

std::string item_at(const std::string& where, const char* name, std::size_t i) {
  return fmt::format("{}.{}[{}]", where, name, i);
}

}  // namespace hone::text
