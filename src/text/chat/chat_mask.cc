// The tokens of a conversation that its learnt turns make.
#include "text/chat/chat_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/option_words.h"
#include "hone/error.h"
#include "text/chat/chat_printed.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

std::vector<bool> chosen_messages(const Chat& chat, Learnt learnt, const Conversation& conversation,
                                  const std::string& where) {
  if (learnt == Learnt::completion && conversation.prompt < 0)
    throw Error(ErrorKind::data, where + ": loss completion, but the conversation has no prompt and completion")
        .hint(fmt::format("use {} or {}", option_words("data.loss", "last"), option_words("data.loss", "assistant")));
  std::vector<bool> chosen = assistants(chat);
  const auto last = static_cast<std::size_t>(std::find(chosen.rbegin(), chosen.rend(), true).base() - chosen.begin());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (learnt == Learnt::completion && i < static_cast<std::size_t>(conversation.prompt)) chosen[i] = false;
    if (learnt == Learnt::last && i + 1 != last) chosen[i] = false;
  }
  return chosen;
}

bool is_blank(std::string_view text) { return jinja::strip(text, std::nullopt).empty(); }

using TokenRange = std::pair<std::size_t, std::size_t>;  // tokens [first, second)

// What follows the token that ends a turn is not the model's to write: white space there is not learnt.
TokenRange without_blank_end(TokenRange range, const Encoding& encoding, const Tokenizer& tokenizer,
                             std::string_view text) {
  std::size_t special = range.second;
  while (special > range.first && !tokenizer.is_special(encoding.ids[special - 1])) --special;
  if (special == range.first) return range;
  for (std::size_t i = special; i < range.second; ++i) {
    const auto [begin, end] = encoding.offsets[i];
    if (!is_blank(text.substr(begin, end - begin))) return range;
  }
  return {range.first, special};
}

// The tokens of each span that is not empty.
std::vector<TokenRange> ranges_of(const Encoding& encoding, std::string_view text, const Spans& spans,
                                  const std::string& where) {
  std::vector<TokenRange> ranges;
  std::size_t from = 0;
  const auto holding = [&](std::size_t byte) -> TokenRange {  // the tokens that hold this character
    std::size_t stop = byte;
    next_code_point(text, stop);
    const auto holds = [&](std::size_t i) {
      return encoding.offsets[i].first < stop && encoding.offsets[i].second > byte;
    };
    std::size_t first = from;
    while (first < encoding.ids.size() && !holds(first)) ++first;
    if (first == encoding.ids.size())
      throw Error(ErrorKind::data, fmt::format("{}: cannot tell which tokens are the assistant's: no token holds the "
                                               "character at byte {} of the rendered text",
                                               where, byte));
    std::size_t end = first + 1;
    while (end < encoding.ids.size() && holds(end)) ++end;
    return {first, end};
  };
  std::size_t previous = 0;
  for (const auto& [begin, end] : spans) {
    if (begin == end) continue;
    std::size_t last = end - 1;
    while (last > begin && is_continuation(text[last])) --last;
    if (begin < std::exchange(previous, begin)) from = 0;  // a block around others comes after them
    ranges.emplace_back(holding(begin).first, 0);
    from = ranges.back().first;
    ranges.back().second = holding(last).second;
  }
  return ranges;
}

bool is_end(const Tokenizer& tokenizer, std::int32_t id) { return id == tokenizer.eos_id || tokenizer.is_special(id); }

// Parts are chosen of what the assistant says, and of conversations that are not learnt as a whole.
void check_parts(const Chat& chat, bool all, const std::string& where) {
  const std::vector<bool> answers = assistants(chat);
  for (std::size_t i = 0; i < chat.parts.size(); ++i) {
    const auto& parts = chat.parts[i];
    const auto fail = [&](const char* fact, const std::string& advice) {
      throw Error(ErrorKind::data, fmt::format("{}: messages[{}]: {}: {}", where, i, kPartsField, fact)).hint(advice);
    };
    if (all && !parts.empty())
      fail("chooses parts that are learnt, but loss is all",
           "leave out " + option_words("data.loss") + ", or the parts");
    const bool learns = std::any_of(parts.begin(), parts.end(), [](const MessagePart& part) { return part.train; });
    if (learns && !answers[i])
      fail("chooses parts that are learnt, but only the assistant's messages can be", "train: false, or no parts");
  }
}

// What came from a message with parts is learnt where these say so; what the template writes around it is the turn's.
void leave_out_parts(const ChatTurns& turns, const Chat& chat, std::size_t message, Tokens& tokens,
                     const std::string& where) {
  const auto [begin, end] = turns.own_bytes(message);
  const std::string& content = chat.messages[message].dict().find(std::string_view("content"))->bytes();
  const auto found = learnt_tokens(turns.encoding(), turns.whole().text, begin, end, content, chat.parts[message]);
  if (!found)
    throw Error(ErrorKind::data, fmt::format("{}: messages[{}]: {}: cannot tell where the content is: the template "
                                             "does not write it once as it is",
                                             where, message, kPartsField));
  for (std::size_t i = 0; i < found->learnt.size(); ++i)
    if (!found->learnt[i]) tokens.labels[found->first + i] = -100;
  // Nor is what the template writes of a turn before it, as an empty block of thoughts.
  std::vector<bool> alone(chat.messages.size());
  alone[message] = true;
  const std::size_t turn = turns.spans_of(alone).front().first;
  for (std::size_t i = found->first; i-- > 0 && turns.encoding().offsets[i].second > turn;) tokens.labels[i] = -100;
}

// chosen: null: all is learnt.
ChatTokens tokens_of(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                     const std::vector<bool>* chosen, const std::string& where) {
  const Chat chat = chat_for(chat_template, conversation, where);
  const ChatTurns turns(chat_template, tokenizer, chat, where);
  const Encoding& encoding = turns.encoding();
  const std::string& text = turns.whole().text;
  check_printed(chat_template, chat, turns.whole(), where);
  check_parts(chat, !chosen, where);
  ChatTokens made{.tokens = {.ids = encoding.ids, .labels = encoding.ids}};
  if (!chosen) return made;
  made.tokens.labels.assign(encoding.ids.size(), -100);
  const Spans spans = turns.spans_of(*chosen);
  const bool exact = chat_template.tracks_generation(chat);
  for (TokenRange range : ranges_of(encoding, text, spans, where)) {
    const TokenRange to_its_end = without_blank_end(range, encoding, tokenizer, text);
    made.ends_turns = made.ends_turns && is_end(tokenizer, encoding.ids[to_its_end.second - 1]);
    if (!exact) range = to_its_end;
    std::copy(encoding.ids.begin() + static_cast<std::ptrdiff_t>(range.first),
              encoding.ids.begin() + static_cast<std::ptrdiff_t>(range.second),
              made.tokens.labels.begin() + static_cast<std::ptrdiff_t>(range.first));
  }
  for (std::size_t i = 0; i < chosen->size(); ++i)
    if ((*chosen)[i] && !chat.parts[i].empty()) leave_out_parts(turns, chat, i, made.tokens, where);
  return made;
}

}  // namespace

std::vector<bool> mask_of(const Encoding& encoding, std::string_view text, const Spans& spans,
                          const std::string& where) {
  std::vector<bool> mask(encoding.ids.size());
  for (const auto& [first, end] : ranges_of(encoding, text, spans, where))
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(first), mask.begin() + static_cast<std::ptrdiff_t>(end), true);
  return mask;
}

std::vector<bool> chosen_messages(const Conversation& conversation, Learnt learnt, const std::string& where) {
  return chosen_messages(Chat::from(conversation, where), learnt, conversation, where);
}

ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       Learnt learnt, const std::string& where) {
  if (learnt != Learnt::all)
    return chat_tokens(chat_template, tokenizer, conversation, chosen_messages(conversation, learnt, where), where);
  return tokens_of(chat_template, tokenizer, conversation, nullptr, where);
}

ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       const std::vector<bool>& chosen, const std::string& where) {
  return tokens_of(chat_template, tokenizer, conversation, &chosen, where);
}

}  // namespace hone::text
