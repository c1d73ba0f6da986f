// Finding turns: by blocks, or by what stands between the texts of messages.
#include "text/chat/chat_turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "hone/error.h"

namespace hone::text {
namespace {

using jinja::Kind;
using jinja::Stretch;
using jinja::Value;
using Rendered = jinja::Template::Rendered;

// What the template writes behind the last byte of any message.
std::string_view tail_of(const Rendered& rendered) {
  const std::size_t end = rendered.origins.empty() ? 0 : rendered.origins.back().end;
  return std::string_view(rendered.text).substr(end);
}

std::size_t same_bytes(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  return hone::quoted(text.substr(text.size() > kMost ? text.size() - kMost : 0));
}

jinja::Source last_source(const Rendered& rendered) {
  return rendered.origins.empty() ? 0 : rendered.origins.back().source;
}

}  // namespace

std::vector<bool> assistants(const Chat& chat) {
  std::vector<bool> found;
  for (const Value& message : chat.messages) {
    const Value* role = message.dict().find(std::string_view("role"));
    found.push_back(role && role->is(Kind::string) && role->bytes() == "assistant");
  }
  return found;
}

ChatTurns::ChatTurns(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Chat& chat,
                     const std::string& where)
    : template_(chat_template), tokenizer_(tokenizer), chat_(chat), where_(where) {
  whole_ = render({});
  encoding_ = tokenizer_.encode(whole_.text, false);
}

Spans ChatTurns::spans_of(const std::vector<bool>& chosen) const {
  HONE_ASSERT(chosen.size() == chat_.messages.size());
  const bool blocks = template_.tracks_generation(chat_), all = chosen == assistants(chat_);
  Spans spans;
  if (blocks && all) spans = whole_.generated;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    if (!blocks) spans.push_back(span_of(i));
    if (blocks && !all) append_blocks_of(i, spans);
    if (spans.empty()) fail(i, "the template's generation blocks wrote nothing");
  }
  return spans;
}

namespace {

// What a misspelt name has left a template without.
std::string without_content(const Chat& chat) {
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    const auto& fields = chat.messages[i].dict();
    if (fields.find(std::string_view("content")) || fields.find(std::string_view("tool_calls"))) continue;
    std::vector<std::string> names;
    for (const auto& [key, value] : fields.entries()) names.push_back(key.bytes());
    return fmt::format(", whose messages[{}] has no content, but {}", i, list_names(names));
  }
  return "";
}

}  // namespace

Rendered ChatTurns::render(const ChatTemplate::Options& options) const {
  ChatTemplate::Options dated = options;
  dated.now = kTrainingDate;
  try {
    return template_.render(chat_, dated);
  } catch (Error& error) {
    error.add_context("rendering " + where_ + without_content(chat_));
    throw;
  }
}

Rendered ChatTurns::render_part(std::size_t message, std::size_t count, bool prompt) const {
  try {
    return render({.generation_prompt = prompt, .messages = count});
  } catch (const Error& error) {
    fail(message, fmt::format("the template refuses the first {} messages: {}", count, error.what()));
  }
}

void ChatTurns::fail(std::size_t message, const std::string& fact) const {
  std::string hint = "mark what the assistant writes in the template with {% generation %} ... {% endgeneration %}";
  const bool thinks = std::none_of(chat_.variables.begin(), chat_.variables.end(),
                                   [](const auto& one) { return one.first == "enable_thinking"; });
  if (thinks && template_.mentions("enable_thinking"))
    hint =
        R"(for turns without thinking give the record "chat_template_kwargs": {"enable_thinking": false}; or )" + hint;
  const std::vector<bool> answers = assistants(chat_);
  if (std::find(answers.begin() + static_cast<std::ptrdiff_t>(message) + 1, answers.end(), true) != answers.end())
    hint += fmt::format("; or learn the last turn only ({})", option_words("data.loss", "last"));
  throw Error(ErrorKind::data,
              fmt::format("{}: messages[{}]: cannot tell which tokens are the assistant's: {}", where_, message, fact))
      .hint(hint);
}

std::pair<std::size_t, std::size_t> ChatTurns::own_bytes(std::size_t message) const {
  const Own own = own_text(message);
  return {own.begin, own.end};
}

// Blocks belong to messages in order: a message has those that come with it.
void ChatTurns::append_blocks_of(std::size_t message, Spans& spans) const {
  const std::size_t first = blocks_before(message), end = blocks_before(message + 1);
  if (first > end || end > whole_.generated.size())
    fail(message, "the template has fewer generation blocks in the whole than in a part");
  spans.insert(spans.end(), whole_.generated.begin() + static_cast<std::ptrdiff_t>(first),
               whole_.generated.begin() + static_cast<std::ptrdiff_t>(end));
}

std::size_t ChatTurns::blocks_before(std::size_t message) const {
  if (message == 0) return 0;
  if (message == chat_.messages.size()) return whole_.generated.size();
  return render({.generation_prompt = true, .messages = message}).generated.size();
}

std::pair<std::size_t, std::size_t> ChatTurns::span_of(std::size_t message) const {
  const Own own = own_text(message);
  const auto span =
      own.begin == own.end ? span_without_text(message) : std::pair(begin_of(message, own), end_of(message, own));
  check_tokens(message, span.first);
  return span;
}

// Nothing of the message is there to find it by: all before it must be what the model sees.
std::pair<std::size_t, std::size_t> ChatTurns::span_without_text(std::size_t message) const {
  const std::string prompt = render_part(message, message, true).text;
  const std::string until = render_part(message, message + 1, false).text;
  if (!until.starts_with(prompt) || !whole_.text.starts_with(until))
    fail(message, "the template writes nothing of it, and what stands around it changes when messages follow");
  return {prompt.size(), until.size()};
}

ChatTurns::Own ChatTurns::own_text(std::size_t message) const {
  const auto& all = whole_.origins;
  const auto is_own = [&](const Stretch& one) { return one.source == Chat::source_of(message); };
  const auto first = std::find_if(all.begin(), all.end(), is_own);
  if (first == all.end()) return {};
  const auto last = std::find_if(all.rbegin(), all.rend(), is_own).base() - 1;
  if (!std::all_of(first, last, is_own)) fail(message, "text of other messages stands inside it");
  return {static_cast<std::size_t>(first - all.begin()), static_cast<std::size_t>(last - all.begin()), first->begin,
          last->end};
}

// Between the message before and its own text stands first what ends the former and asks for the turn.
std::size_t ChatTurns::begin_of(std::size_t message, const Own& own) const {
  if (message == 0) return begin_behind_prompt(message, own);
  const Rendered prompt = render_part(message, message, true);
  const std::size_t gap = own.first == 0 ? 0 : whole_.origins[own.first - 1].end;
  const jinja::Source before = own.first == 0 ? 0 : whole_.origins[own.first - 1].source;
  const std::string_view asked = tail_of(prompt);
  if (last_source(prompt) != before)
    fail(message, "what stands before it in the whole conversation is not what the model sees when it is asked for");
  const std::string_view found = std::string_view(whole_.text).substr(gap, own.begin - gap);
  if (!found.starts_with(asked))
    fail(message, fmt::format("the generation prompt after the messages before it is not what stands in the whole "
                              "conversation; got {}, expected {}",
                              shown(found), shown(asked)));
  return gap + asked.size();
}

// Nothing comes before the first message, and templates often refuse to ask for it: the prompt is the one that they
// write after it.
std::size_t ChatTurns::begin_behind_prompt(std::size_t message, const Own& own) const {
  const std::string until = render_part(message, message + 1, false).text;
  const std::string asked = render_part(message, message + 1, true).text;
  if (!asked.starts_with(until) || asked.size() == until.size())
    fail(message, "no message comes before it, and the template has no generation prompt");
  const std::string_view prompt = std::string_view(asked).substr(until.size());
  const std::size_t at = std::string_view(whole_.text).substr(0, own.begin).rfind(prompt);
  if (at == std::string_view::npos) fail(message, "no generation prompt stands before it");
  return at + prompt.size();
}

// What follows the turn's text when it is the last one must follow it here.
std::size_t ChatTurns::end_of(std::size_t message, const Own& own) const {
  const Rendered until = render_part(message, message + 1, false);
  if (last_source(until) != Chat::source_of(message))
    fail(message, "it is written differently when messages follow, and its end is not found");
  const std::string_view end = tail_of(until);
  const std::string_view found = std::string_view(whole_.text).substr(own.end);
  const std::string asked = asked_behind(message, end);
  const std::size_t same = same_bytes(end, found), common = std::min(same, same_bytes(end, asked));
  if (common == end.size()) return own.end + end.size();
  // What the template writes at the end of the whole conversation only is not the turn's.
  const std::size_t special = end_of_special(own.end, own.end + common);
  if (same == end.size()) return special == own.end ? own.end + end.size() : special;
  const bool another = message + 1 < chat_.messages.size() && assistants(chat_)[message + 1];
  if (another) fail(message, "it ends differently when messages follow");
  if (special != own.end) return special;
  const std::size_t marked = end_by_another_token(own.end, end, own.end + same_bytes(asked, found));
  if (marked == own.end) fail(message, "it ends differently when messages follow");
  return marked;
}

// Where a template ends the last turn by another token than those before it (gpt-oss): behind the special token that
// stands here, if a second one follows before what depends on who speaks next. `from`: it is not so.
std::size_t ChatTurns::end_by_another_token(std::size_t from, std::string_view end, std::size_t until) const {
  const Encoding last = tokenizer_.encode(end, false);
  if (last.ids.size() != 1 || !tokenizer_.is_special(last.ids[0])) return from;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < encoding_.ids.size(); ++i) {
    const auto& [first, behind] = encoding_.offsets[i];
    if (first < from || behind > until || !tokenizer_.is_special(encoding_.ids[i])) continue;
    if (ends.empty() && first != from) return from;
    ends.push_back(behind);
  }
  return ends.size() < 2 ? from : ends[0];
}

// What follows the turn's text when another one is asked for behind it; `otherwise` where the template refuses that.
std::string ChatTurns::asked_behind(std::size_t message, std::string_view otherwise) const {
  try {
    const Rendered asked = render({.generation_prompt = true, .messages = message + 1});
    if (last_source(asked) == Chat::source_of(message)) return std::string(tail_of(asked));
  } catch (const Error&) {
  }
  return std::string(otherwise);
}

// Where the last special token between two bytes of the whole text ends; `from`: there is none.
std::size_t ChatTurns::end_of_special(std::size_t from, std::size_t until) const {
  std::size_t end = from;
  for (std::size_t i = 0; i < encoding_.ids.size(); ++i) {
    const auto& [first, last] = encoding_.offsets[i];
    if (first >= from && last <= until && tokenizer_.is_special(encoding_.ids[i])) end = last;
  }
  return end;
}

// The model sees what is before the turn as tokens: they must be the first ones of the whole.
void ChatTurns::check_tokens(std::size_t message, std::size_t begin) const {
  const Encoding seen = tokenizer_.encode(std::string_view(whole_.text).substr(0, begin), false);
  const bool same =
      seen.ids.size() <= encoding_.ids.size() && std::equal(seen.ids.begin(), seen.ids.end(), encoding_.ids.begin());
  if (!same) fail(message, "its first token is not cut where the prompt ends; does it begin with white space?");
}

}  // namespace hone::text
