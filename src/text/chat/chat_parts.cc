// From characters of a content to tokens of the whole text.
#include "text/chat/chat_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "hone/error.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using jinja::Kind;
using jinja::Value;

const Value& whole_number(const Value& part, std::string_view name, const std::string& where) {
  const Value* found = part.dict().find(name);
  if (!found || !found->is(Kind::integer))
    throw Error(ErrorKind::data, fmt::format("{}: {}: expected a whole number", where, name));
  return *found;
}

MessagePart part_of(const Value& value, std::int64_t length, const std::string& where) {
  if (!value.is(Kind::dict))
    throw Error(ErrorKind::data, where + ": expected an object {begin_offset, end_offset, train}");
  for (const auto& entry : value.dict().entries())
    if (const std::string& name = entry.first.bytes();
        name != "begin_offset" && name != "end_offset" && name != "train")
      throw Error(ErrorKind::data, fmt::format("{}: {}: no such key; expected begin_offset, end_offset and train",
                                               where, escape_for_terminal(name, 60)));
  MessagePart part{whole_number(value, "begin_offset", where).as_int(),
                   whole_number(value, "end_offset", where).as_int()};
  const Value* train = value.dict().find(std::string_view("train"));
  if (!train || !train->is(Kind::boolean)) throw Error(ErrorKind::data, where + ": train: expected true or false");
  part.train = train->as_bool();
  if (part.begin < 0 || part.end < part.begin || part.end >= length)
    throw Error(ErrorKind::data,
                fmt::format("{}: got characters {} to {}, expected some of the content's {}, counted from 0", where,
                            part.begin, part.end, length))
        .hint("end_offset is the last character's");
  return part;
}

// Where each character of a text begins.
std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); next_code_point(text, at)) starts.push_back(at);
  return starts;
}

// Where the content begins in a text that holds it once, or once without the white space around it; below 0, as much
// was stripped in front.
std::optional<std::ptrdiff_t> place_in(std::string_view text, std::string_view content) {
  const auto once = [&](std::string_view what) -> std::optional<std::ptrdiff_t> {
    const std::size_t at = text.find(what);
    if (at == std::string_view::npos || text.find(what, at + 1) != std::string_view::npos) return std::nullopt;
    return static_cast<std::ptrdiff_t>(at);
  };
  if (const auto at = once(content)) return at;
  const std::string_view inner = jinja::strip(content, std::nullopt);
  if (inner.empty()) return std::nullopt;
  const auto at = once(inner);
  return at ? std::optional(*at - (inner.data() - content.data())) : std::nullopt;
}

}  // namespace

std::vector<MessagePart> parts_of(const Value& message, const std::string& where) {
  const Value* said = message.dict().find(kPartsField);
  if (!said || said->is(Kind::none)) return {};
  const std::string place = fmt::format("{}: {}", where, kPartsField);
  if (!said->is(Kind::list))
    throw Error(ErrorKind::data, place + ": expected a list of {begin_offset, end_offset, train}");
  const Value* content = message.dict().find(std::string_view("content"));
  if (!said->items().empty() && (!content || !content->is(Kind::string)))
    throw Error(ErrorKind::data, place + ": chooses characters of the content, which is no text");
  std::vector<MessagePart> parts;
  for (const Value& part : said->items())
    parts.push_back(
        part_of(part, static_cast<std::int64_t>(content->length()), fmt::format("{}[{}]", place, parts.size())));
  return parts;
}

std::optional<LearntTokens> learnt_tokens(const Encoding& encoding, std::string_view text, std::size_t begin,
                                          std::size_t end, std::string_view content,
                                          const std::vector<MessagePart>& parts) {
  const auto place = place_in(text.substr(begin, end - begin), content);
  if (!place) return std::nullopt;
  const std::vector<std::size_t> starts = character_starts(content);
  const auto byte_of = [&](std::int64_t character) {
    return static_cast<std::ptrdiff_t>(begin) + *place +
           static_cast<std::ptrdiff_t>(starts[static_cast<std::size_t>(character)]);
  };
  const std::size_t behind = std::min(end, static_cast<std::size_t>(static_cast<std::ptrdiff_t>(begin) + *place +
                                                                    static_cast<std::ptrdiff_t>(content.size())));
  // Blanks that no token holds are the token's before them.
  const auto stop_of = [&](std::size_t i) {
    const auto [first, stop] = encoding.offsets[i];
    const bool follows = i + 1 < encoding.ids.size() && encoding.offsets[i + 1].first > first;
    const std::size_t next = follows ? encoding.offsets[i + 1].first : stop;
    return first < behind ? std::min(next, behind) : static_cast<std::size_t>(stop);
  };
  LearntTokens made;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto [first, stop] = encoding.offsets[i];
    if (stop <= begin || first >= end || first == stop) {
      if (!made.learnt.empty() && first < end) made.learnt.push_back(false);
      continue;
    }
    if (made.learnt.empty()) made.first = i;
    std::size_t from = first, last = stop_of(i) - 1;  // where its first and its last character begin
    while (from > 0 && is_continuation(text[from])) --from;
    while (last > from && is_continuation(text[last])) --last;
    const auto head = static_cast<std::ptrdiff_t>(from), tail = static_cast<std::ptrdiff_t>(last);
    made.learnt.push_back(std::any_of(parts.begin(), parts.end(), [&](const MessagePart& part) {
      const std::ptrdiff_t low = byte_of(part.begin), high = byte_of(part.end);
      return part.train && (head >= low || tail > low) && (tail <= high || head < high);
    }));
  }
  return made;
}

}  // namespace hone::text
