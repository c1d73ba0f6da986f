// What a request's body says, field by field.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "serve/refused.h"

namespace hone::serve {

// A request's fields, each to be asked for once.
class Fields {
 public:
  explicit Fields(const nlohmann::ordered_json& body) : body_(body) {
    if (!body.is_object()) throw Refused(400, "the body is not a JSON object");
  }

  // Null: not given.
  const nlohmann::ordered_json* find(const char* name) {
    read_.insert(name);
    const auto found = body_.find(name);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  bool flag(const char* name, bool otherwise) {
    const nlohmann::ordered_json* value = find(name);
    if (!value) return otherwise;
    if (!value->is_boolean()) wrong(name, *value, "true or false");
    return value->get<bool>();
  }
  std::optional<double> number(const char* name, double low, double high) {
    const nlohmann::ordered_json* value = find(name);
    if (!value) return std::nullopt;
    const double got = value->is_number() ? value->get<double>() : NAN;
    if (!(got >= low && got <= high)) wrong(name, *value, fmt::format("a number from {} to {}", low, high));
    return got;
  }
  // by: what says how large it may be; behind the numbers in a refusal.
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high, const char* by = "") {
    const nlohmann::ordered_json* value = find(name);
    if (!value) return std::nullopt;
    const std::optional<std::int64_t> got = whole(*value, low, high);
    if (!got) wrong(name, *value, fmt::format("a whole number from {} to {}{}", low, high, by));
    return got;
  }
  // A value as a whole number from low to high; nothing: it is none.
  static std::optional<std::int64_t> whole(const nlohmann::ordered_json& value, std::int64_t low, std::int64_t high) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high));
    if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) return std::nullopt;
    return value.get<std::int64_t>();
  }
  // A list as token ids below `most`. Throws Refused.
  static std::vector<std::int32_t> ids(const nlohmann::ordered_json& list, std::int64_t most, const std::string& name) {
    std::vector<std::int32_t> all;
    for (const nlohmann::ordered_json& one : list) {
      const std::optional<std::int64_t> id = whole(one, 0, most - 1);
      if (!id) wrong(name, one, fmt::format("a token id below {}", most));
      all.push_back(static_cast<std::int32_t>(*id));
    }
    return all;
  }
  std::string text(const char* name) {
    const nlohmann::ordered_json* value = find(name);
    if (!value) return "";
    if (!value->is_string()) wrong(name, *value, "a string");
    return value->get<std::string>();
  }
  // Asks for something that is not there, unless it is one of these.
  void only(const char* name, std::initializer_list<nlohmann::ordered_json> values, const char* why) {
    const nlohmann::ordered_json* value = find(name);
    if (!value || std::find(values.begin(), values.end(), *value) != values.end()) return;
    throw Refused(400, fmt::format("{}: got {}: {}", name, shown(*value), why), name, "unsupported_value");
  }
  // What says nothing of the answer.
  void pass_over(std::initializer_list<const char*> names) {
    for (const char* name : names) find(name);
  }
  void require_all_read() const {
    for (const auto& [name, value] : body_.items())
      if (!read_.contains(name) && !value.is_null())
        throw Refused(400, fmt::format("{}: no such field", escape_for_terminal(name, 60)), name, "unknown_field");
  }
  [[noreturn]] static void wrong(const std::string& name, const nlohmann::ordered_json& value,
                                 const std::string& expected) {
    throw Refused(400, fmt::format("{}: got {}, expected {}", name, shown(value), expected), name, "invalid_value");
  }

 private:
  static std::string shown(const nlohmann::ordered_json& value) {
    return escape_for_terminal(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), 60);
  }
  const nlohmann::ordered_json& body_;
  std::set<std::string> read_;
};

// Throws Refused: another model is asked for.
inline void require_model(Fields& fields, const std::string& served) {
  const std::string name = fields.text("model");
  if (!name.empty() && name != served)
    throw Refused(404, fmt::format("model: got {}, expected {}", hone::quoted(name), hone::quoted(served)), "model",
                  "model_not_found");
}

}  // namespace hone::serve
