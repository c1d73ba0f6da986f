#include "text/form/json_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "text/form/json_numbers.h"
#include "text/form/regex_tree.h"

namespace hone::text {
namespace {

// Characters that stand in a string as they are.
CharSet raw() {
  CharSet set;
  set.add(0, 0x1F), set.add('"', '"'), set.add('\\', '\\');
  return set.complement();
}

}  // namespace

std::int32_t JsonParts::text(std::int32_t from, std::string_view text) {
  const std::int32_t to = builder_.node();
  builder_.text(from, to, text);
  return to;
}

std::int32_t JsonParts::blank_rule() {
  if (blank_) return *blank_;
  blank_ = builder_.rule();
  const auto [entry, exit] = builder_.at(*blank_);
  builder_.empty(entry, exit);
  builder_.bytes(entry, exit, ' ', ' ');
  std::int32_t at = text(entry, "\n");
  for (int i = 0;; ++i) {
    builder_.empty(at, exit);
    if (i == kMostIndent) return *blank_;
    const std::int32_t next = builder_.node();
    builder_.bytes(at, next, ' ', ' '), builder_.bytes(at, next, '\t', '\t');
    at = next;
  }
}

// Two digits as said, and two of any kind.
void JsonParts::hex(std::int32_t from, std::int32_t to, std::string_view first, std::string_view second) {
  const auto digit = [&](std::int32_t at, std::int32_t next, std::string_view which) {
    for (const char c : which) builder_.bytes(at, next, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c));
    return next;
  };
  constexpr std::string_view kAny = "0123456789abcdefABCDEF";
  std::int32_t at = digit(from, builder_.node(), first);
  at = digit(at, builder_.node(), second);
  at = digit(at, builder_.node(), kAny);
  digit(at, to, kAny);
}

// What follows a backslash; halves of characters beyond U+FFFF come in pairs.
std::int32_t JsonParts::escape_rule() {
  if (escape_) return *escape_;
  escape_ = builder_.rule();
  const auto [entry, exit] = builder_.at(*escape_);
  const std::int32_t behind = text(entry, "\\");
  for (const char c : std::string_view("\"\\/bfnrt"))
    builder_.bytes(behind, exit, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c));
  const std::int32_t code = text(behind, "u");
  constexpr std::string_view kAny = "0123456789abcdefABCDEF";
  hex(code, exit, "0123456789abcefABCEF", kAny);
  hex(code, exit, "dD", "01234567");
  const std::int32_t half = builder_.node();
  hex(code, half, "dD", "89abAB");
  hex(text(half, "\\u"), exit, "dD", "cdefCDEF");
  return *escape_;
}

// One character of a string, however it is written.
void JsonParts::character(std::int32_t from, std::int32_t to) {
  static const CharSet set = raw();
  builder_.character(from, to, set);
  builder_.call(from, to, escape_rule());
}

std::int32_t JsonParts::string_rule() {
  if (string_) return *string_;
  string_ = builder_.rule();
  const auto [entry, exit] = builder_.at(*string_);
  const std::int32_t inside = text(entry, "\"");
  character(inside, inside);
  builder_.text(inside, exit, "\"");
  return *string_;
}

void JsonParts::string(std::int32_t from, std::int32_t to, std::int64_t least, std::optional<std::int64_t> most) {
  std::int32_t at = text(from, "\"");
  for (std::int64_t i = 0; i < most.value_or(least); ++i) {
    if (i >= least) builder_.text(at, to, "\"");
    const std::int32_t next = builder_.node();
    character(at, next);
    at = next;
  }
  if (!most) {
    const std::int32_t loop = builder_.node();
    builder_.empty(at, loop);
    character(loop, loop);
    at = loop;
  }
  builder_.text(at, to, "\"");
}

// As most writers of JSON do: escaped only where it has to be.
void JsonParts::spell(std::int32_t from, std::int32_t to, const CharSet& set) {
  static const CharSet as_it_is = raw();
  builder_.character(from, to, set.intersection(as_it_is));
  std::vector<char32_t> escaped;
  const CharSet others = set.intersection(as_it_is.complement());
  for (const Range& range : others.ranges())
    for (char32_t c = range.first; c <= range.last; ++c) escaped.push_back(c);
  if (escaped.empty()) return;
  auto found = escaped_.find(escaped);
  if (found == escaped_.end()) {
    const std::int32_t rule = builder_.rule();
    for (const char32_t c : escaped) {
      const std::string written = nlohmann::json(std::string(1, static_cast<char>(c))).dump();
      builder_.text(builder_.at(rule).entry, builder_.at(rule).exit,
                    std::string_view(written).substr(1, written.size() - 2));
    }
    found = escaped_.emplace(std::move(escaped), rule).first;
  }
  builder_.call(from, to, found->second);
}

void JsonParts::pattern(std::int32_t from, std::int32_t to, std::string_view pattern, bool whole) {
  const RegexTree tree = read_regex(pattern, what_, /*ecma=*/true);
  const std::int32_t begin = text(from, "\""), end = builder_.node();
  build_regex(tree, builder_, begin, end,
              [this](std::int32_t a, std::int32_t b, const CharSet& set) { spell(a, b, set); },
              {.what = what_, .searches = !whole});
  builder_.text(end, to, "\"");
}

void JsonParts::regex(std::int32_t from, std::int32_t to, const std::string& pattern) {
  build_regex(read_regex(pattern, what_, /*ecma=*/true), builder_, from, to,
              [this](std::int32_t a, std::int32_t b, const CharSet& set) { builder_.character(a, b, set); },
              {.what = what_});
}

void JsonParts::other_name(std::int32_t from, std::int32_t to, const std::vector<std::string>& names) {
  struct Node {
    std::int32_t node;
    bool is_name = false;
    std::map<char32_t, std::size_t> next = {};
  };
  static const CharSet as_it_is = raw();
  const auto is_raw = [](char32_t c) { return c > 0x1F && c != '"' && c != '\\'; };
  std::vector<Node> nodes{{text(from, "\"")}};
  for (const std::string& name : names) {
    std::size_t node = 0, at = 0;
    while (at < name.size()) {
      const char32_t c = next_code_point(name, at);
      if (!is_raw(c)) break;
      const auto found = nodes[node].next.find(c);
      const std::size_t next = found == nodes[node].next.end() ? nodes.size() : found->second;
      if (next == nodes.size()) {
        nodes[node].next[c] = next;
        nodes.push_back({builder_.node()});
      }
      node = next;
      if (at == name.size()) nodes[node].is_name = true;
    }
    if (name.empty()) nodes[0].is_name = true;
  }
  const std::int32_t free = builder_.node();
  builder_.character(free, free, as_it_is);
  builder_.text(free, to, "\"");
  for (const Node& node : nodes) {
    CharSet taken;
    for (const auto& [c, next] : node.next) {
      CharSet one;
      one.add(c, c), taken.add(c, c);
      builder_.character(node.node, nodes[next].node, one);
    }
    builder_.character(node.node, free, as_it_is.intersection(taken.complement()));
    if (!node.is_name) builder_.text(node.node, to, "\"");
  }
}

std::int32_t JsonParts::object_rule() {
  if (object_) return *object_;
  object_ = builder_.rule();
  const auto [entry, exit] = builder_.at(*object_);
  const std::int32_t inside = text(entry, "{"), member = builder_.node(), colon = builder_.node(),
                     last = builder_.node(), close = builder_.node();
  builder_.text(inside, exit, "}");
  blank(inside, member);
  string(member, colon);
  const std::int32_t value = builder_.node();
  blank(text(colon, ":"), value);
  any(value, last);
  blank(text(last, ","), member);
  blank(last, close);
  builder_.text(close, exit, "}");
  return *object_;
}

std::int32_t JsonParts::array_rule() {
  if (array_) return *array_;
  array_ = builder_.rule();
  const auto [entry, exit] = builder_.at(*array_);
  const std::int32_t inside = text(entry, "["), item = builder_.node(), last = builder_.node(),
                     close = builder_.node();
  builder_.text(inside, exit, "]");
  blank(inside, item);
  any(item, last);
  blank(text(last, ","), item);
  blank(last, close);
  builder_.text(close, exit, "]");
  return *array_;
}

std::int32_t JsonParts::any_rule() {
  if (any_) return *any_;
  any_ = builder_.rule();
  const auto [entry, exit] = builder_.at(*any_);
  any_object(entry, exit);
  any_array(entry, exit);
  string(entry, exit);
  regex(entry, exit, numbers_within({}) + "|true|false|null");
  return *any_;
}

}  // namespace hone::text
