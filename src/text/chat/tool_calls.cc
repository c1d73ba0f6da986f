// Looking for calls of tools.
#include "text/chat/tool_calls.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBegin = CallMarks::begin, kEnd = CallMarks::end, kThought = CallMarks::thought;

// Of a call the first end that does not stand in a text of its JSON: no other one can end it.
std::size_t end_of_json(std::string_view text, std::size_t from) {
  bool in_text = false;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (in_text && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      in_text = !in_text;
    else if (!in_text && text.substr(i).starts_with(kEnd))
      return i;
  }
  return std::string_view::npos;
}

std::size_t end_of_reasoning(std::string_view text, bool reasons) {
  const std::size_t thought = text.rfind(kThought);
  if (thought != std::string_view::npos) return thought + kThought.size();
  return reasons || trim(text).starts_with(CallMarks::think) ? text.size() : 0;
}

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

namespace {

ToolCalls find_from(std::string_view text, std::size_t at) {
  ToolCalls found;
  found.content = text.substr(0, at);
  for (std::size_t begin = 0; (begin = text.find(kBegin, at)) != std::string_view::npos;) {
    const std::size_t from = begin + kBegin.size(), whole = end_of_json(text, from);
    std::optional<ordered_json> call = call_of(text.substr(from, std::min(whole, text.size()) - from));
    const std::size_t end = call ? whole : text.find(kEnd, from);
    const std::size_t behind = end == std::string_view::npos ? text.size() : end + kEnd.size();
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

}  // namespace

ToolCalls find_tool_calls(std::string_view text, bool reasons) {
  return find_from(text, end_of_reasoning(text, reasons));
}

ToolCalls find_held_calls(std::string_view text, bool reasons) {
  if (!reasons && !text.starts_with(CallMarks::think)) return find_from(text, 0);
  const std::size_t thought = text.find(kThought);
  return find_from(text, thought == std::string_view::npos ? text.size() : thought + kThought.size());
}

}  // namespace hone::text
