// Reading a pattern from tokenizer.json.
#include "text/regex/pattern.h"

#include <fmt/format.h>

#include "text/parts/component.h"

namespace hone::text {

Pattern::Pattern(const Json& config, const std::string& where) {
  if (!config.is_object() || config.size() != 1 || !config.begin()->is_string())
    fail_at(where, "expected {\"String\": text} or {\"Regex\": pattern}");
  const std::string& value = config.begin()->get_ref<const std::string&>();
  if (config.contains("Regex")) {
    scanner_ = find_scanner(value);
    regex_ = std::make_unique<const Regex>(value, where);
  } else if (config.contains("String")) {
    text_ = value;
    if (value.empty()) regex_ = std::make_unique<const Regex>("(?:)", where);  // matches between all characters
  } else {
    fail_at(where, fmt::format("got {}, expected String or Regex", config.begin().key()));
  }
}

}  // namespace hone::text
