// Where the assistant's turns lie in a rendered conversation, and which tokens that makes.
#include "text/chat_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace hone::text {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;
using Rendered = jinja::Template::Rendered;

constexpr std::string_view kMark = "\xEE\x80\x80turn\xEE\x80\x81";  // between two characters of private use
constexpr const char* kHint =
    "mark what the assistant writes in the template with {% generation %} ... {% endgeneration %}";

bool is_assistant(const Value& message) {
  const Value* role = message.dict().find(std::string_view("role"));
  return role && role->is(Kind::string) && role->bytes() == "assistant";
}

std::vector<bool> assistants(const Chat& chat) {
  std::vector<bool> found;
  for (const Value& message : chat.messages) found.push_back(is_assistant(message));
  return found;
}

class Turns {
 public:
  Turns(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Chat& chat, const std::string& where)
      : template_(chat_template), tokenizer_(tokenizer), chat_(chat), where_(where) {
    whole_ = render(chat_, {});
    encoding_ = tokenizer_.encode(whole_.text, false);
  }
  const Rendered& whole() const { return whole_; }
  const Encoding& encoding() const { return encoding_; }

  // The spans of the chosen messages, which are the assistant's.
  Spans spans_of(const std::vector<bool>& chosen) const {
    const bool blocks = template_.tracks_generation(chat_), all = chosen == assistants(chat_);
    Spans spans;
    if (blocks && all) spans = whole_.generated;
    for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
      if (!chosen[i]) continue;
      if (!blocks) spans.push_back(span_of(i));
      if (blocks && !all) append_blocks_of(i, spans);
      if (spans.empty()) fail(i, "the template's generation blocks wrote nothing");
    }
    return spans;
  }

 private:
  Rendered render(const Chat& chat, const ChatTemplate::Options& options) const {
    ChatTemplate::Options all = options;
    all.now = kTrainingDate;
    try {
      return template_.render(chat, all);
    } catch (Error& error) {
      error.add_context("rendering " + where_);
      throw;
    }
  }

  [[noreturn]] void fail(std::size_t message, const std::string& fact) const {
    throw Error(ErrorKind::data, fmt::format("{}: messages[{}]: cannot tell which tokens are the assistant's: {}",
                                             where_, message, fact))
        .hint(kHint);
  }

  // Blocks belong to messages in order: a message has those that come with it.
  void append_blocks_of(std::size_t message, Spans& spans) const {
    const std::size_t first = blocks_before(message), end = blocks_before(message + 1);
    if (first > end || end > whole_.generated.size())
      fail(message, "the template has fewer generation blocks in the whole than in a part");
    spans.insert(spans.end(), whole_.generated.begin() + static_cast<std::ptrdiff_t>(first),
                 whole_.generated.begin() + static_cast<std::ptrdiff_t>(end));
  }

  std::size_t blocks_before(std::size_t message) const {
    if (message == 0) return 0;
    if (message == chat_.messages.size()) return whole_.generated.size();
    return render(chat_, {.generation_prompt = true, .messages = message}).generated.size();
  }

  std::pair<std::size_t, std::size_t> span_of(std::size_t message) const {
    const std::string prompt = render_part(message, message, true).text;
    const std::string until = render_part(message, message + 1, false).text;
    const bool from_prompt = whole_.text.starts_with(prompt);
    const std::size_t begin = from_prompt ? prompt.size() : begin_before_content(message, prompt, until);
    check_tokens(message, begin);
    if (from_prompt && until.size() >= begin && whole_.text.starts_with(until)) return {begin, until.size()};
    return {begin, end_behind_content(message, until)};
  }

  Rendered render_part(std::size_t message, std::size_t count, bool prompt) const {
    try {
      return render(chat_, {.generation_prompt = prompt, .messages = count});
    } catch (const Error& error) {
      fail(message, fmt::format("the template refuses the first {} messages: {}", count, error.what()));
    }
  }

  // The model sees what is before the turn as tokens: they must be the first ones of the whole.
  void check_tokens(std::size_t message, std::size_t begin) const {
    const Encoding seen = tokenizer_.encode(std::string_view(whole_.text).substr(0, begin), false);
    const bool same =
        seen.ids.size() <= encoding_.ids.size() && std::equal(seen.ids.begin(), seen.ids.end(), encoding_.ids.begin());
    if (!same) fail(message, "its first token is not cut where the prompt ends; does it begin with white space?");
  }

  // For templates that write turns differently when others follow (without their reasoning, for instance): finds the
  // turn's content by a mark, and expects before it the generation prompt, or that and what a last turn has between
  // them.
  std::size_t begin_before_content(std::size_t message, const std::string& prompt, const std::string& until) const {
    const auto places = places_of_mark(message, until, true);
    const std::string before = render_part(message, message, false).text;
    if (!places || !prompt.starts_with(before) || !until.starts_with(prompt) || places->part < prompt.size())
      fail(message, "the generation prompt after the messages before it is not what stands in the whole conversation");
    const std::string asked = prompt.substr(before.size());
    const std::string between = until.substr(prompt.size(), places->part - prompt.size());
    const std::string_view text = std::string_view(whole_.text).substr(0, places->whole);
    if (!asked.empty() && text.ends_with(asked + between)) return places->whole - between.size();
    if (!asked.empty() && text.ends_with(asked)) return places->whole;
    fail(message, "no generation prompt stands before it in the whole conversation");
  }

  // The same for its end: what follows the content when the turn is the last one must follow it here.
  std::size_t end_behind_content(std::size_t message, const std::string& until) const {
    const auto places = places_of_mark(message, until, false);
    if (!places) fail(message, "it is written differently when messages follow, and its content is not found");
    const std::string end = until.substr(places->part);
    if (whole_.text.compare(places->whole, end.size(), end) != 0)
      fail(message, "it ends differently when messages follow");
    return places->whole + end.size();
  }

  struct Places {
    std::size_t whole, part;  // of a mark at the content's front or back, in the whole text and in the part up to here
  };
  std::optional<Places> places_of_mark(std::size_t message, const std::string& until, bool front) const {
    const Value* content = chat_.messages[message].dict().find(std::string_view("content"));
    if (!content || !content->is(Kind::string)) return std::nullopt;
    const std::string& text = content->bytes();
    const std::string_view inside = jinja::strip(text, std::nullopt);
    const auto begin = static_cast<std::size_t>(inside.data() - text.data()), end = begin + inside.size();
    // Templates may strip the content: then only a mark inside the white space changes nothing else.
    const std::size_t first = front ? 0 : end, second = front ? begin : text.size();
    for (const std::size_t at : {first, second}) {
      const Chat marked = with_mark(message, text, at);
      const auto in_whole = mark_in(whole_.text, render(marked, {}).text);
      const auto in_part = mark_in(until, render(marked, {.messages = message + 1}).text);
      if (in_whole && in_part) return Places{*in_whole, *in_part};
    }
    return std::nullopt;
  }

  Chat with_mark(std::size_t message, const std::string& text, std::size_t at) const {
    auto changed = std::make_shared<Dict>();
    for (const auto& [key, value] : chat_.messages[message].dict().entries()) changed->set(key, value);
    changed->set("content", Value::string(text.substr(0, at) + std::string(kMark) + text.substr(at)));
    Chat chat = chat_;
    chat.messages[message] = Value::dict(std::move(changed));
    return chat;
  }

  // Where `marked` has the mark, if it is `text` but for that.
  static std::optional<std::size_t> mark_in(const std::string& text, const std::string& marked) {
    const std::size_t at = marked.find(kMark);
    if (at == std::string::npos || text.size() + kMark.size() != marked.size()) return std::nullopt;
    const bool same = text.compare(0, at, marked, 0, at) == 0 &&
                      text.compare(at, std::string::npos, marked, at + kMark.size(), std::string::npos) == 0;
    return same ? std::optional(at) : std::nullopt;
  }

  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const Chat& chat_;
  const std::string& where_;
  Rendered whole_;
  Encoding encoding_;
};

std::vector<bool> chosen_messages(const Chat& chat, Learnt learnt, const Conversation& conversation,
                                  const std::string& where) {
  if (learnt == Learnt::completion && conversation.prompt < 0)
    throw Error(ErrorKind::data, where + ": loss completion, but the conversation has no prompt and completion")
        .hint("use loss: last or loss: assistant");
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
  const Chat chat = Chat::from(conversation, where);
  const Turns turns(chat_template, tokenizer, chat, where);
  return {.tokens = {.ids = turns.encoding().ids, .labels = turns.encoding().ids}};
}

ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       const std::vector<bool>& chosen, const std::string& where) {
  const Chat chat = Chat::from(conversation, where);
  const Turns turns(chat_template, tokenizer, chat, where);
  const Encoding& encoding = turns.encoding();
  const std::string& text = turns.whole().text;
  ChatTokens made;
  made.tokens.ids = encoding.ids;
  made.tokens.labels.assign(encoding.ids.size(), -100);
  HONE_ASSERT(chosen.size() == chat.messages.size());
  const Spans spans = turns.spans_of(chosen);
  const bool exact = chat_template.tracks_generation(chat);
  for (TokenRange range : ranges_of(encoding, text, spans, where)) {
    if (!exact) range = without_blank_end(range, encoding, tokenizer, text);
    made.ends_turns = made.ends_turns && is_end(tokenizer, encoding.ids[range.second - 1]);
    std::copy(encoding.ids.begin() + static_cast<std::ptrdiff_t>(range.first),
              encoding.ids.begin() + static_cast<std::ptrdiff_t>(range.second),
              made.tokens.labels.begin() + static_cast<std::ptrdiff_t>(range.first));
  }
  return made;
}

}  // namespace hone::text
