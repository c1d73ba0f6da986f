// From Oniguruma's regular expressions to PCRE2's.
#include <fmt/format.h>

#include <vector>

#include "base/strings.h"
#include "hone/error.h"
#include "text/regex/regex.h"
#include "text/unicode/char_set.h"

namespace hone::text {
namespace {

constexpr int kMaxDepth = 100;  // of nested groups and classes

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& what) : pattern_(pattern), what_(what) {
    if (const auto bad = first_bad_utf8(pattern)) fail(fmt::format("not UTF-8 at byte {}", *bad));
  }

  std::string run() {
    groups_.push_back({0, 0});
    while (at_ < pattern_.size()) step();
    if (groups_.size() != 1) fail("a group is not closed");
    out_.append(static_cast<std::size_t>(groups_.back().closers), ')');
    return out_;
  }

 private:
  struct Group {
    std::size_t start;  // in out_
    int closers;        // ')' to add at its end: of options such as (?i), which reach to there
  };

  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorKind::config, fmt::format("{}: regular expression {}: {}", what_, hone::quoted(pattern_), fact));
  }
  bool left(std::size_t n = 1) const { return at_ + n <= pattern_.size(); }
  char peek(std::size_t ahead = 0) const { return left(ahead + 1) ? pattern_[at_ + ahead] : '\0'; }
  char take() {
    if (!left()) fail("ends too early");
    return pattern_[at_++];
  }
  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  void step() {
    const char c = peek();
    switch (c) {
      case '\\':
        return escape();
      case '[': {
        ++at_;
        const CharSet set = char_class(0);
        return atom(to_pcre2(set));
      }
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '*':
      case '+':
      case '?':
        out_ += take();
        if (peek() == '?' || peek() == '+') out_ += take();
        return;
      case '{':
        return interval();
      default: {
        const std::size_t length = utf8_length(c);
        atom(pattern_.substr(at_, length));
        at_ += length;
      }
    }
  }

  void open_group() {
    if (groups_.size() > kMaxDepth) fail(fmt::format("nested too deep; expected at most {} groups", kMaxDepth));
    const std::size_t start = out_.size();
    ++at_;
    if (peek() == '?' && peek(1) == '#') {
      while (take() != ')') {
      }
      return;
    }
    out_ += '(';
    if (peek() != '?') return groups_.push_back({start, 0});
    out_ += take();
    const char kind = peek();
    if (kind == '~') fail("absent operators (?~...) are not supported");
    if (std::string_view(":=!><").find(kind) != std::string_view::npos && left()) {
      out_ += take();
      if (kind == '<' && (peek() == '=' || peek() == '!')) out_ += take();
      return groups_.push_back({start, 0});
    }
    options(start);
  }

  // (?im-x) and (?im-x:...): Ruby's m is the others' s, and an option without ':' reaches over the alternatives that
  // follow.
  void options(std::size_t start) {
    for (char c = take(); c != ')' && c != ':'; c = take()) {
      if (c != 'i' && c != 'm' && c != '-')
        fail(fmt::format("the option {} is not supported; expected i or m", hone::quoted({&c, 1})));
      out_ += c == 'm' ? 's' : c;
    }
    out_ += ':';
    if (pattern_[at_ - 1] == ':') return groups_.push_back({start, 0});
    ++groups_.back().closers;
  }

  void close_group() {
    ++at_;
    if (groups_.size() < 2) fail("a ')' has no '('");
    out_.append(static_cast<std::size_t>(groups_.back().closers) + 1, ')');
    atom_ = groups_.back().start;
    groups_.pop_back();
  }

  // {n}, {n,}, {,m}, {n,m}; a '+' after it repeats, a '?' after {n} makes it optional. Anything else is text.
  void interval() {
    std::size_t i = at_ + 1;
    std::string low, high;
    bool comma = false;
    for (; i < pattern_.size() && pattern_[i] != '}'; ++i) {
      if (pattern_[i] == ',' && !comma)
        comma = true;
      else if (pattern_[i] >= '0' && pattern_[i] <= '9')
        (comma ? high : low) += pattern_[i];
      else
        break;
    }
    if (i >= pattern_.size() || pattern_[i] != '}' || (low.empty() && high.empty())) {
      ++at_;
      return atom("\\{");
    }
    at_ = i + 1;
    out_ += "{" + (low.empty() ? "0" : low) + (comma ? "," + high : "") + "}";
    if (peek() == '+' || (peek() == '?' && !comma)) {
      out_.insert(atom_, "(?:");
      out_ += ')';
      out_ += take();
    } else if (peek() == '?') {
      out_ += take();
    }
  }

  // The set that an escape names, if it names one (\p{..}, \s ...); `at_` is behind the backslash.
  std::optional<CharSet> set_escape() {
    const char c = peek();
    if (const auto set = shorthand(c)) return ++at_, set;
    if (c != 'p' && c != 'P') return std::nullopt;
    if (peek(1) != '{') fail("\\p without {name}");
    const std::size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) fail("\\p{ is not closed");
    const std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
    const auto set = property(name);
    if (!set) fail(fmt::format("unknown property {}; expected a general category or a script", hone::quoted(name)));
    at_ = close + 1;
    return c == 'P' ? set->complement() : set;
  }

  // The character of an escape that stands for one, else nothing; `at_` is behind the backslash.
  std::optional<char32_t> char_escape() {
    const char c = peek();
    static constexpr std::string_view kFrom = "ntrfvae";
    static constexpr char kTo[] = {'\n', '\t', '\r', '\f', '\v', '\a', '\x1b'};
    if (const std::size_t i = kFrom.find(c); i != std::string_view::npos && left()) return ++at_, kTo[i];
    if (c == 'u') return ++at_, hex(4, 4);
    if (c == 'x' && peek(1) == '{') {
      at_ += 2;
      const char32_t value = hex(1, 8);
      if (take() != '}') fail("\\x{ is not closed");
      return value;
    }
    if (c == 'x') {
      ++at_;
      const char32_t value = hex(1, 2);
      if (value > 0x7F) fail("\\x above 7F stands for a byte, not a character");
      return value;
    }
    const bool letter_or_digit = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (letter_or_digit || !left()) return std::nullopt;
    return next_code_point(pattern_, at_);
  }

  char32_t hex(int least, int most) {
    char32_t value = 0;
    int n = 0;
    for (; n < most; ++n, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (n < least || value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF))
      fail("a \\u or \\x escape is no character");
    return value;
  }

  void escape() {
    ++at_;
    if (const auto set = set_escape()) return atom(to_pcre2(*set));
    if (const auto c = char_escape()) return atom(fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(*c)));
    const char c = take();
    if (c == 'b' || c == 'B') {
      const std::string w = to_pcre2(*shorthand('w'));
      return atom(c == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w)
                           : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w));
    }
    if (std::string_view("AzZGRXK").find(c) == std::string_view::npos && !(c >= '1' && c <= '9'))
      fail(fmt::format("the escape \\{} is not supported", c));
    atom(std::string("\\") + c);
  }

  // A class; `at_` is behind its '['. Nested classes unite, && intersects, a leading ^ turns the whole around.
  CharSet char_class(int depth) {
    if (depth > kMaxDepth) fail("classes nested too deep");
    const bool negated = peek() == '^' && left();
    if (negated) ++at_;
    CharSet all = CharSet().complement(), part;
    bool first = true, intersected = false;
    for (; !(peek() == ']' && left() && !first); first = false) {
      if (!left()) fail("a class is not closed");
      if (peek() == '&' && peek(1) == '&') {
        at_ += 2;
        all = all.intersection(part);
        part = CharSet();
        intersected = true;
      } else {
        class_item(part, depth);
      }
    }
    ++at_;
    const CharSet set = intersected ? all.intersection(part) : part;
    return negated ? set.complement() : set;
  }

  void class_item(CharSet& part, int depth) {
    if (peek() == '[' && peek(1) == ':') {
      if (const std::size_t close = pattern_.find(":]", at_ + 2); close != std::string_view::npos) {
        const std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
        const auto set = posix_class(name);
        if (!set)
          fail(fmt::format("unknown class [:{}:]; expected space, digit, word, punct, cntrl, blank or xdigit", name));
        at_ = close + 2;
        return part.add(*set);
      }
    }
    if (peek() == '[') {
      ++at_;
      return part.add(char_class(depth + 1));
    }
    const auto low = class_char(part);
    if (!low) return;
    if (peek() != '-' || peek(1) == ']' || !left(2) || peek(1) == '[') return part.add(*low, *low);
    ++at_;
    CharSet after;
    const auto high = class_char(after);
    if (!high) {  // a-\s: three items
      part.add(*low, *low);
      part.add('-', '-');
      return part.add(after);
    }
    if (*high < *low) fail("a range of a class is empty");
    part.add(*low, *high);
  }

  // One character of a class, or nothing after adding the set that stands here.
  std::optional<char32_t> class_char(CharSet& part) {
    if (peek() != '\\') return next_code_point(pattern_, at_);
    ++at_;
    if (const auto set = set_escape()) return part.add(*set), std::nullopt;
    if (peek() == 'b') return ++at_, U'\b';
    if (const auto c = char_escape()) return c;
    fail(fmt::format("the escape \\{} is not supported in a class", take()));
  }

  std::string_view pattern_;
  const std::string& what_;
  std::size_t at_ = 0, atom_ = 0;
  std::string out_;
  std::vector<Group> groups_;
};

}  // namespace

std::string translate_regex(std::string_view pattern, const std::string& what) {
  return Translator(pattern, what).run();
}

}  // namespace hone::text
