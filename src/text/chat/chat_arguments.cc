// Walks messages -> tool_calls -> function -> arguments, and copies what changes on the way.
#include "text/chat/chat_arguments.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "hone/error.h"
#include "io/json.h"
#include "io/lines.h"
#include "text/jinja/print.h"
#include "text/jinja/traced.h"

namespace hone::text {
namespace {

using jinja::Kind;
using jinja::Value;
using jinja::Values;
using ChangedValue = std::optional<Value>;  // nullopt: it stays as it is

const Value* field_of(const Value& dict, std::string_view name) {
  return dict.is(Kind::dict) ? dict.dict().find(name) : nullptr;
}

ChangedValue opened(const Value& text) {
  if (!text.is(Kind::string)) return std::nullopt;
  try {
    const auto object =
        io::parse_ordered_json(text.bytes(), "in its text", {.bytes = io::kMaxLine, .keeps_integers = true});
    if (!object.is_object() || io::find_big_integer(object)) return std::nullopt;
    return jinja::marked(jinja::from_json(object.dump(), "arguments"), jinja::source_of(text));
  } catch (const Error&) {  // a text of another kind
    return std::nullopt;
  }
}

template <typename Inner>
ChangedValue with_changed(const Value& dict, std::string_view name, const Inner& inner) {
  const Value* field = field_of(dict, name);
  ChangedValue change = field ? inner(*field) : std::nullopt;
  if (!change) return std::nullopt;
  return with_field(dict, name, std::move(*change));
}

ChangedValue with_call_opened(const Value& call) {
  const Value* function = field_of(call, "function");
  if (!function || !function->is(Kind::dict)) return with_changed(call, "arguments", opened);
  return with_changed(call, "function", [](const Value& one) { return with_changed(one, "arguments", opened); });
}

}  // namespace

std::optional<Value> with_calls_opened(const Value& calls) {
  if (!calls.is(Kind::list)) return std::nullopt;
  Values items = calls.items();
  bool changed = false;
  for (Value& item : items) {
    ChangedValue change = with_call_opened(item);
    if (!change) continue;
    item = std::move(*change);
    changed = true;
  }
  if (!changed) return std::nullopt;
  return Value::list(std::move(items));
}

std::optional<Chat> with_arguments_opened(const Chat& chat) {
  std::optional<Chat> made;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    ChangedValue change = with_changed(chat.messages[i], "tool_calls", with_calls_opened);
    if (!change) continue;
    if (!made) made = chat;
    made->messages[i] = std::move(*change);
  }
  return made;
}

const Value& function_of(const Value& call) {
  const Value* function = field_of(call, "function");
  return function ? *function : call;
}

bool are_printed(const Chat& chat, const std::string& text) {
  for (const Value& message : chat.messages) {
    const Value* calls = field_of(message, "tool_calls");
    if (!calls || !calls->is(Kind::list)) continue;
    for (const Value& call : calls->items()) {
      const Value* arguments = field_of(function_of(call), "arguments");
      if (!arguments || !arguments->is(Kind::dict)) continue;
      if (text.find(jinja::to_json(*arguments, {})) == std::string::npos &&
          text.find(jinja::to_repr(*arguments)) != std::string::npos)
        return true;
    }
  }
  return false;
}

}  // namespace hone::text
