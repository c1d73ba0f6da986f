// A reader by recursive descent: alternatives, sequences, repetitions, atoms.
#include "text/form/regex_tree.h"

#include <fmt/format.h>

#include <optional>

#include "base/strings.h"
#include "hone/error.h"
#include "text/form/regex_classes.h"

namespace hone::text {
namespace {

using Kind = RegexTree::Kind;
using Part = RegexTree::Part;

constexpr int kDeepest = 200;
constexpr std::int64_t kMostTimes = 1'000'000;
constexpr std::size_t kMostParts = 400'000;  // more than there may be states

class Reader {
 public:
  Reader(std::string_view pattern, const std::string& what, bool ecma)
      : pattern_(pattern), what_(what), classes_{.ecma = ecma} {
    if (!is_utf8(pattern)) throw Error(ErrorKind::config, what_ + ": not UTF-8");
  }

  RegexTree read() {
    read_flags();
    tree_.root = either();
    if (!ended()) fail("a ) without its (");
    return std::move(tree_);
  }

 private:
  bool ended() const { return at_ == pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool maybe(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take() {
    if (ended()) fail("ends too early");
    return next_code_point(pattern_, at_);
  }
  [[noreturn]] void fail(const std::string& fact, const std::string& hint = "") const { fail_at(at_, fact, hint); }
  [[noreturn]] void fail_at(std::size_t at, const std::string& fact, const std::string& hint = "") const {
    Error error(ErrorKind::config, fmt::format("{}: {} at byte {} of {}", what_, fact, at, hone::quoted(pattern_)));
    if (hint.empty()) throw error;
    throw std::move(error).hint(hint);
  }
  std::int32_t add(Part part) {
    if (tree_.parts.size() >= kMostParts) fail(fmt::format("more than {} parts", kMostParts));
    tree_.parts.push_back(std::move(part));
    return static_cast<std::int32_t>(tree_.parts.size() - 1);
  }
  std::int32_t characters(CharSet set) {
    tree_.sets.push_back(std::move(set));
    return add({Kind::characters, static_cast<std::int32_t>(tree_.sets.size() - 1)});
  }

  // (?s) and so on, of the whole pattern.
  void read_flags() {
    while (next_is("(?")) {
      std::size_t end = at_ + 2;
      while (end < pattern_.size() && pattern_[end] >= 'a' && pattern_[end] <= 'z') ++end;
      if (end == at_ + 2 || end >= pattern_.size() || pattern_[end] != ')') return;
      for (at_ += 2; at_ < end; ++at_) take_flag(pattern_[at_]);
      ++at_;
    }
  }
  void take_flag(char flag) {
    if (flag == 's')
      classes_.dot_is_all = true;
    else if (flag == 'a')
      classes_.ascii = true;
    else if (flag != 'u')
      fail(fmt::format("the flag {}; expected s, a or u", hone::quoted(std::string(1, flag))),
           flag == 'i' ? "write both cases, as in [aA]" : "");
  }

  std::int32_t either() {
    if (++depth_ > kDeepest) fail("groups are nested too deep");
    Part all{Kind::either};
    do
      all.parts.push_back(join());
    while (maybe("|"));
    --depth_;
    return all.parts.size() == 1 ? all.parts[0] : add(std::move(all));
  }

  std::int32_t join() {
    Part all{Kind::join};
    while (!ended() && !next_is("|") && !next_is(")")) all.parts.push_back(repeated());
    if (all.parts.empty()) return add({});
    return all.parts.size() == 1 ? all.parts[0] : add(std::move(all));
  }

  std::int32_t repeated() {
    std::int32_t part = atom();
    std::optional<std::pair<std::int64_t, std::int64_t>> times = maybe_times();
    if (!times) return part;
    const Kind kind = tree_.parts[static_cast<std::size_t>(part)].kind;
    if (is_anchor_ || kind == Kind::begin || kind == Kind::end) fail("nothing to repeat");
    if (maybe("+")) fail("a possessive repetition", "the languages of a++ and a+ differ only by what follows");
    maybe("?");  // takes the fewest first: the same language
    if (maybe_times()) fail("a repetition of a repetition", "put the inner one into (?:...)");
    return add({Kind::repeat, -1, {part}, times->first, times->second});
  }

  std::optional<std::pair<std::int64_t, std::int64_t>> maybe_times() {
    if (maybe("*")) return std::pair{0, -1};
    if (maybe("+")) return std::pair{1, -1};
    if (maybe("?")) return std::pair{0, 1};
    if (!next_is("{")) return std::nullopt;
    const std::size_t begin = at_++;
    const auto number = [&] {
      const std::size_t first = at_;
      while (!ended() && pattern_[at_] >= '0' && pattern_[at_] <= '9') ++at_;
      return pattern_.substr(first, at_ - first);
    };
    const std::string_view least = number();
    const bool two = maybe(",");
    const std::string_view most = two ? number() : least;
    if ((least.empty() && !two) || !maybe("}")) {
      at_ = begin;  // a brace like any other character
      return std::nullopt;
    }
    const auto value = [&](std::string_view digits, std::int64_t otherwise) {
      if (digits.empty()) return otherwise;
      const auto read = parse_int(digits);
      if (!read || *read > kMostTimes) fail(fmt::format("more than {} times", kMostTimes));
      return *read;
    };
    const std::pair<std::int64_t, std::int64_t> times{value(least, 0), value(most, -1)};
    if (times.second >= 0 && times.second < times.first) fail("at least more often than at most");
    return times;
  }

  std::int32_t atom() {
    is_anchor_ = false;
    if (next_is("*") || next_is("+") || next_is("?")) fail("nothing to repeat");
    if (const std::size_t at = at_; next_is("{")) {
      if (maybe_times()) at_ = at, fail("nothing to repeat");
    }
    const char32_t c = take();
    switch (c) {
      case '(':
        return group();
      case '[':
        return characters(read_class(pattern_, at_, classes_, [this](const std::string& fact) { fail(fact); }));
      case '.':
        return characters(classes_.dot());
      case '^':
        return is_anchor_ = true, add({Kind::begin});
      case '$':
        return is_anchor_ = true, add({Kind::end});
      case '\\':
        return escape();
      default: {
        CharSet one;
        one.add(c, c);
        return characters(std::move(one));
      }
    }
  }

  std::int32_t escape() {
    const char next = ended() ? '\0' : pattern_[at_];
    if (next == 'A' || next == 'Z') {
      ++at_, is_anchor_ = true;
      return add({next == 'A' ? Kind::begin : Kind::end});
    }
    if (next == 'b' || next == 'B') fail("\\b and \\B, which look around, are not held");
    if ((next >= '1' && next <= '9') || next == 'k') fail("a reference to a group, which is not held");
    return characters(read_escape(pattern_, at_, classes_, /*in_class=*/false,
                                  [this](const std::string& fact) { fail(fact); }));
  }

  std::int32_t group() {
    const std::size_t opened = at_ - 1;
    const RegexClasses before = classes_;
    if (maybe("?")) {
      for (const char* look : {"=", "!", "<=", "<!"})
        if (next_is(look)) fail("look-around, which is not held");
      if (next_is(">")) fail("an atomic group, which is not held");
      if (next_is("P=")) fail("a reference to a group, which is not held");
      if (next_is("(")) fail("a condition, which is not held");
      if (maybe("#")) {
        while (take() != ')') {}
        return add({});
      }
      if (maybe("P<") || maybe("<")) {
        while (take() != '>') {}
      } else {
        while (!ended() && pattern_[at_] >= 'a' && pattern_[at_] <= 'z') take_flag(pattern_[at_]), ++at_;
        if (next_is(")")) fail("flags in the middle; expected them at the front, or as in (?s:...)");
        if (!maybe(":")) fail("not a kind of group");
      }
    }
    const std::int32_t inside = either();
    if (!maybe(")")) fail_at(opened, "a ( without its )");
    classes_ = before;
    is_anchor_ = false;
    return inside;
  }

  std::string_view pattern_;
  const std::string& what_;
  RegexClasses classes_;
  RegexTree tree_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_anchor_ = false;
};

// Where a part stands: whether nothing comes before it, or behind it.
struct Ends {
  bool first = false, last = false;
};

class Builder {
 public:
  Builder(const RegexTree& tree, GrammarBuilder& to, const Spell& spell, const RegexUse& use)
      : tree_(tree), to_(to), spell_(spell), use_(use) {}

  void build(std::int32_t which, std::int32_t from, std::int32_t to, Ends ends) {
    const Part& part = tree_.parts[static_cast<std::size_t>(which)];
    switch (part.kind) {
      case Kind::nothing:
        return to_.empty(from, to);
      case Kind::characters:
        return spell_(from, to, tree_.sets[static_cast<std::size_t>(part.set)]);
      case Kind::begin:
      case Kind::end:
        if (!(part.kind == Kind::begin ? ends.first : ends.last))
          throw Error(ErrorKind::config, fmt::format("{}: {} inside; expected it {} only", use_.what,
                                                     part.kind == Kind::begin ? "^" : "$",
                                                     part.kind == Kind::begin ? "at the beginning" : "at the end"));
        return to_.empty(from, to);
      case Kind::either:
        for (const std::int32_t one : part.parts) build(one, from, to, ends);
        return;
      case Kind::join:
        return join(part, from, to, ends);
      case Kind::repeat:
        return repeat(part, from, to);
    }
  }

  // Any text around a match that does not say where it stands.
  void search(std::int32_t which, std::int32_t from, std::int32_t to) {
    const Part& part = tree_.parts[static_cast<std::size_t>(which)];
    if (part.kind == Kind::either) {
      for (const std::int32_t one : part.parts) search(one, from, to);
      return;
    }
    const auto kind_of = [&](std::int32_t one) { return tree_.parts[static_cast<std::size_t>(one)].kind; };
    const bool is_join = part.kind == Kind::join;
    const Ends ends{kind_of(is_join ? part.parts.front() : which) == Kind::begin,
                    kind_of(is_join ? part.parts.back() : which) == Kind::end};
    const std::int32_t begin = ends.first ? from : any(from), end = ends.last ? to : to_.node();
    build(which, begin, end, ends);
    if (!ends.last) to_.empty(any(end), to);
  }

 private:
  std::int32_t any(std::int32_t from) {
    const std::int32_t loop = to_.node();
    to_.empty(from, loop);
    spell_(loop, loop, CharSet().complement());
    return loop;
  }

  bool is_anchor(std::int32_t which) const {
    const Kind kind = tree_.parts[static_cast<std::size_t>(which)].kind;
    return kind == Kind::begin || kind == Kind::end || kind == Kind::nothing;
  }

  void join(const Part& part, std::int32_t from, std::int32_t to, Ends ends) {
    std::size_t first = 0, last = part.parts.size() - 1;  // what is no anchor
    while (first < last && is_anchor(part.parts[first])) ++first;
    while (last > first && is_anchor(part.parts[last])) --last;
    for (std::size_t i = 0; i < part.parts.size(); ++i) {
      const std::int32_t next = i + 1 == part.parts.size() ? to : to_.node();
      build(part.parts[i], from, next, {ends.first && i <= first, ends.last && i >= last});
      from = next;
    }
  }

  // x{2,4} as x x (x (x)?)?, with ways out that each lead to the end at once.
  void repeat(const Part& part, std::int32_t from, std::int32_t to) {
    const std::int32_t inner = part.parts[0];
    const auto more = [&](std::int32_t at) {
      const std::int32_t next = to_.node();
      build(inner, at, next, {});
      return next;
    };
    const std::int32_t begin = to_.node();  // what leads to `from` again must not come into the repetition
    to_.empty(from, begin);
    from = begin;
    for (std::int64_t i = 0; i < part.least; ++i) from = more(from);
    if (part.most < 0) {
      const std::int32_t loop = to_.node();
      to_.empty(from, loop);
      build(inner, loop, loop, {});
      return to_.empty(loop, to);
    }
    for (std::int64_t i = part.least; i < part.most; ++i) to_.empty(from, to), from = more(from);
    to_.empty(from, to);
  }

  const RegexTree& tree_;
  GrammarBuilder& to_;
  const Spell& spell_;
  const RegexUse& use_;
};

}  // namespace

RegexTree read_regex(std::string_view pattern, const std::string& what, bool ecma) {
  return Reader(pattern, what, ecma).read();
}

void build_regex(const RegexTree& tree, GrammarBuilder& builder, std::int32_t from, std::int32_t to, const Spell& spell,
                 const RegexUse& use) {
  Builder made(tree, builder, spell, use);
  if (use.searches)
    made.search(tree.root, from, to);
  else
    made.build(tree.root, from, to, {true, true});
}

Grammar grammar_of_regex(std::string_view pattern, const std::string& what) {
  const RegexTree tree = read_regex(pattern, what);
  GrammarBuilder builder(what);
  const std::int32_t whole = builder.rule();
  const Grammar::Rule ends = builder.at(whole);
  build_regex(tree, builder, ends.entry, ends.exit,
              [&](std::int32_t from, std::int32_t to, const CharSet& set) { builder.character(from, to, set); },
              {.what = what});
  return builder.take();
}

}  // namespace hone::text
