// How characters become bytes: ASCII stays where it is used, all else is a rule of its own for each set, as a class
// such as \w has hundreds of ranges and may be repeated a thousand times.
#include "text/form/grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/error.h"

namespace hone::text {
namespace {

constexpr std::size_t kMostNodes = 200'000;

struct Utf8 {
  std::uint8_t bytes[4];
  int size;
};
Utf8 utf8(char32_t c) {
  std::string text;
  append_utf8(text, c);
  Utf8 made{{}, static_cast<int>(text.size())};
  for (int i = 0; i < made.size; ++i) made.bytes[i] = static_cast<std::uint8_t>(text[static_cast<std::size_t>(i)]);
  return made;
}

// Of ranges within one length: those whose continuation bytes each run over all values, or are one.
template <class Each>
void each_block(char32_t first, char32_t last, Each&& each) {
  for (int free_bits = 6; free_bits <= 18; free_bits += 6) {
    const char32_t mask = (char32_t{1} << free_bits) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      each_block(first, first | mask, each);
      return each_block((first | mask) + 1, last, each);
    }
    if ((last & mask) != mask) {
      each_block(first, (last & ~mask) - 1, each);
      return each_block(last & ~mask, last, each);
    }
  }
  each(first, last);
}

}  // namespace

std::int32_t GrammarBuilder::node() {
  if (made_.nodes.size() >= kMostNodes)
    throw Error(ErrorKind::config, fmt::format("{}: too large: more than {} states; expected fewer or smaller counts "
                                               "of repetitions",
                                               what_, kMostNodes));
  made_.nodes.emplace_back();
  return static_cast<std::int32_t>(made_.nodes.size() - 1);
}

std::int32_t GrammarBuilder::rule() {
  const std::int32_t entry = node(), exit = node();
  made_.rules.push_back({entry, exit});
  return static_cast<std::int32_t>(made_.rules.size() - 1);
}

void GrammarBuilder::empty(std::int32_t from, std::int32_t to) {
  made_.nodes[static_cast<std::size_t>(from)].empty.push_back(to);
}

void GrammarBuilder::call(std::int32_t from, std::int32_t to, std::int32_t rule) {
  made_.nodes[static_cast<std::size_t>(from)].calls.push_back({to, rule});
}

void GrammarBuilder::bytes(std::int32_t from, std::int32_t to, std::uint8_t low, std::uint8_t high) {
  made_.nodes[static_cast<std::size_t>(from)].bytes.push_back({to, low, high});
}

void GrammarBuilder::text(std::int32_t from, std::int32_t to, std::string_view text) {
  if (text.empty()) return empty(from, to);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::int32_t next = i + 1 == text.size() ? to : node();
    bytes(from, next, static_cast<std::uint8_t>(text[i]), static_cast<std::uint8_t>(text[i]));
    from = next;
  }
}

// The node that exactly these bytes lead to from there: one that is there already, or a new one.
std::int32_t GrammarBuilder::step(std::int32_t from, std::uint8_t low, std::uint8_t high) {
  for (const Grammar::Bytes& edge : made_.nodes[static_cast<std::size_t>(from)].bytes)
    if (edge.low == low && edge.high == high) return edge.to;
  const std::int32_t to = node();
  bytes(from, to, low, high);
  return to;
}

void GrammarBuilder::sequences(std::int32_t from, std::int32_t to, const Range& range) {
  for (const auto& [low, high] : {std::pair<char32_t, char32_t>{0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF},
                                  {0x10000, kMaxCodePoint}}) {
    const char32_t first = std::max(low, range.first), last = std::min(high, range.last);
    if (first > last) continue;
    each_block(first, last, [&](char32_t a, char32_t b) {
      const Utf8 begin = utf8(a), end = utf8(b);
      std::int32_t at = from;
      for (int i = 0; i + 1 < begin.size; ++i) at = step(at, begin.bytes[i], end.bytes[i]);
      bytes(at, to, begin.bytes[begin.size - 1], end.bytes[begin.size - 1]);
    });
  }
}

void GrammarBuilder::character(std::int32_t from, std::int32_t to, const CharSet& set) {
  std::vector<std::uint32_t> beyond;
  for (const Range& range : set.ranges()) {
    if (range.first < 0x80)
      bytes(from, to, static_cast<std::uint8_t>(range.first),
            static_cast<std::uint8_t>(std::min<char32_t>(range.last, 0x7F)));
    if (range.last >= 0x80) beyond.insert(beyond.end(), {std::max<char32_t>(range.first, 0x80), range.last});
  }
  if (beyond.empty()) return;
  auto found = sets_.find(beyond);
  if (found == sets_.end()) {
    const std::int32_t made = rule();
    for (std::size_t i = 0; i < beyond.size(); i += 2)
      sequences(at(made).entry, at(made).exit, {beyond[i], beyond[i + 1]});
    found = sets_.emplace(std::move(beyond), made).first;
  }
  call(from, to, found->second);
}

std::int32_t GrammarBuilder::add(const Grammar& other) {
  const auto nodes = static_cast<std::int32_t>(made_.nodes.size());
  const auto rules = static_cast<std::int32_t>(made_.rules.size());
  for (const Grammar::Node& given : other.nodes) {
    Grammar::Node& own = made_.nodes[static_cast<std::size_t>(node())] = given;
    for (Grammar::Bytes& edge : own.bytes) edge.to += nodes;
    for (Grammar::Call& edge : own.calls) edge.to += nodes, edge.rule += rules;
    for (std::int32_t& to : own.empty) to += nodes;
  }
  for (const Grammar::Rule& rule : other.rules) made_.rules.push_back({rule.entry + nodes, rule.exit + nodes});
  return rules;
}

}  // namespace hone::text
