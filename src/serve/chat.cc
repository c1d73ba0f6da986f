#include "serve/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

// "": there is none, or it is no text.
std::string text_in(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Templates are written for texts: parts of a content are made one.
void join_parts(ordered_json& message, std::size_t i) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  std::string text;
  for (const ordered_json& part : *content) {
    const bool is_text = part.is_object() && part.size() == 2 && text_in(part, "type") == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text)
      throw Refused(400, fmt::format("messages[{}].content: only parts of type text are read here", i), "messages",
                    "unsupported_content");
    text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  }
  *content = text;
}

// Parts that a model of pictures is given as they are.
bool has_pictures(const ordered_json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_array() &&
         std::any_of(content->begin(), content->end(), [](const ordered_json& part) {
           const ordered_json type = part.is_object() ? part.value("type", ordered_json()) : ordered_json();
           return type == "image_url" || type == "image";
         });
}

// A field that the template does not read would be lost. Some tools' answers have a name beside their id.
void check_message(const ordered_json& message, std::size_t i, const Served& served) {
  static const std::set<std::string> known{"role", "content", "tool_calls", "tool_call_id", "reasoning_content"};
  if (text_in(message, "role").empty())
    throw Refused(400, fmt::format("messages[{}].role: expected a text, as user or assistant", i), "messages");
  for (const auto& [name, value] : message.items()) {
    const bool is_neutral = value.is_null() || (value.is_array() && value.empty());
    const bool is_tools_name = name == "name" && message.value("role", ordered_json()) == "tool";
    if (is_neutral || is_tools_name || known.contains(name) || served.template_reads(name)) continue;
    throw Refused(
        400,
        fmt::format("messages[{}].{}: the model's chat template does not read it", i, escape_for_terminal(name, 60)),
        "messages", "unknown_field");
  }
}

// The API has a call's arguments as a text of JSON, templates as what it says.
void read_arguments(ordered_json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (ordered_json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    const auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_string()) continue;
    ordered_json read = ordered_json::parse(arguments->get<std::string>(), nullptr, /*allow_exceptions=*/false);
    if (read.is_object()) *arguments = std::move(read);
  }
}

}  // namespace

ordered_json read_messages(Fields& fields, const Served& served, bool is_whole) {
  const ordered_json* messages = fields.find("messages");
  if (!messages || !messages->is_array() || messages->empty())
    throw Refused(400, "messages: expected a list of messages with at least one", "messages");
  ordered_json row{{"messages", *messages}};
  for (std::size_t i = 0; i < row["messages"].size(); ++i) {
    ordered_json& message = row["messages"][i];
    if (!message.is_object()) throw Refused(400, fmt::format("messages[{}]: expected an object", i), "messages");
    check_message(message, i, served);
    if (!served.place_pictures || !has_pictures(message)) join_parts(message, i);
    read_arguments(message);
  }
  if (!is_whole && text_in(row["messages"].back(), "role") == "assistant")
    throw Refused(400, "messages: the last one is the assistant's; an answer is a turn of its own here", "messages");
  for (const char* name : {"documents", "chat_template_kwargs"})
    if (const ordered_json* value = fields.find(name)) row[name] = *value;
  if (const ordered_json* effort = fields.find("reasoning_effort"))
    row["chat_template_kwargs"]["reasoning_effort"] = *effort;
  return row;
}

namespace {

// An error of the template's says what it is about behind the request's name, as in "the request: tools[0]: …".
std::string param_of(const std::string& message, const ordered_json& row) {
  for (const char* name : {"tools", "documents"})
    if (row.contains(name) && message.find(fmt::format(": {}", name)) != std::string::npos) return name;
  const auto variables = row.find("chat_template_kwargs");
  if (variables == row.end() || message.find(": messages[") != std::string::npos) return "messages";
  const bool is_effort = variables->is_object() && variables->contains("reasoning_effort") &&
                         message.find("reasoning_effort") != std::string::npos;
  if (is_effort) return "reasoning_effort";
  const bool is_of_them = message.find("variables of the template") != std::string::npos ||
                          message.find("chat_template_kwargs") != std::string::npos;
  return is_of_them ? "chat_template_kwargs" : "messages";
}

// Hints are for who runs a program with its options, not for who asks a server.
std::string without_hint(const std::string& message) { return message.substr(0, message.find("\n  hint: ")); }

}  // namespace

ChatPrompt chat_prompt(const ordered_json& row, const Served& served, bool is_whole) try {
  ChatPrompt prompt{.text = is_whole ? served.whole_chat_text(row) : served.chat_text(row), .ids = {}, .pictures = {}};
  const Tokenizer& tokenizer = served.chat_tokenizer ? *served.chat_tokenizer : *served.tokenizer;
  prompt.ids = tokenizer.encode(prompt.text, /*special=*/false).ids;
  if (served.place_pictures) prompt.pictures = served.place_pictures(row, prompt.ids);
  return prompt;
} catch (const Error& error) {
  const std::string message = without_hint(error.what());
  throw Refused(400, message, param_of(message, row));
}

void read_chat_end(Fields& fields) {
  fields.only("add_generation_prompt", {true}, "an answer is a turn of its own here");
  read_last_message(fields);
}

void read_last_message(Fields& fields) {
  fields.only("continue_final_message", {false}, "an answer is a turn of its own here");
}

}  // namespace hone::serve
