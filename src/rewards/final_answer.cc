// Final answers: where they stand and when two of them are the same.
//
// All is done in one pass over a text: answers are as long as a model likes and are made of anything.
#include "rewards/final_answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/strings.h"

namespace hone::rewards {
namespace {

constexpr double kNear = 1.000001e-6;      // 0.333333 is 1/3
constexpr double kRounding = 1e-12;        // 19.999999999999996 is 20
constexpr std::size_t kMostDigits = 15;    // that a double tells apart

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word(char c) { return is_digit(c) || is_letter(c) || static_cast<unsigned char>(c) >= 0x80; }

// What stands in the braces that close, and belong to a \boxed, of the one that begins last.
std::optional<std::string_view> last_boxed(std::string_view text) {
  static constexpr std::string_view kBoxed = "\\boxed";
  struct Brace {
    std::size_t begin;  // of what is in it
    bool boxed;
  };
  std::vector<Brace> open;
  std::size_t begin = 0, end = 0, boxed_until = std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kBoxed)) {
      i += kBoxed.size() - 1;
      boxed_until = i + 1;
    } else if (text[i] == '\\') {
      ++i;  // \{ is no brace
    } else if (text[i] == '{') {
      open.push_back({i + 1, boxed_until == i});
    } else if (is_space(text[i]) && boxed_until == i) {
      ++boxed_until;
    } else if (text[i] == '}' && !open.empty()) {
      if (open.back().boxed && open.back().begin > begin) begin = open.back().begin, end = i;
      open.pop_back();
    }
  }
  if (begin == 0) return std::nullopt;
  return text.substr(begin, end - begin);
}

std::optional<std::string_view> behind_hashes(std::string_view text) {
  static constexpr std::string_view kMark = "####";
  const std::size_t at = text.rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + kMark.size());
  return rest.substr(0, rest.find('\n'));
}

// LaTeX that changes how an answer looks, not what it says, taken away.
class Plain {
 public:
  explicit Plain(std::string_view text) : text_(text) {}

  std::string made() {
    while (at_ < text_.size()) {
      if (take("^\\circ") || take("^{\\circ}")) continue;
      if (take("{,}")) out_ += ',';
      else if (take("\xE2\x88\x92")) out_ += '-';  // U+2212
      else if (text_[at_] == '\\') command();
      else if (text_[at_] == '{' || text_[at_] == '}') brace();
      else out_ += text_[at_++];
    }
    return std::move(out_);
  }

 private:
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void brace() {
    const char c = text_[at_++];
    bool stays = true;
    if (c == '{') {
      kept_.push_back(true);
    } else if (!kept_.empty()) {
      stays = kept_.back();
      kept_.pop_back();
    }
    if (stays) out_ += c;
  }
  void command() {
    ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) return sign();
    if (name == "left" || name == "right" || name == "displaystyle") return;
    if (name == "dfrac" || name == "tfrac") {
      out_ += "\\frac";
    } else if (std::find(kAround.begin(), kAround.end(), name) != kAround.end() && take("{")) {
      kept_.push_back(false);
    } else {
      out_ += '\\';
      out_ += name;
    }
  }
  // Behind a backslash that no letter follows.
  void sign() {
    const char c = at_ < text_.size() ? text_[at_++] : ' ';
    if (std::string_view("()[]!").find(c) != std::string_view::npos) return;  // where mathematics begins and ends
    if (std::string_view(",;: ").find(c) != std::string_view::npos) {
      out_ += ' ';
    } else {
      if (std::string_view("$%&#").find(c) == std::string_view::npos) out_ += '\\';
      out_ += c;
    }
  }

  static constexpr std::array<std::string_view, 9> kAround{"text",   "textbf", "textit", "textrm",      "mbox",
                                                           "mathrm", "mathbf", "mathit", "operatorname"};
  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> kept_;  // of the braces that are open: whether they stay
};

std::string with_few_spaces(std::string_view text) {
  std::string made;
  bool space = false;
  for (const char c : text) {
    if (is_space(c)) {
      space = true;
      continue;
    }
    if (space && !made.empty() && is_word(made.back()) && is_word(c)) made += ' ';
    space = false;
    made += c;
  }
  return made;
}

// 1,234,567.89 without its commas; nothing: they do not part thousands.
std::optional<std::string> without_thousands(std::string_view text) {
  std::string digits;
  std::size_t group = 0;
  bool parted = false;
  const std::string_view whole = text.substr(0, text.find('.'));
  for (const char c : whole) {
    if (c != ',') {
      digits += c;
      ++group;
      continue;
    }
    if (parted ? group != 3 : group == 0 || group > 3) return std::nullopt;
    parted = true;
    group = 0;
  }
  if (parted && group != 3) return std::nullopt;
  return digits + std::string(text.substr(whole.size()));
}

std::optional<double> decimal(std::string_view text) {
  if (text.empty() || !(is_digit(text[0]) || text[0] == '.')) return std::nullopt;
  const auto plain = without_thousands(text);
  if (!plain) return std::nullopt;
  const auto other = std::find_if_not(plain->begin(), plain->end(), is_digit);
  if (static_cast<std::size_t>(other - plain->begin()) > kMostDigits) return std::nullopt;
  return parse_double(*plain);
}

// One argument of a LaTeX command: {12}, or a single character.
std::string_view take_argument(std::string_view& text) {
  if (text.empty()) return {};
  const bool braces = text[0] == '{';
  const std::size_t close = braces ? text.find('}') : 0;
  if (close == std::string_view::npos) return {};
  const std::string_view argument = braces ? text.substr(1, close - 1) : text.substr(0, 1);
  text.remove_prefix(close + 1);
  return argument;
}

std::optional<double> signed_decimal(std::string_view text) {
  if (!text.starts_with('-')) return decimal(text);
  const auto size = decimal(text.substr(1));
  return size ? std::optional(-*size) : std::nullopt;
}

std::optional<double> quotient(std::string_view over, std::string_view under) {
  const auto a = signed_decimal(over), b = signed_decimal(under);
  if (!a || !b || *b == 0) return std::nullopt;
  return *a / *b;
}

std::optional<double> fraction(std::string_view text) {
  static constexpr std::string_view kCommand = "\\frac";
  if (text.starts_with(kCommand)) {
    text.remove_prefix(kCommand.size());
    const std::string_view over = take_argument(text), under = take_argument(text);
    return text.empty() ? quotient(over, under) : std::nullopt;
  }
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return quotient(text.substr(0, slash), text.substr(slash + 1));
}

bool is_around(std::string_view text, std::string_view mark) {
  return text.size() >= 2 * mark.size() && text.starts_with(mark) && text.ends_with(mark);
}

}  // namespace

std::string_view final_answer(std::string_view text) {
  if (const auto boxed = last_boxed(text)) return *boxed;
  return behind_hashes(text).value_or(text);
}

std::string plain_answer(std::string_view text) {
  const std::string plain = Plain(text).made();
  std::string_view left = trim(plain);
  for (std::size_t before = left.size() + 1; left.size() < before;) {
    before = left.size();
    if (left.ends_with('.')) left.remove_suffix(1);
    for (const std::string_view mark : {"$$", "$", "**"})
      if (is_around(left, mark)) left = left.substr(mark.size(), left.size() - 2 * mark.size());
    left = trim(left);
  }
  if (left.size() == 3 && left[0] == '(' && is_letter(left[1]) && left[2] == ')') left = left.substr(1, 1);
  return with_few_spaces(left);
}

std::optional<double> number_of(std::string_view plain) {
  double sign = 1;
  bool has_sign = false, has_dollar = false;
  for (; !plain.empty(); plain.remove_prefix(1)) {
    const char c = plain[0];
    if (c == '$' && !has_dollar) has_dollar = true;
    else if ((c == '-' || c == '+') && !has_sign) has_sign = true, sign = c == '-' ? -1 : 1;
    else break;
  }
  if (plain.ends_with('%')) plain.remove_suffix(1);
  std::optional<double> size = decimal(plain);
  if (!size) size = fraction(plain);
  return size ? std::optional(sign * *size) : std::nullopt;
}

bool same_answer(std::string_view a, std::string_view b, bool case_sensitive) {
  const auto x = number_of(a), y = number_of(b);
  if (x && y) {
    const int whole = (*x == std::floor(*x)) + (*y == std::floor(*y));
    const double share = whole == 0 ? kNear : whole == 1 ? kRounding : 0;
    return std::abs(*x - *y) <= share * std::max(std::abs(*x), std::abs(*y));
  }
  return case_sensitive ? a == b : to_lower(a) == to_lower(b);
}

}  // namespace hone::rewards
