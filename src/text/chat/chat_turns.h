// Where the assistant's turns lie in a rendered conversation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text.h"
#include "text/chat/chat_template.h"

namespace hone::text {

using Spans = std::vector<std::pair<std::size_t, std::size_t>>;  // bytes [first, second) of a text, in order

std::vector<bool> assistants(const Chat& chat);  // for each message whether it is the assistant's

// The date that templates get in training data (strftime_now): always the same, so that runs can be repeated.
inline constexpr std::int64_t kTrainingDate = 1'721'952'000;  // 2024-07-26 00:00 UTC

// Where the template has {% generation %} blocks, they say what the assistant wrote. Else a turn is what the model
// writes behind the generation prompt, to the turn's own end. The template says which bytes came from which message
// (jinja/traced.h); what stands between two messages is compared with what it writes there when the turn is asked for,
// and when it is the last one. So it does not matter that a template writes a turn differently once others follow.
class ChatTurns {
 public:
  ChatTurns(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Chat& chat, const std::string& where);
  const jinja::Template::Rendered& whole() const { return whole_; }
  const Encoding& encoding() const { return encoding_; }  // of the whole text, without further special tokens

  // The spans of the chosen messages, which are the assistant's. Throws Error(data) when that cannot be told for sure.
  Spans spans_of(const std::vector<bool>& chosen) const;
  // From the first to the last byte that came from a message; empty where none did.
  std::pair<std::size_t, std::size_t> own_bytes(std::size_t message) const;

 private:
  using Rendered = jinja::Template::Rendered;
  // Where a message's own text lies: from its first to its last byte.
  struct Own {
    std::size_t first, last;  // stretches
    std::size_t begin, end;   // bytes
  };
  Rendered render(const ChatTemplate::Options& options) const;
  Rendered render_part(std::size_t message, std::size_t count, bool prompt) const;
  void append_blocks_of(std::size_t message, Spans& spans) const;
  std::size_t blocks_before(std::size_t message) const;
  std::pair<std::size_t, std::size_t> span_of(std::size_t message) const;
  std::pair<std::size_t, std::size_t> span_without_text(std::size_t message) const;
  Own own_text(std::size_t message) const;
  std::size_t begin_of(std::size_t message, const Own& own) const;
  std::size_t begin_behind_prompt(std::size_t message, const Own& own) const;
  std::size_t end_of(std::size_t message, const Own& own) const;
  std::string asked_behind(std::size_t message, std::string_view otherwise) const;
  std::size_t end_by_another_token(std::size_t from, std::string_view end, std::size_t until) const;
  std::size_t end_of_special(std::size_t from, std::size_t until) const;
  void check_tokens(std::size_t message, std::size_t begin) const;
  [[noreturn]] void fail(std::size_t message, const std::string& fact) const;

  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const Chat& chat_;
  const std::string& where_;
  Rendered whole_;
  Encoding encoding_;
};

}  // namespace hone::text
