// A tokenizer's chat template: which one it is, and what transformers' apply_chat_template gives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text.h"
#include "text/chat/chat_parts.h"
#include "text/jinja/template.h"
#include "text/tokenizer/template_files.h"

namespace hone::text {

// A conversation as a template sees it: messages without null fields, reasoning under all of its names.
struct Chat {
  jinja::Values messages;         // dicts
  jinja::Value tools, documents;  // lists, or None
  std::vector<std::pair<std::string, jinja::Value>> variables;
  std::vector<std::vector<MessagePart>> parts;  // of each message; empty: it says nothing of parts

  // What the texts of a message, a tool or a document are marked with, but for roles (jinja/traced.h).
  static jinja::Source source_of(std::size_t message) { return static_cast<jinja::Source>(message) + 1; }
  jinja::Source source_of_tool(std::size_t tool) const { return source_of(messages.size() + tool); }
  jinja::Source source_of_document(std::size_t document) const;

  // Throws Error(data) that begins with `where`.
  static Chat from(const Conversation& conversation, const std::string& where);
};

// A copy of a dict, such as a message, with this value under the name.
jinja::Value with_field(const jinja::Value& dict, std::string_view name, jinja::Value value);

// Immutable: any thread may call any member.
class ChatTemplate {
 public:
  // The one named default of the tokenizer's, and tool_use for conversations with tools if there is one; nullptr: it
  // has none. Throws Error(config) for one that does not parse.
  static std::shared_ptr<const ChatTemplate> of(const Tokenizer& tokenizer);
  ChatTemplate(std::string_view source, std::string name, SpecialTokens tokens);

  struct Options {
    bool generation_prompt = false;
    std::int64_t now = 0;             // for strftime_now: seconds since 1970
    std::size_t messages = SIZE_MAX;  // only the first so many
    jinja::Limits limits = {};
  };
  // Throws Error(data): what the template raises.
  jinja::Template::Rendered render(const Chat& chat, const Options& options) const;

  bool tracks_generation(const Chat& chat) const { return choose(chat).tracks_generation(); }
  // The special token that ends a turn of the assistant; nullopt where there is none, or where the template takes no
  // conversation of a question and an answer. variables: of the template, a JSON object; "" = none.
  std::optional<std::int32_t> turn_end(const Tokenizer& tokenizer, const std::string& variables = "") const;
  const std::string& name(const Chat& chat) const { return choose(chat).name(); }
  bool mentions(std::string_view word) const;  // anywhere in its text
  // The names that it reads, of which some it always has: `messages`, the tokens, and so on.
  const std::set<std::string>& variables(const Chat& chat) const {
    return &choose(chat) == default_.get() ? variables_ : tool_use_variables_;
  }
  std::vector<std::string> free_variables(const Chat& chat) const;  // but for those
  bool has_one_for_tools() const { return tool_use_ != nullptr; }

 private:
  // With tools the template named tool_use, if there is one.
  const jinja::Template& choose(const Chat& chat) const;
  std::shared_ptr<const jinja::Template> default_, tool_use_;
  std::set<std::string> variables_, tool_use_variables_;
  SpecialTokens tokens_;
};

}  // namespace hone::text
