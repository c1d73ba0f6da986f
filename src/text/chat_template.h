// A tokenizer's chat template: which one it is, and what transformers' apply_chat_template gives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/text.h"
#include "text/jinja/template.h"

namespace hone::text {

// A conversation as a template sees it: messages without null fields, reasoning under all of its names.
struct Chat {
  jinja::Values messages;         // dicts
  jinja::Value tools, documents;  // lists, or None
  std::vector<std::pair<std::string, jinja::Value>> variables;

  // Throws Error(data) that begins with `where`.
  static Chat from(const Conversation& conversation, const std::string& where);
};

using SpecialTokens = std::vector<std::pair<std::string, std::string>>;  // "bos_token", its text; ...
SpecialTokens special_tokens_of(const Tokenizer& tokenizer);

// Immutable: any thread may call any member.
class ChatTemplate {
 public:
  // What the tokenizer's files hold: chat_template.jinja, else chat_template in tokenizer_config.json (one, or a list
  // of named ones); nullptr: none. Throws Error(config) for one that does not parse.
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
  const std::string& name(const Chat& chat) const { return choose(chat).name(); }
  bool mentions(std::string_view word) const;  // anywhere in its text

 private:
  // With tools the template named tool_use, if there is one.
  const jinja::Template& choose(const Chat& chat) const;
  std::shared_ptr<const jinja::Template> default_, tool_use_;
  SpecialTokens tokens_;
};

}  // namespace hone::text
