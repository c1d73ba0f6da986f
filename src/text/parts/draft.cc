// Truncation, merging and padding in the library's order, overflowing parts included.
#include "text/parts/draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

constexpr std::size_t kMostPieces = 100'000;  // of a text: a small max_length on a long pair makes them by the million

bool is_blank(char32_t c) { return c == 0x120 || (class_table()[c] & kSpace); }  // 0x120: the byte-level blank

std::size_t count_parts(const Draft& draft) {
  std::size_t parts = 1;
  for (const Draft& more : draft.overflow) parts += count_parts(more);
  return parts;
}

// The parts [begin, end) that truncation cuts `count` entries into.
std::vector<std::pair<std::size_t, std::size_t>> cut_parts(std::size_t count, std::size_t most, std::size_t step,
                                                           bool from_left) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (std::size_t done = 0; done < count; done += step) {
    if (from_left) {
      const std::size_t end = count - done, begin = end - std::min(end, most);
      parts.emplace_back(begin, end);
      if (begin == 0) break;
    } else {
      const std::size_t end = std::min(done + most, count);
      parts.emplace_back(done, end);
      if (end == count) break;
    }
  }
  return parts;
}

}  // namespace

Blanks count_blanks(std::string_view token) {
  Blanks blanks;
  for (std::size_t at = 0; at < token.size() && blanks.leading < UINT16_MAX && is_blank(next_code_point(token, at));)
    ++blanks.leading;
  for (std::size_t end = token.size();
       end > 0 && blanks.trailing < UINT16_MAX && is_blank(code_point_before(token, end)); ++blanks.trailing) {
    do --end;
    while (end > 0 && is_continuation(token[end]));
  }
  return blanks;
}

void trim_offsets(Blanks blanks, bool keep_first, bool is_first, std::string_view text,
                  std::pair<std::uint32_t, std::uint32_t>& offset) {
  if (blanks.leading == 0 && blanks.trailing == 0) return;
  if (blanks.leading == 1 && keep_first && (is_first || offset.first == 0)) blanks.leading = 0;
  for (int n = blanks.leading; n > 0 && offset.first < offset.second; --n)
    offset.first += static_cast<std::uint32_t>(utf8_length(text[offset.first]));
  // As in the library: a token with more blanks behind than there is text before its end keeps them all.
  std::size_t room = 0;
  for (std::size_t i = 0; i < offset.second && room < blanks.trailing; ++i) room += !is_continuation(text[i]);
  if (room < blanks.trailing) return;
  for (int n = blanks.trailing; n > 0 && offset.second > offset.first; --n) {
    do --offset.second;
    while (is_continuation(text[offset.second]));
  }
}

void Draft::set_sequence(int which) { sequences[which] = {0, entries.size(), true}; }

void Draft::set_types(std::int32_t type) {
  for (Entry& e : entries) e.type = type;
}

void Draft::truncate(std::size_t most, std::size_t stride, bool from_left) {
  if (most >= entries.size()) return;
  if (most == 0) {
    Draft all = std::move(*this);
    *this = Draft();
    overflow.push_back(std::move(all));
    return;
  }
  if (stride >= most)
    throw Error(ErrorKind::config,
                fmt::format("truncation of tokenizer.json: stride {} is not below the {} tokens that "
                            "are left for text",
                            stride, most));
  const auto parts = cut_parts(entries.size(), most, most - stride, from_left);
  if (parts.size() > kMostPieces)
    throw Error(ErrorKind::data, fmt::format("text to tokenize: truncation cuts it into {} parts, expected at most {}",
                                             parts.size(), kMostPieces));
  Draft kept;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto at = [&](std::size_t n) { return entries.begin() + static_cast<std::ptrdiff_t>(n); };
    Draft& to = i == 0 ? kept : kept.overflow.emplace_back();
    to.entries.assign(at(parts[i].first), at(parts[i].second));
  }
  *this = std::move(kept);
}

void Draft::merge(const Draft& next) {
  if (count_parts(*this) * count_parts(next) > kMostPieces)
    throw Error(ErrorKind::data,
                fmt::format("text to tokenize: truncation of a pair makes more than {} parts", kMostPieces));
  std::vector<Draft> joined;
  for (const Draft& mine : overflow) {
    joined.push_back(mine);
    joined.back().merge(next);
    for (const Draft& other : next.overflow) {
      joined.push_back(mine);
      joined.back().merge(other);
    }
  }
  for (const Draft& other : next.overflow) {
    joined.push_back(*this);
    joined.back().merge(other);
  }
  for (int k = 0; k < 2; ++k)
    if (next.sequences[k].set)
      sequences[k] = {entries.size() + next.sequences[k].begin, entries.size() + next.sequences[k].end, true};
  entries.insert(entries.end(), next.entries.begin(), next.entries.end());
  overflow = std::move(joined);
}

void Draft::pad(std::size_t length, const Entry& padding, bool at_left) {
  for (Draft& more : overflow) more.pad(length, padding, at_left);
  if (entries.size() >= length) return;
  const std::size_t missing = length - entries.size();
  entries.insert(at_left ? entries.begin() : entries.end(), missing, padding);
  for (Range& r : sequences)
    if (at_left && r.set) r.begin += missing, r.end += missing;
}

FullEncoding Draft::finish() && {
  FullEncoding out;
  const std::size_t n = entries.size();
  out.ids.reserve(n), out.offsets.reserve(n), out.type_ids.reserve(n), out.words.reserve(n);
  out.special_mask.reserve(n), out.attention_mask.reserve(n);
  for (const Entry& e : entries) {
    out.ids.push_back(e.id);
    out.offsets.push_back(e.offset);
    out.type_ids.push_back(e.type);
    out.words.push_back(e.word);
    out.special_mask.push_back(e.special);
    out.attention_mask.push_back(e.attended);
  }
  out.sequences.assign(n, -1);
  const int known = sequences[0].set + sequences[1].set;
  for (int k = 0; k < std::max(1, known); ++k) {
    const Range r = sequences[k].set ? sequences[k] : Range{0, n, true};
    std::fill(out.sequences.begin() + static_cast<std::ptrdiff_t>(r.begin),
              out.sequences.begin() + static_cast<std::ptrdiff_t>(r.end), k);
  }
  for (Draft& more : overflow) out.overflow.push_back(std::move(more).finish());
  return out;
}

}  // namespace hone::text
