// Choosing a template, and preparing conversations as transformers does.
#include "text/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/option_words.h"
#include "base/strings.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"
#include "text/jinja/traced.h"

namespace hone::text {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;
using jinja::Values;

// What a message's reasoning is passed under; templates read the first, or `thinking`.
constexpr std::array<const char*, 3> kReasoning = {"reasoning_content", "thinking", "reasoning"};

Value parse(const std::string& text, const std::string& where) {
  try {
    return jinja::from_json(text, where);
  } catch (const jinja::Fault& fault) {
    throw Error(ErrorKind::data, fault.message);
  }
}

// A list of objects, as JSON text; "" and null give None.
Value parse_list(const std::string& text, const std::string& where) {
  if (text.empty()) return Value();
  Value value = parse(text, where);
  if (value.is(Kind::none)) return value;
  if (!value.is(Kind::list))
    throw Error(ErrorKind::data, fmt::format("{}: got {}, expected a list", where, jinja::type_name(value)));
  for (std::size_t i = 0; i < value.items().size(); ++i)
    if (!value.items()[i].is(Kind::dict))
      throw Error(ErrorKind::data,
                  fmt::format("{}[{}]: got {}, expected an object", where, i, jinja::type_name(value.items()[i])));
  return value;
}

const Value* known(const Dict& message, const char* name) {
  const Value* value = message.find(std::string_view(name));
  return value && !value->is(Kind::none) ? value : nullptr;
}

// The role stands in what the template writes around a text: it is no text of the message.
Value marked_message(const Value& message, jinja::Source source) {
  auto to = std::make_shared<Dict>();
  for (const auto& [key, value] : message.dict().entries())
    to->set(key, key.is(Kind::string) && key.bytes() == "role" ? value : jinja::marked(value, source));
  return Value::dict(std::move(to));
}

Value prepared(const Value& message) {
  const Dict& from = message.dict();
  const Value* reasoning = nullptr;
  for (const char* name : kReasoning)
    if (!reasoning) reasoning = known(from, name);
  auto to = std::make_shared<Dict>();
  if (reasoning) to->set("thinking", *reasoning);
  for (const auto& [key, value] : from.entries())
    if (!value.is(Kind::none) && key.bytes() != kPartsField) to->set(key, value);
  if (reasoning) to->set("reasoning_content", *reasoning);
  return Value::dict(std::move(to));
}

// What apply_chat_template takes as its own argument, and so never reaches a template as a variable.
constexpr std::array<const char*, 15> kArguments = {"conversation",
                                                    "messages",
                                                    "tools",
                                                    "documents",
                                                    "chat_template",
                                                    "add_generation_prompt",
                                                    "continue_final_message",
                                                    "tokenize",
                                                    "padding",
                                                    "truncation",
                                                    "max_length",
                                                    "return_tensors",
                                                    "return_dict",
                                                    "return_assistant_tokens_mask",
                                                    "tokenizer_kwargs"};

bool is_argument(const std::string& name) {
  return std::find(kArguments.begin(), kArguments.end(), name) != kArguments.end();
}

// False is what they are without being said.
void check_argument(const std::string& name, const Value& value, const std::string& where) {
  if (value.is(Kind::none) || (value.is(Kind::boolean) && !value.as_bool())) return;
  throw Error(ErrorKind::data, fmt::format("{}: variables of the template: {} is none of them; got {}, expected "
                                           "nothing", where, name, jinja::to_repr(value)))
      .hint("leave it out: conversations to learn from end with an answer, and hone generate adds the prompt itself");
}

}  // namespace

Chat Chat::from(const Conversation& conversation, const std::string& where) {
  Chat chat;
  const Value messages = parse_list(conversation.messages, where + ": messages");
  if (!messages.is(Kind::list) || messages.items().empty())
    throw Error(ErrorKind::data, where + ": a conversation without messages");
  for (const Value& message : messages.items()) {
    const Value marked = marked_message(message, source_of(chat.messages.size()));
    chat.parts.push_back(parts_of(marked, fmt::format("{}: messages[{}]", where, chat.messages.size())));
    chat.messages.push_back(prepared(marked));
  }
  const auto marked_list = [&](const std::string& text, const std::string& what, jinja::Source source) {
    const Value list = parse_list(text, where + what);
    if (!list.is(Kind::list)) return list;
    Values items;
    for (const Value& item : list.items()) items.push_back(jinja::marked(item, source++));
    return Value::list(std::move(items));
  };
  chat.tools = marked_list(conversation.tools, ": tools", chat.source_of_tool(0));
  chat.documents = marked_list(conversation.documents, ": documents", chat.source_of_document(0));
  if (conversation.variables.empty()) return chat;
  const Value variables = parse(conversation.variables, where + ": variables of the template");
  if (!variables.is(Kind::dict))
    throw Error(ErrorKind::data, where + ": variables of the template: expected an object");
  for (const auto& [key, value] : variables.dict().entries()) {
    if (is_argument(key.bytes()))
      check_argument(key.bytes(), value, where);
    else
      chat.variables.emplace_back(key.bytes(), value);
  }
  return chat;
}

Value with_field(const Value& dict, std::string_view name, Value value) {
  auto changed = std::make_shared<Dict>();
  for (const auto& [key, old] : dict.dict().entries()) changed->set(key, old);
  changed->set(name, std::move(value));
  return Value::dict(std::move(changed));
}

jinja::Source Chat::source_of_document(std::size_t document) const {
  return source_of_tool((tools.is(Kind::list) ? tools.items().size() : 0) + document);
}

ChatTemplate::ChatTemplate(std::string_view source, std::string name, SpecialTokens tokens)
    : default_(std::make_shared<jinja::Template>(source, std::move(name))),
      variables_(default_->variables()),
      tokens_(std::move(tokens)) {}

std::shared_ptr<const ChatTemplate> ChatTemplate::of(const Tokenizer& tokenizer) {
  std::shared_ptr<ChatTemplate> made;
  std::shared_ptr<const jinja::Template> tool_use;
  std::vector<std::string> names;
  for (const auto& [name, where, source] : template_sources(tokenizer)) {
    names.push_back(name);
    if (name == "default") made = std::make_shared<ChatTemplate>(source, where, special_tokens_of(tokenizer));
    if (name == "tool_use") tool_use = std::make_shared<jinja::Template>(source, where);
  }
  if (names.empty()) return nullptr;
  if (!made)
    throw Error(ErrorKind::config, "chat template of the tokenizer: none is named default; found " + join(names, ", "))
        .hint("choose one of these names by " + option_words("data.chat_template"));
  made->tool_use_ = std::move(tool_use);
  if (made->tool_use_) made->tool_use_variables_ = made->tool_use_->variables();
  return made;
}

const jinja::Template& ChatTemplate::choose(const Chat& chat) const {
  return tool_use_ && !chat.tools.is(Kind::none) ? *tool_use_ : *default_;
}

std::vector<std::string> ChatTemplate::free_variables(const Chat& chat) const {
  std::vector<std::string> names;
  for (const std::string& name : variables(chat)) {
    const auto is_its = [&](const auto& token) { return token.first == name; };
    const bool is_token = name.ends_with("_token") || std::any_of(tokens_.begin(), tokens_.end(), is_its);
    if (!is_token && !is_argument(name)) names.push_back(name);
  }
  return names;
}

bool ChatTemplate::mentions(std::string_view word) const {
  return default_->source().find(word) != std::string::npos ||
         (tool_use_ && tool_use_->source().find(word) != std::string::npos);
}

std::optional<std::int32_t> ChatTemplate::turn_end(const Tokenizer& tokenizer, const std::string& variables) const {
  const std::string_view answer = "an answer";
  const char* messages =
      R"([{"role": "user", "content": "a question"}, {"role": "assistant", "content": "an answer"}])";
  try {
    const std::string text = render(Chat::from({messages, "", "", variables, -1}, "a sample"), {}).text;
    const std::size_t at = text.rfind(answer);
    if (at == std::string::npos) return std::nullopt;
    const Encoding rest = tokenizer.encode(text.substr(at + answer.size()), false);
    if (!rest.ids.empty() && tokenizer.is_special(rest.ids[0])) return rest.ids[0];
  } catch (const Error&) {  // a template that wants other conversations
  }
  return std::nullopt;
}

jinja::Template::Rendered ChatTemplate::render(const Chat& chat, const Options& options) const {
  Dict variables;
  for (const auto& [name, text] : tokens_) variables.set(name, Value::string(text));
  for (const auto& [name, value] : chat.variables) variables.set(name, value);
  const auto count = static_cast<std::ptrdiff_t>(std::min(options.messages, chat.messages.size()));
  variables.set("messages", Value::list(Values(chat.messages.begin(), chat.messages.begin() + count)));
  variables.set("tools", chat.tools);
  variables.set("documents", chat.documents);
  variables.set("add_generation_prompt", Value::boolean(options.generation_prompt));
  return choose(chat).render(variables, options.now, options.limits);
}

}  // namespace hone::text
