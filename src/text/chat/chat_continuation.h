// How a conversation goes on behind a turn that the model has written itself.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "text/chat/chat_template.h"

namespace hone::text {

// What the model reads next is its own tokens, as they are, and behind them what the template writes: the end of the
// turn where the model has not written it, the messages that follow, and what asks for the next turn. It is taken from
// a small conversation of which the turn is the second message, so that it does not matter what the template makes of
// turns that are no longer the last one. Immutable: any thread may call any member.
class ChatContinuation {
 public:
  ChatContinuation(std::shared_ptr<const ChatTemplate> chat_template, std::shared_ptr<const Tokenizer> tokenizer);

  // messages: a list of those that follow, without the assistant's. ended_by: the turn's last token. prompt: what the
  // model read first; turns begin as it has begun the first one. Throws Error(data) that begins with `where` for what
  // the template does not write, or where the turn's end is not to be found.
  std::string text(const nlohmann::ordered_json& messages, std::int32_t ended_by, const std::string& prompt,
                   const std::string& where) const;

 private:
  jinja::Template::Rendered rendered(const nlohmann::ordered_json& messages, bool with_calls,
                                     const std::string& where) const;
  jinja::Template::Rendered rendered(const nlohmann::ordered_json& messages, const std::string& where) const;
  std::size_t end_of_turn(const jinja::Template::Rendered& rendered, std::int32_t ended_by,
                          const std::string& where) const;
  std::string asking_in(const std::string& prompt) const;

  std::shared_ptr<const ChatTemplate> template_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<std::int32_t> turn_end_;
  // What the template writes where a turn of the assistant begins, and the first token of that where it is special.
  std::string turn_end_text_, asking_, mark_;
};

}  // namespace hone::text
