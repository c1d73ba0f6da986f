// Comparing what a template wrote with what it was given.
#include "text/chat/chat_printed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "base/option_words.h"
#include "base/strings.h"
#include "hone/error.h"
#include "text/chat/chat_arguments.h"
#include "text/chat/chat_turns.h"
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

constexpr std::string_view kTextMark = "\xEE\x80\x80\xEE\x80\x81";  // characters of private use: they have no case

const Value* text_field(const Value& dict, std::string_view name) {
  const Value* value = dict.dict().find(name);
  return value && value->is(Kind::string) ? value : nullptr;
}

std::string_view bare(std::string_view text) { return jinja::strip(text, std::nullopt); }

// Of parts as text_part and picture_part make them.
bool has_pictures(const Value& parts) {
  return std::any_of(parts.items().begin(), parts.items().end(),
                     [](const Value& part) { return !text_field(part, "text"); });
}

// All that stands in the text of a source.
std::string written_of(const Rendered& rendered, Source source) {
  std::string written;
  for (const jinja::Stretch& one : rendered.origins)
    if (one.source == source) written.append(rendered.text, one.begin, one.end - one.begin);
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

// A copy with `change` of every text in it; the type and id of a call or a part are no texts of the message.
using TextChange = std::function<Value(const Value& text, const std::string& place)>;
Value with_texts_changed(const Value& value, const std::string& place, const TextChange& change) {
  if (value.is(Kind::string)) return change(value, place);
  if (value.is(Kind::list)) {
    Values items;
    for (const Value& item : value.items())
      items.push_back(with_texts_changed(item, fmt::format("{}[{}]", place, items.size()), change));
    return Value::list(std::move(items));
  }
  if (!value.is(Kind::dict)) return value;
  auto changed = std::make_shared<Dict>();
  for (const auto& [key, item] : value.dict().entries())
    changed->set(key, key.bytes() == "type" || key.bytes() == "id"
                          ? item
                          : with_texts_changed(item, place + "." + key.bytes(), change));
  return Value::dict(std::move(changed));
}

// With marks at both ends of what is not blank.
Value with_marks(const Value& text) {
  std::string both = text.bytes();
  const std::string_view inside = bare(both);
  const auto begin = static_cast<std::size_t>(inside.data() - both.data()), size = inside.size();
  both.insert(begin + size, kTextMark).insert(begin, kTextMark);
  return Value::string(std::move(both));
}

class Printed {
 public:
  Printed(const ChatTemplate& chat_template, const Chat& chat, const Rendered& rendered, const std::string& where)
      : template_(chat_template), chat_(chat), rendered_(rendered), where_(where) {}

  void check() const {
    for (std::size_t i = 0; i < chat_.messages.size(); ++i) check_message(i);
    check_variables(template_, chat_, where_);
    check_list(&Chat::tools, "tools", chat_.source_of_tool(0));
    check_list(&Chat::documents, "documents", chat_.source_of_document(0));
  }

 private:
  void check_message(std::size_t i) const {
    const std::string written = written_of(rendered_, Chat::source_of(i));
    bool has_texts = false;
    for (const char* name : {"content", "tool_calls", "function_call"})
      if (const Value* field = chat_.messages[i].dict().find(std::string_view(name)))
        with_texts_changed(*field, fmt::format("messages[{}].{}", i, name),
                           [&](const Value& text, const std::string& place) {
                             if (!content_stands_in(written, text.bytes()) && !passes_marks(i, name, place)) {
                               if (bare(written).empty()) check_role(i);
                               fail(place);
                             }
                             has_texts = has_texts || !bare(text.bytes()).empty();
                             return text;
                           });
    check_reasoning(chat_.messages[i], fmt::format("messages[{}].", i));
    if (!has_texts) check_says_something(chat_.messages[i], written, fmt::format("messages[{}]", i));
  }

  // An empty content is one; none at all, and nothing else that is written, is a name that was not meant. Thinking may
  // be left out.
  void check_says_something(const Value& message, const std::string& written, const std::string& place) const {
    const Value* content = message.dict().find(std::string_view("content"));
    if (content && !(content->is(Kind::list) && content->items().empty())) return;
    if (!bare(written).empty() || text_field(message, "thinking")) return;
    std::vector<std::string> names;
    for (const auto& [key, value] : message.dict().entries()) names.push_back(key.bytes());
    throw Error(ErrorKind::data,
                fmt::format("{}: {}: nothing that the chat template writes; found {}, expected content", where_, place,
                            list_names(names)))
        .hint("a message has its text as content; one without words has \"\"");
  }

  static bool content_stands_in(const std::string& written, const std::string& content) {
    if (stands_in(written, bare(content))) return true;
    const std::size_t thought = content.rfind("</think>");  // a template may drop what comes before
    return thought != std::string::npos && stands_in(written, bare(std::string_view(content).substr(thought + 8)));
  }

  // What a template changes on its way, or writes together with others, is written when marks at its ends are.
  bool passes_marks(std::size_t message, const char* field, const std::string& place) const {
    const Value& old = *chat_.messages[message].dict().find(std::string_view(field));
    const Value marked = with_texts_changed(
        old, fmt::format("messages[{}].{}", message, field),
        [&](const Value& text, const std::string& at) { return at == place ? with_marks(text) : text; });
    Chat chat = chat_;
    chat.messages[message] = with_field(chat.messages[message], field, marked);
    const std::string text = text_of(chat);
    const std::size_t first = text.find(kTextMark);
    return first != std::string::npos && text.find(kTextMark, first + 1) != std::string::npos;
  }

  std::string text_of(const Chat& chat) const {
    try {
      return template_.render(chat, {.now = kTrainingDate}).text;
    } catch (const Error&) {
      return {};
    }
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

  // Of tools and documents, which templates may write as a whole, something must be written of each.
  void check_list(Value Chat::* list, const char* what, Source first) const {
    const Value& all = chat_.*list;
    if (!all.is(Kind::list)) return;
    for (std::size_t i = 0; i < all.items().size(); ++i)
      if (jinja::source_of(all.items()[i]) != 0 && written_of(rendered_, first + static_cast<Source>(i)).empty() &&
          !passes_any_mark(list, i))
        fail(fmt::format("{}[{}]", what, i));
  }

  bool passes_any_mark(Value Chat::* list, std::size_t which) const {
    Values items = (chat_.*list).items();
    items[which] =
        with_texts_changed(items[which], "", [](const Value& text, const std::string&) { return with_marks(text); });
    Chat chat = chat_;
    chat.*list = Value::list(std::move(items));
    return text_of(chat).find(kTextMark) != std::string::npos;
  }

  // Of a turn that is left out whole: what a template leaves out is most often a role that it does not know.
  void check_role(std::size_t i) const {
    static const std::vector<std::string> kRoles{"assistant", "developer", "system", "tool", "user"};
    const Value* role = chat_.messages[i].dict().find(std::string_view("role"));
    if (!role || !role->is(Kind::string)) return;
    const std::string& name = role->bytes();
    if (std::find(kRoles.begin(), kRoles.end(), name) != kRoles.end()) return;
    const std::string near = nearest(to_lower(name), kRoles);
    throw Error(ErrorKind::data,
                fmt::format("{}: messages[{}].role: got {}, of which the chat template writes nothing; expected a role "
                            "that it knows, as system, user or assistant",
                            where_, i, hone::quoted(name)))
        .hint(near.empty() ? fmt::format("rename it, or choose another template ({})",
                                         option_words("data.chat_template"))
                           : fmt::format("did you mean {}?", near));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::data, fmt::format("{}: {}: the chat template does not write it", where_, what))
        .hint(fmt::format("choose another template ({}), or leave the field out of the data",
                          option_words("data.chat_template")));
  }

  const ChatTemplate& template_;
  const Chat& chat_;
  const Rendered& rendered_;
  const std::string& where_;
};

// A part that stands for a picture which is there.
bool is_picture(const Value& part) {
  return part.is(Kind::dict) && part.dict().find(kPlacedPicture) != nullptr;
}

Value picture_part() {
  auto dict = std::make_shared<Dict>();
  dict->set("type", Value::string("image"));
  return Value::dict(std::move(dict));
}

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
    const Value* text = text_field(part, "text");
    if (text && written.find(bare(text->bytes())) == std::string::npos) return false;
    for (const std::string& data : {jinja::to_repr(part), jinja::to_json(part, {})})
      if (written.find(data) != std::string::npos) return false;
  }
  return true;
}

const Value& content_of(const Chat& chat, std::size_t message) {
  return *chat.messages[message].dict().find(std::string_view("content"));
}

// Makes contents that are lists the parts that templates know; which messages these are.
std::vector<std::size_t> made_parts(Chat& chat, const std::string& where) {
  std::vector<std::size_t> lists;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    const Value* content = chat.messages[i].dict().find(std::string_view("content"));
    if (!content || !content->is(Kind::list)) continue;
    Values parts;
    for (const Value& part : content->items())
      parts.push_back(is_picture(part) ? picture_part()
                                       : text_part(part, fmt::format("{}: messages[{}].content[{}]", where, i,
                                                                     parts.size())));
    chat.messages[i] = with_field(chat.messages[i], "content", Value::list(std::move(parts)));
    lists.push_back(i);
  }
  return lists;
}

// But where there are pictures among them.
Chat with_parts_joined(Chat chat, const std::vector<std::size_t>& messages) {
  for (const std::size_t i : messages)
    if (!has_pictures(content_of(chat, i)))
      chat.messages[i] = with_field(chat.messages[i], "content", joined(content_of(chat, i)));
  return chat;
}

}  // namespace

Chat chat_for(const ChatTemplate& chat_template, const Conversation& conversation, const std::string& where) {
  Chat chat = Chat::from(conversation, where);
  const std::vector<std::size_t> lists = made_parts(chat, where);
  std::optional<Chat> opened = with_arguments_opened(chat);
  if (lists.empty() && !opened) return chat;
  const auto render = [&](const Chat& given) -> std::optional<Rendered> {
    try {
      return chat_template.render(given, {.now = kTrainingDate});
    } catch (const Error&) {  // it may take texts only
      return std::nullopt;
    }
  };
  if (opened) {
    const std::optional<Rendered> object = render(with_parts_joined(*opened, lists));
    const bool wants_strings = !object || are_printed(*opened, object->text);
    if (wants_strings && render(with_parts_joined(chat, lists))) opened.reset();
  }
  if (opened) chat = std::move(*opened);
  if (lists.empty()) return chat;
  const std::optional<Rendered> rendered = render(chat);
  std::vector<std::size_t> unread;
  for (const std::size_t i : lists) {
    if (rendered && takes_parts(*rendered, i, content_of(chat, i))) continue;
    unread.push_back(i);
    if (rendered && has_pictures(content_of(chat, i)))
      throw Error(ErrorKind::data,
                  fmt::format("{}: messages[{}].content: the chat template does not write its parts, of which some are "
                              "pictures",
                              where, i))
          .hint(option_words("data.chat_template") + " is a template of a model that reads pictures");
  }
  return with_parts_joined(std::move(chat), unread);
}

void check_variables(const ChatTemplate& chat_template, const Chat& chat, const std::string& where) {
  for (const auto& [name, value] : chat.variables) {
    if (chat_template.variables(chat).contains(name)) continue;
    const std::vector<std::string> read = chat_template.free_variables(chat);
    throw Error(ErrorKind::data, fmt::format("{}: variables of the template: it has none named {}; it reads {}", where,
                                             name, read.empty() ? "none" : list_names(read)))
        .hint(fmt::format("leave it out, or choose another template ({})", option_words("data.chat_template")));
  }
}

void check_printed(const ChatTemplate& chat_template, const Chat& chat, const Rendered& rendered,
                   const std::string& where) {
  Printed(chat_template, chat, rendered, where).check();
}

std::string prompt_text(const ChatTemplate& chat_template, const Conversation& conversation, const std::string& where,
                        std::int64_t now, bool begins_answer) {
  const Chat chat = chat_for(chat_template, conversation, where);
  const auto rendered = chat_template.render(chat, {.generation_prompt = begins_answer, .now = now});
  check_printed(chat_template, chat, rendered, where);
  return rendered.text;
}

}  // namespace hone::text
