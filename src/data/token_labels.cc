// Tagged records and steps as tokens, some of which have labels.
#include "data/token_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/words.h"
#include "hone/error.h"
#include "text/unicode/unicode.h"

namespace hone::data {
namespace {

constexpr const char* kOutside = "O";

// The label of what goes on, where this is one of a beginning.
std::string inside(const std::string& label) { return label.starts_with("B-") ? "I-" + label.substr(2) : label; }

// A record's labels by number.
class TokenTags {
 public:
  explicit TokenTags(TaggedTokens& tokens) : tokens_(tokens) {}
  void add(std::int32_t id, const std::string& label) {  // "": none
    tokens_.ids.push_back(id);
    tokens_.labels.push_back(label.empty() ? -100 : number_of(label));
  }

 private:
  std::int32_t number_of(const std::string& label) {
    std::vector<std::string>& names = tokens_.tags.names;
    const auto number = std::find(names.begin(), names.end(), label) - names.begin();
    if (number == std::ssize(names)) names.push_back(label);
    return static_cast<std::int32_t>(number);
  }
  TaggedTokens& tokens_;
};

// Where characters begin, and where the text ends.
std::vector<std::uint32_t> characters_of(std::string_view text) {
  std::vector<std::uint32_t> begins;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (!text::is_continuation(text[at])) begins.push_back(static_cast<std::uint32_t>(at));
  begins.push_back(static_cast<std::uint32_t>(text.size()));
  return begins;
}

struct ByteSpan {
  std::uint32_t begin, end;
  const std::string& label;
  bool begun = false;
};

std::vector<ByteSpan> spans_in(const TaggedRecord& record, const Place& place) {
  const std::vector<std::uint32_t> begins = characters_of(record.text);
  const std::int64_t count = std::ssize(begins) - 1;
  std::vector<ByteSpan> spans;
  spans.reserve(record.spans.size());
  for (const TaggedRecord::Span& one : record.spans) {
    if (one.start < 0 || one.end > count || one.start >= one.end)
      throw Error(ErrorKind::data, fmt::format("{}: an entity at {} to {}; expected places in a text of {}",
                                               place.text(), one.start, one.end, counted(count, "character")));
    spans.push_back(
        {begins[static_cast<std::size_t>(one.start)], begins[static_cast<std::size_t>(one.end)], one.label});
  }
  return spans;
}

// How many entities share a word with one before them, which the word has the label of. Each must have a word.
std::int64_t crowded_in(const TaggedRecord& record, const std::vector<ByteSpan>& spans,
                        const std::vector<WordRange>& words, const Place& place) {
  std::int64_t crowded = 0;
  std::vector<bool> taken(words.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto behind = [](std::uint32_t begin, const WordRange& word) { return begin < word.end; };
    auto word = std::upper_bound(words.begin(), words.end(), spans[i].begin, behind);
    const TaggedRecord::Span& one = record.spans[i];
    if (word == words.end() || word->begin >= spans[i].end)
      throw Error(ErrorKind::data, fmt::format("{}: entity {} at {} to {}: no character of a word; expected some",
                                               place.text(), hone::quoted(one.label), one.start, one.end));
    bool shares = false;
    for (; word != words.end() && word->begin < spans[i].end; ++word) {
      const auto at = static_cast<std::size_t>(word - words.begin());
      shares = shares || taken[at];
      taken[at] = true;
    }
    crowded += shares;
  }
  return crowded;
}

// A word of blanks, or of signs that are not shown, may have no token; 0 is O's number where labels are numbers.
void check_words(const TaggedRecord& record, const Place& place) {
  for (std::size_t i = 0; i < record.words.size(); ++i) {
    const std::string& tag = record.tags[i];
    if (tag.empty() || tag == kOutside || tag == "0" || !words_in(record.words[i]).empty()) continue;
    throw Error(ErrorKind::data,
                fmt::format("{}: word {} is {} and has the label {}; expected a word with characters, or the label {}",
                            place.text(), i + 1, hone::quoted(record.words[i]), hone::quoted(tag), kOutside));
  }
}

// Of the text from `begin` to `end`, in which a word's tokens lie; called in the text's order.
std::string tag_of(std::vector<ByteSpan>& spans, std::uint32_t begin, std::uint32_t end) {
  for (ByteSpan& span : spans)
    if (span.begin < end && begin < span.end) return (std::exchange(span.begun, true) ? "I-" : "B-") + span.label;
  return kOutside;
}

// Where the tokens of a word end that begins at `token`, cut off or not; at least where the word does.
std::uint32_t end_of_unit(const WordTokens& made, std::size_t token, std::uint32_t end) {
  for (const std::int32_t word = made.tokens[token].word; token < made.tokens.size(); ++token) {
    if (made.tokens[token].word != word) break;
    end = std::max(end, made.tokens[token].end);
  }
  return end;
}

}  // namespace

TaggedTokens from_tagged(const TaggedRecord& record, const TokenLabelling& how, const Place& place) {
  const bool of_text = record.words.empty();
  if (record.tags.size() != record.words.size())
    throw Error(ErrorKind::data,
                fmt::format("{}: {} and {}; expected as many", place.text(), counted(std::ssize(record.words), "word"),
                            counted(std::ssize(record.tags), "label")));
  const auto is_text = [](const std::string& one) { return is_utf8(one); };
  if (!is_text(record.text) || !std::all_of(record.words.begin(), record.words.end(), is_text))
    throw Error(ErrorKind::data, place.text() + ": invalid UTF-8");
  check_words(record, place);
  const JoinedWords given = of_text ? JoinedWords{record.text, words_in(record.text)} : join_words(record.words);
  TaggedTokens tokens;
  TokenTags tags(tokens);
  std::vector<ByteSpan> spans = of_text ? spans_in(record, place) : std::vector<ByteSpan>();
  tokens.tags.crowded = crowded_in(record, spans, given.words, place);
  if (given.words.empty()) return tokens;
  const WordTokens made = tokens_of_words(how.tokenizer, given.text, given.words, how.most, how.keep_end);
  std::string tag;
  for (std::size_t i = 0; i < made.tokens.size(); ++i) {
    const WordTokens::Token& one = made.tokens[i];
    if (one.first && of_text) {
      const WordRange& word = given.words[static_cast<std::size_t>(one.word)];
      tag = tag_of(spans, word.begin, end_of_unit(made, i, word.end));
    } else if (one.first) {
      tag = record.tags[static_cast<std::size_t>(one.word)];
    }
    const bool goes_on = one.word >= 0 && !one.first && how.labels.all;
    tags.add(one.id, one.first ? tag : goes_on ? inside(tag) : "");
  }
  tokens.tags.cut = static_cast<std::uint32_t>(made.cut);
  return tokens;
}

TaggedTokens from_steps(const StepsRecord& record, const TokenLabelling& how, const Place& place) {
  const TokenLabels& options = how.labels;
  if (record.labels.size() != record.steps.size())
    throw Error(ErrorKind::data,
                fmt::format("{}: {} and {}; expected as many", place.text(), counted(std::ssize(record.steps), "step"),
                            counted(std::ssize(record.labels), "label")));
  const std::vector<std::int32_t> separator = how.tokenizer.encode(options.step_separator, false).ids;
  TaggedTokens tokens;
  TokenTags tags(tokens);
  if (how.tokenizer.bos_id) tags.add(*how.tokenizer.bos_id, "");
  for (const std::int32_t id : how.tokenizer.encode(record.prompt, false).ids) tags.add(id, "");
  const std::size_t before = tokens.ids.size();
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    std::vector<std::int32_t> ids = how.tokenizer.encode(record.steps[i], false).ids;
    ids.insert(ids.end(), separator.begin(), separator.end());
    if (ids.empty()) throw Error(ErrorKind::data, fmt::format("{}: step {} has no tokens", place.text(), i + 1));
    const bool learnt = !options.last_step_only || i + 1 == record.steps.size();
    for (std::size_t t = 0; t < ids.size(); ++t)
      tags.add(ids[t], learnt && t + 1 == ids.size() ? record.labels[i] : "");
  }
  const std::size_t all = tokens.ids.size();
  std::size_t kept = all, most = how.most;
  if (options.max_completion_length)
    kept = std::min(kept, before + static_cast<std::size_t>(*options.max_completion_length));
  tokens.ids.resize(kept), tokens.labels.resize(kept);
  if (most > 0 && kept > most) {
    const auto off = static_cast<std::ptrdiff_t>(kept - most);
    const auto cut = [&](std::vector<std::int32_t>& values) {
      how.keep_end ? values.erase(values.begin(), values.begin() + off)
                   : values.erase(values.end() - off, values.end());
    };
    cut(tokens.ids), cut(tokens.labels);
  }
  tokens.tags.cut = static_cast<std::uint32_t>(all - tokens.ids.size());
  return tokens;
}

}  // namespace hone::data
