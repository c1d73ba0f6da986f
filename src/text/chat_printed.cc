// Comparing what a template wrote with what it was given.
#include "text/chat_printed.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "hone/error.h"
#include "text/chat_turns.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace hone::text {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Source;
using jinja::Value;
using jinja::Values;
using Rendered = jinja::Template::Rendered;

constexpr std::string_view kMark = "\xEE\x80\x80\xEE\x80\x81";  // characters of private use: they have no case

const Value* text_field(const Value& dict, std::string_view name) {
  const Value* value = dict.dict().find(name);
  return value && value->is(Kind::string) ? value : nullptr;
}

std::string_view bare(std::string_view text) { return jinja::strip(text, std::nullopt); }

// All that stands in the text of a source, or of several.
std::string written_of(const Rendered& rendered, Source source) {
  std::string written;
  for (const jinja::Stretch& one : rendered.origins)
    if (one.source == source || one.source == jinja::kMixed)
      written.append(rendered.text, one.begin, one.end - one.begin);
  return written;
}

std::string json_inside(std::string_view text, bool ensure_ascii) {
  jinja::JsonForm form;
  form.ensure_ascii = ensure_ascii;
  const std::string json = jinja::to_json(Value::string(std::string(text)), form);
  return json.substr(1, json.size() - 2);
}

// As it is, as a part of JSON, or as Python writes it in a list.
bool stands_in(const std::string& written, std::string_view text) {
  if (text.empty() || written.find(text) != std::string::npos) return true;
  if (written.find(json_inside(text, false)) != std::string::npos) return true;
  if (written.find(json_inside(text, true)) != std::string::npos) return true;
  const std::string repr = jinja::repr_of(text);
  return written.find(std::string_view(repr).substr(1, repr.size() - 2)) != std::string::npos;
}

Value with_field(const Value& dict, std::string_view name, Value value) {
  auto changed = std::make_shared<Dict>();
  for (const auto& [key, old] : dict.dict().entries()) changed->set(key, old);
  changed->set(name, std::move(value));
  return Value::dict(std::move(changed));
}

class Printed {
 public:
  Printed(const ChatTemplate& chat_template, const Chat& chat, const Rendered& rendered, const std::string& where)
      : template_(chat_template), chat_(chat), rendered_(rendered), where_(where) {}

  void check() const {
    for (std::size_t i = 0; i < chat_.messages.size(); ++i) check_message(i);
    check_list(chat_.tools, "tools", [&](std::size_t i) { return chat_.source_of_tool(i); });
    check_list(chat_.documents, "documents", [&](std::size_t i) { return chat_.source_of_document(i); });
  }

 private:
  void check_message(std::size_t i) const {
    const Value& message = chat_.messages[i];
    const std::string written = written_of(rendered_, Chat::source_of(i));
    const std::string place = fmt::format("messages[{}].", i);
    if (const Value* content = message.dict().find(std::string_view("content"))) {
      if (content->is(Kind::string) && !content_stands_in(written, content->bytes()) && !passes_marks(i, *content))
        fail(place + "content");
      if (!content->is(Kind::string)) check_leaves(*content, written, place + "content");
    }
    if (const Value* calls = message.dict().find(std::string_view("tool_calls")))
      check_leaves(*calls, written, place + "tool_calls");
    check_reasoning(message, place);
  }

  static bool content_stands_in(const std::string& written, const std::string& content) {
    if (stands_in(written, bare(content))) return true;
    const std::size_t thought = content.rfind("</think>");  // a template may drop what comes before
    return thought != std::string::npos && stands_in(written, bare(std::string_view(content).substr(thought + 8)));
  }

  // What a template changes on its way is still written when marks at its ends are.
  bool passes_marks(std::size_t message, const Value& content) const {
    const std::string& text = content.bytes();
    const std::string_view inside = bare(text);
    const auto begin = static_cast<std::size_t>(inside.data() - text.data());
    std::string both = text;
    both.insert(begin + inside.size(), kMark).insert(begin, kMark);
    Chat chat = chat_;
    chat.messages[message] = with_field(chat.messages[message], "content", Value::string(std::move(both)));
    try {
      const std::string changed = template_.render(chat, {.now = kTrainingDate}).text;
      const std::size_t first = changed.find(kMark);
      return first != std::string::npos && changed.find(kMark, first + 1) != std::string::npos;
    } catch (const Error&) {
      return false;
    }
  }

  // Every text in lists and objects; the type of a call or a part is no text of the message.
  void check_leaves(const Value& value, const std::string& written, const std::string& place) const {
    if (value.is(Kind::string) && !stands_in(written, bare(value.bytes()))) fail(place);
    if (value.is(Kind::list))
      for (std::size_t i = 0; i < value.items().size(); ++i)
        check_leaves(value.items()[i], written, fmt::format("{}[{}]", place, i));
    if (value.is(Kind::dict))
      for (const auto& [key, item] : value.dict().entries())
        if (key.bytes() != "type" && key.bytes() != "id") check_leaves(item, written, place + "." + key.bytes());
  }

  void check_reasoning(const Value& message, const std::string& place) const {
    constexpr std::array<const char*, 3> kNames = {"reasoning_content", "thinking", "reasoning"};
    for (const char* name : kNames) {
      const Value* text = text_field(message, name);
      if (!text || bare(text->bytes()).empty()) continue;
      for (const char* known : kNames)
        if (template_.mentions(known)) return;
      fail(place + name);
    }
  }

  template <class SourceOf>
  void check_list(const Value& list, const char* what, const SourceOf& source_of) const {
    if (!list.is(Kind::list)) return;
    for (std::size_t i = 0; i < list.items().size(); ++i)
      if (source_of_texts(list.items()[i]) && written_of(rendered_, source_of(i)).empty())
        fail(fmt::format("{}[{}]", what, i));
  }
  static bool source_of_texts(const Value& value) { return jinja::source_of(value) != 0; }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::data, fmt::format("{}: {}: the chat template does not write it", where_, what))
        .hint("choose another template (chat_template), or leave the field out of the data");
  }

  const ChatTemplate& template_;
  const Chat& chat_;
  const Rendered& rendered_;
  const std::string& where_;
};

// A part as templates know it: {"type": "text", "text": ...}.
Value text_part(const Value& part, const std::string& place) {
  const auto made = [](const Value& text) {
    auto dict = std::make_shared<Dict>();
    dict->set("type", Value::string("text"));
    dict->set("text", text);
    return Value::dict(std::move(dict));
  };
  if (part.is(Kind::string)) return made(part);
  if (part.is(Kind::dict)) {
    const Value* type = text_field(part, "type");
    for (const char* name : {"text", "value"})
      if (const Value* text = text_field(part, name); text && (!type || type->bytes() == "text")) return made(*text);
    if (type)
      throw Error(ErrorKind::data, fmt::format("{}: a part of the type {}; expected one of the type 'text'", place,
                                               jinja::to_repr(*type)));
  }
  throw Error(ErrorKind::data, place + ": expected a text, or a part of the type 'text' with its text");
}

Value joined(const Value& parts) {
  jinja::Traced all;
  for (const Value& part : parts.items()) all.add(*text_field(part, "text"));
  return jinja::to_value(std::move(all));
}

// The template writes each part's text as it is, and no part as data.
bool takes_parts(const Rendered& rendered, std::size_t message, const Value& parts) {
  const std::string written = written_of(rendered, Chat::source_of(message));
  for (const Value& part : parts.items()) {
    if (written.find(bare(text_field(part, "text")->bytes())) == std::string::npos) return false;
    for (const std::string& data : {jinja::to_repr(part), jinja::to_json(part, {})})
      if (written.find(data) != std::string::npos) return false;
  }
  return true;
}

}  // namespace

Chat with_texts(const ChatTemplate& chat_template, Chat chat, const std::string& where) {
  std::vector<std::size_t> lists;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    const Value* content = chat.messages[i].dict().find(std::string_view("content"));
    if (!content || !content->is(Kind::list)) continue;
    Values parts;
    for (const Value& part : content->items())
      parts.push_back(text_part(part, fmt::format("{}: messages[{}].content[{}]", where, i, parts.size())));
    chat.messages[i] = with_field(chat.messages[i], "content", Value::list(std::move(parts)));
    lists.push_back(i);
  }
  if (lists.empty()) return chat;
  std::optional<Rendered> rendered;
  try {
    rendered = chat_template.render(chat, {.now = kTrainingDate});
  } catch (const Error&) {  // it may take texts only
  }
  for (const std::size_t i : lists) {
    const Value parts = *chat.messages[i].dict().find(std::string_view("content"));
    if (!rendered || !takes_parts(*rendered, i, parts))
      chat.messages[i] = with_field(chat.messages[i], "content", joined(parts));
  }
  return chat;
}

void check_printed(const ChatTemplate& chat_template, const Chat& chat, const Rendered& rendered,
                   const std::string& where) {
  Printed(chat_template, chat, rendered, where).check();
}

}  // namespace hone::text
