// Two states: text between tags, and the inside of a tag.
#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/jinja/case.h"
#include "text/jinja/fault.h"
#include "text/jinja/literals.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::jinja {
namespace {

using Type = Token::Type;
constexpr std::size_t kNoEnd = std::string_view::npos;

// Line ends become \n.
std::string normal_lines(std::string_view source, Spacing spacing) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n';
    } else {
      out += source[i];
    }
  }
  if (spacing == Spacing::of_chat_templates && out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, Spacing spacing)
      : source_(normal_lines(source, spacing)), trims_(spacing == Spacing::of_chat_templates) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(Type::end);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool here(std::string_view text) const { return rest().starts_with(text); }
  void add(Type type, std::string text = "") { tokens_.push_back({type, line_, std::move(text)}); }

  void skip_to(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
    starts_line_ = to > 0 && source_[to - 1] == '\n';
  }
  void skip_space() {
    std::size_t to = at_;
    while (to < source_.size()) {
      std::size_t next = to;
      if (!is_space(text::next_code_point(source_, next))) break;
      to = next;
    }
    skip_to(to);
  }

  // Behind a tag's end: "-" takes all white space with it, "+" nothing, else the line end goes.
  void skip_after_end(char mark, bool trims) {
    if (mark == '-')
      skip_space();
    else if (mark != '+' && trims && trims_ && here("\n"))
      skip_to(at_ + 1);
    else
      starts_line_ = false;
  }

  // Text up to a tag that begins at `tag` with the given mark.
  void add_data(std::size_t tag, char mark, bool strips_line) {
    std::string_view data = std::string_view(source_).substr(at_, tag - at_);
    if (mark == '-') {
      data = strip(data, std::nullopt, Side::right);
    } else if (mark != '+' && strips_line && trims_) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t begin = newline == kNoEnd ? 0 : newline + 1;
      if ((begin > 0 || starts_line_) && strip(data.substr(begin), std::nullopt).empty()) data = data.substr(0, begin);
    }
    if (!data.empty()) add(Type::data, std::string(data));
    skip_to(tag);
  }

  std::size_t next_tag() const {
    for (std::size_t at = at_; (at = source_.find('{', at)) != kNoEnd && at + 1 < source_.size(); ++at)
      if (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#') return at;
    return kNoEnd;
  }

  void text() {
    const std::size_t tag = next_tag();
    if (tag == kNoEnd) {
      add(Type::data, std::string(rest()));
      skip_to(source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char mark = after == '-' || after == '+' ? after : '\0';
    add_data(tag, mark, kind != '{');
    if (kind == '%' && maybe_raw(tag + 2 + (mark != 0))) return;
    at_ = tag + 2 + (mark != 0);
    if (kind == '#') return comment();
    add(kind == '{' ? Type::variable_begin : Type::block_begin);
    inside(kind == '{' ? '}' : '%');
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == kNoEnd) fail_at(line_, "missing end of comment");
    const char mark = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+') ? source_[end - 1] : '\0';
    skip_to(end + 2);
    skip_after_end(mark, true);
  }

  // {% raw %}...{% endraw %}; false: it is another tag. `at` is behind "{%" and its mark.
  bool maybe_raw(std::size_t at) {
    const auto word_end = [&](std::size_t from, std::string_view word) -> std::size_t {  // behind "word" and blanks
      while (from < source_.size() && is_space(static_cast<unsigned char>(source_[from]))) ++from;
      if (source_.compare(from, word.size(), word) != 0) return kNoEnd;
      from += word.size();
      while (from < source_.size() && is_space(static_cast<unsigned char>(source_[from]))) ++from;
      return from;
    };
    std::size_t begin = word_end(at, "raw");
    if (begin == kNoEnd) return false;
    const bool trims = source_.compare(begin, 3, "-%}") == 0;
    if (!trims && source_.compare(begin, 2, "%}") != 0) return false;
    skip_to(begin + (trims ? 3 : 2));
    skip_after_end(trims ? '-' : '\0', false);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != kNoEnd; tag += 2) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const char mark = sign == '-' || sign == '+' ? sign : '\0';
      const std::size_t end = word_end(tag + 2 + (mark != 0), "endraw");
      if (end == kNoEnd) continue;
      const char last = end < source_.size() ? source_[end] : '\0';
      const bool marked = last == '-' || last == '+';
      if (source_.compare(end + marked, 2, "%}") != 0) continue;
      add_data(tag, mark, true);
      skip_to(end + marked + 2);
      skip_after_end(marked ? last : '\0', true);
      return true;
    }
    fail_at(line_, "missing end of raw");
  }

  // The inside of {{ }} or {% %}; `close` is the character before its last "}".
  void inside(char close) {
    const std::string ends[] = {std::string(1, close) + "}", std::string("-") + close + "}",
                                std::string("+") + close + "}"};
    const int begin = line_;
    for (std::vector<char> open;;) {
      skip_space();
      if (at_ == source_.size()) fail_at(begin, "a tag without its end");
      if (open.empty()) {
        const bool minus = here(ends[1]), plus = close == '%' && here(ends[2]);
        if (minus || plus || here(ends[0])) {
          add(close == '}' ? Type::variable_end : Type::block_end);
          skip_to(at_ + ends[0].size() + (minus || plus));
          skip_after_end(minus ? '-' : plus ? '+' : '\0', close == '%');
          return;
        }
      }
      token(open);
    }
  }

  void token(std::vector<char>& open) {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return string_token(c);
    if (c >= '0' && c <= '9') return number_token();
    if (name_token()) return;
    sign_token(open);
  }

  void string_token(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, fmt::format("unexpected char '{}'", quote));
    add(Type::string, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_));
    skip_to(end + 1);
  }

  void number_token() {
    const Number number = read_number(rest(), at_ > 0 && source_[at_ - 1] == '.', line_);
    tokens_.push_back({number.whole ? Type::integer : Type::real, line_, "", number.integer, number.real});
    at_ += number.size;
  }

  bool name_token() {
    std::size_t end = at_;
    while (end < source_.size()) {
      std::size_t next = end;
      const char32_t c = text::next_code_point(source_, next);
      if (c != '_' && !is_alnum(c)) break;
      end = next;
    }
    if (end == at_) return false;
    add(Type::name, source_.substr(at_, end - at_));
    at_ = end;
    return true;
  }

  void sign_token(std::vector<char>& open) {
    constexpr std::array<std::string_view, 26> kSigns = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(), [&](std::string_view text) { return here(text); });
    if (sign == kSigns.end()) {
      std::size_t end = at_;
      text::next_code_point(source_, end);
      fail_at(line_, fmt::format("unexpected char {}", hone::quoted(std::string_view(source_).substr(at_, end - at_))));
    }
    const char c = sign->size() == 1 ? (*sign)[0] : '\0';
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail_at(line_, fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail_at(line_, fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    add(Type::sign, std::string(*sign));
    at_ += sign->size();
  }

  const std::string source_;
  const bool trims_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;  // what was read last ended a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, Spacing spacing) { return Lexer(source, spacing).run(); }

}  // namespace hone::jinja
