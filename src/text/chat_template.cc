// Finding chat templates in a tokenizer's files, and preparing conversations as transformers does.
#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/jinja/fault.h"
#include "text/jinja/print.h"

namespace hone::text {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;
using jinja::Values;

constexpr std::array<const char*, 7> kSpecialTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                       "pad_token", "cls_token", "mask_token"};
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

Value prepared(const Value& message) {
  const Dict& from = message.dict();
  const Value* reasoning = nullptr;
  for (const char* name : kReasoning)
    if (!reasoning) reasoning = known(from, name);
  auto to = std::make_shared<Dict>();
  if (reasoning) to->set("thinking", *reasoning);
  for (const auto& [key, value] : from.entries())
    if (!value.is(Kind::none)) to->set(key, value);
  if (reasoning) to->set("reasoning_content", *reasoning);
  return Value::dict(std::move(to));
}

const std::string* file(const Tokenizer& tokenizer, std::string_view name) {
  for (const auto& [known, content] : tokenizer.files)
    if (known == name) return &content;
  return nullptr;
}

// tokenizer.json was read before, so were these: they hold JSON.
nlohmann::json json_file(const Tokenizer& tokenizer, const char* name) {
  const std::string* content = file(tokenizer, name);
  return content ? nlohmann::json::parse(*content) : nlohmann::json::object();
}

}  // namespace

Chat Chat::from(const Conversation& conversation, const std::string& where) {
  Chat chat;
  const Value messages = parse_list(conversation.messages, where + ": messages");
  if (!messages.is(Kind::list) || messages.items().empty())
    throw Error(ErrorKind::data, where + ": a conversation without messages");
  for (const Value& message : messages.items()) chat.messages.push_back(prepared(message));
  chat.tools = parse_list(conversation.tools, where + ": tools");
  chat.documents = parse_list(conversation.documents, where + ": documents");
  if (conversation.variables.empty()) return chat;
  const Value variables = parse(conversation.variables, where + ": variables of the template");
  if (!variables.is(Kind::dict))
    throw Error(ErrorKind::data, where + ": variables of the template: expected an object");
  for (const auto& [key, value] : variables.dict().entries()) chat.variables.emplace_back(key.bytes(), value);
  return chat;
}

SpecialTokens special_tokens_of(const Tokenizer& tokenizer) {
  const std::array<nlohmann::json, 2> files = {json_file(tokenizer, "tokenizer_config.json"),
                                               json_file(tokenizer, "special_tokens_map.json")};
  SpecialTokens tokens;
  for (const char* name : kSpecialTokens)
    for (const nlohmann::json& file : files) {
      const auto found = file.find(name);
      if (found == file.end() || found->is_null()) continue;
      const nlohmann::json& text = found->is_object() ? found->at("content") : *found;
      if (text.is_string()) tokens.emplace_back(name, text.get<std::string>());
      break;
    }
  return tokens;
}

ChatTemplate::ChatTemplate(std::string_view source, std::string name, SpecialTokens tokens)
    : default_(std::make_shared<jinja::Template>(source, std::move(name))), tokens_(std::move(tokens)) {}

std::shared_ptr<const ChatTemplate> ChatTemplate::of(const Tokenizer& tokenizer) {
  const SpecialTokens tokens = special_tokens_of(tokenizer);
  if (const std::string* source = file(tokenizer, "chat_template.jinja"))
    return std::make_shared<ChatTemplate>(*source, "chat_template.jinja", tokens);
  const nlohmann::json config = json_file(tokenizer, "tokenizer_config.json");
  const auto found = config.find("chat_template");
  const std::string where = "tokenizer_config.json: chat_template";
  if (found == config.end() || found->is_null()) return nullptr;
  if (found->is_string()) return std::make_shared<ChatTemplate>(found->get<std::string>(), where, tokens);
  std::string names;
  std::shared_ptr<ChatTemplate> made;
  std::shared_ptr<const jinja::Template> tool_use;
  if (found->is_array())
    for (const auto& one : *found) {
      const std::string name = one.is_object() ? one.value("name", "") : "",
                        source = name.empty() ? "" : one.value("template", "");
      names += (names.empty() ? "" : ", ") + name;
      if (name == "default") made = std::make_shared<ChatTemplate>(source, where + ": default", tokens);
      if (name == "tool_use") tool_use = std::make_shared<jinja::Template>(source, where + ": tool_use");
    }
  if (!made) throw Error(ErrorKind::config, fmt::format("{}: no template named default; found {}", where, names));
  made->tool_use_ = std::move(tool_use);
  return made;
}

const jinja::Template& ChatTemplate::choose(const Chat& chat) const {
  return tool_use_ && !chat.tools.is(Kind::none) ? *tool_use_ : *default_;
}

bool ChatTemplate::mentions(std::string_view word) const {
  return default_->source().find(word) != std::string::npos ||
         (tool_use_ && tool_use_->source().find(word) != std::string::npos);
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
