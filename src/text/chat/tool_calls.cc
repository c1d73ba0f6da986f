// Looking for calls of tools.
#include "text/chat/tool_calls.h"

#include <optional>

#include "base/strings.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>";

std::optional<ordered_json> call_of(std::string_view text) {
  try {
    ordered_json object =
        io::parse_ordered_json(std::string(trim(text)), "in a call", {.bytes = io::kMaxLine, .keeps_integers = true});
    if (!object.is_object() || !object.contains("name") || !object["name"].is_string()) return std::nullopt;
    if (!object.contains("arguments")) object["arguments"] = ordered_json::object();
    if (!object["arguments"].is_object()) return std::nullopt;
    return ordered_json{{"type", "function"},
                        {"function", {{"name", object["name"]}, {"arguments", object["arguments"]}}}};
  } catch (const Error&) {  // no JSON
    return std::nullopt;
  }
}

}  // namespace

bool writes_tool_calls(const ChatTemplate& chat_template) {
  return chat_template.mentions(kBegin) && !chat_template.mentions("<function=");
}

ToolCalls find_tool_calls(std::string_view text) {
  ToolCalls found;
  std::size_t at = 0;
  for (std::size_t begin = 0; (begin = text.find(kBegin, at)) != std::string_view::npos;) {
    const std::size_t from = begin + kBegin.size(), end = text.find(kEnd, from);
    const std::size_t behind = end == std::string_view::npos ? text.size() : end + kEnd.size();
    std::optional<ordered_json> call = call_of(text.substr(from, end == std::string_view::npos ? end : end - from));
    found.content += text.substr(at, (call ? begin : behind) - at);
    if (call)
      found.calls.push_back(std::move(*call));
    else
      ++found.unreadable;
    at = behind;
  }
  found.content = trim(found.content += text.substr(at));
  return found;
}

}  // namespace hone::text
