// Other forms of conversations, made into OpenAI's.
#include "data/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "hone/error.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::data {
namespace {

using nlohmann::ordered_json;

[[noreturn]] void fail(const Place& place, const std::string& where, const std::string& fact) {
  throw Error(ErrorKind::data, fmt::format("{}: {}: {}", place.text(), where, fact));
}

[[noreturn]] void fail_type(const Place& place, const std::string& where, const ordered_json& got,
                            const std::string& expected) {
  fail(place, where, fmt::format("got {}, expected {}", type_of(got), expected));
}

std::string field_of(const std::string& name) { return "field " + hone::quoted(name); }

const std::string& text_of(const ordered_json& object, const char* name, const Place& place, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end()) fail(place, where, fmt::format("no {}", name));
  if (!it->is_string()) fail_type(place, fmt::format("{}.{}", where, name), *it, "a string");
  return it->get_ref<const std::string&>();
}

ordered_json parsed(const std::string& text) {
  return io::parse_ordered_json(text, "in its text", {.bytes = io::kMaxLine, .keeps_integers = true});
}

constexpr const char* kCall = "as the value of a function_call a JSON object with a name";

ordered_json parsed_field(const std::string& text, const Place& place, const std::string& where,
                          const std::string& expected) {
  try {
    return parsed(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::data,
                fmt::format("{}: {}: got a string that is not JSON, expected {}", place.text(), where, expected))
        .hint(error.what());
  }
}

ordered_json as_call(ordered_json value, const Place& place, const std::string& where) {
  if (!value.is_object()) fail_type(place, where, value, kCall);
  if (!value.contains("name")) fail(place, where, fmt::format("got an object without a name, expected {}", kCall));
  return {{"type", "function"}, {"function", std::move(value)}};
}

ordered_json from_share_gpt(const ordered_json& turn, const Place& place, const std::string& where) {
  const std::string &from = text_of(turn, "from", place, where), &value = text_of(turn, "value", place, where);
  constexpr std::array<std::pair<std::string_view, const char*>, 10> kRoles = {{{"human", "user"},
                                                                                {"user", "user"},
                                                                                {"gpt", "assistant"},
                                                                                {"assistant", "assistant"},
                                                                                {"chatgpt", "assistant"},
                                                                                {"system", "system"},
                                                                                {"tool", "tool"},
                                                                                {"observation", "tool"},
                                                                                {"function_response", "tool"},
                                                                                {"bard", "assistant"}}};
  if (from == "function_call") {
    const ordered_json calls = parsed_field(value, place, where, kCall);
    ordered_json made = message("assistant", "");
    made["tool_calls"] = ordered_json::array();
    if (!calls.is_array())
      made["tool_calls"].push_back(as_call(calls, place, where));
    else
      for (const ordered_json& call : calls) made["tool_calls"].push_back(as_call(call, place, where));
    return made;
  }
  const auto role = std::find_if(kRoles.begin(), kRoles.end(), [&](const auto& entry) { return entry.first == from; });
  if (role == kRoles.end())
    fail(place, where,
         fmt::format("from is {}; expected human, gpt, system, function_call or observation", hone::quoted(from)));
  return message(role->second, value);
}

// What a turn says besides (reasoning_content, weight, ...) is for the template, or for who reads its choices.
void add_other_fields(const ordered_json& turn, ordered_json& message) {
  for (const auto& [name, value] : turn.items())
    if (name != "from" && name != "value" && !message.contains(name)) message[name] = value;
}

}  // namespace

ordered_json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

ordered_json read_messages(const ordered_json& list, const std::string& field, const Place& place,
                           const std::string& why) {
  if (!list.is_array() || list.empty()) fail_type(place, field_of(field), list, "a list of messages" + why);
  ordered_json messages = ordered_json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", field, i);
    if (!list[i].is_object()) fail_type(place, where, list[i], "an object with role and content");
    if (!list[i].contains("role") && list[i].contains("from")) {
      messages.push_back(from_share_gpt(list[i], place, where));
      add_other_fields(list[i], messages.back());
    } else {
      text_of(list[i], "role", place, where);
      messages.push_back(list[i]);
    }
    const auto content = messages.back().find("content");
    if (content == messages.back().end() || content->is_string() || content->is_structured() || content->is_null())
      continue;
    fail_type(place, where + ".content", *content, "a text, or a list of its parts");
  }
  return messages;
}

ordered_json read_tools(const ordered_json& value, const std::string& field, const Place& place) {
  const std::string expected = "a list of tools, or JSON of one in a string";
  ordered_json tools = value;
  if (value.is_string()) {
    if (hone::trim(value.get_ref<const std::string&>()).empty()) return nullptr;
    tools = parsed_field(value.get_ref<const std::string&>(), place, field_of(field), expected);
  }
  if (tools.is_null()) return tools;
  if (!tools.is_array()) fail_type(place, field_of(field), value, expected);
  if (tools.empty()) return nullptr;
  for (std::size_t i = 0; i < tools.size(); ++i)
    if (!tools[i].is_object()) fail_type(place, fmt::format("{}[{}]", field, i), tools[i], "an object");
  return tools;
}

void read_extras(const ordered_json& value, const Form& form, const Place& place, Conversation& into) {
  const auto text_of = [&](const ordered_json& part) { return part.is_null() ? "" : template_json(part, place); };
  if (!form.tools.empty()) into.tools = text_of(read_tools(*find_field(value, form.tools), form.tools, place));
  if (!form.documents.empty()) into.documents = text_of(*find_field(value, form.documents));
  if (!form.variables.empty()) into.variables = text_of(*find_field(value, form.variables));
}

std::string template_json(const ordered_json& value, const Place& place) {
  if (const auto digits = io::find_big_integer(value))
    throw Error(ErrorKind::data, fmt::format("{}: got the integer {}, expected one that fits 64 bits", place.text(),
                                             escape_for_terminal(*digits, 40)))
        .hint("write it as a text, in quotes");
  return value.dump();
}

ordered_json alpaca_prompt(const AlpacaFields& fields, const ordered_json* history, const Place& place) {
  ordered_json messages = ordered_json::array();
  if (history && !history->is_array()) fail_type(place, field_of("history"), *history, "a list of pairs of texts");
  if (history)
    for (std::size_t i = 0; i < history->size(); ++i) {
      const ordered_json& round = (*history)[i];
      const std::string where = fmt::format("history[{}]", i);
      if (!round.is_array()) fail_type(place, where, round, "a pair of texts");
      if (round.size() != 2)
        fail(place, where, fmt::format("got a list of {}, expected a pair of texts", round.size()));
      for (const ordered_json& text : round)
        if (!text.is_string()) fail_type(place, where, text, "a pair of texts");
      messages.push_back(message("user", round[0].get<std::string>()));
      messages.push_back(message("assistant", round[1].get<std::string>()));
    }
  messages.push_back(
      message("user", fields.input.empty() ? fields.instruction : fields.instruction + "\n" + fields.input));
  return messages;
}

bool says_nothing(const nlohmann::ordered_json& message) {
  const auto content = message.find("content");
  const bool calls = message.contains("tool_calls") && !is_blank(message["tool_calls"]);
  return (content == message.end() || is_blank(*content)) && !calls;
}

}  // namespace hone::data
