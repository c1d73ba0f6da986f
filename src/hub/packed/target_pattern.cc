// Compiling expressions to steps, and following all steps that may be next (Thompson, 1968).
#include "hub/packed/target_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace hone::hub {
namespace {

constexpr std::size_t kMostCharacters = 1000, kMostSteps = 1000, kEndless = SIZE_MAX;
using Set = std::bitset<256>;

Set set_of(int (*is)(int)) {
  Set set;
  for (int c = 0; c < 128; ++c)
    if (is(c)) set.set(static_cast<std::size_t>(c));
  return set;
}

Set set_with(char c) { return Set().set(static_cast<unsigned char>(c)); }

[[noreturn]] void unread(const std::string& fact) { throw std::invalid_argument(fact); }

}  // namespace

// By descent: alternatives of sequences of quantified atoms.
class PatternCompiler {
 public:
  using Step = TargetPattern::Step;
  PatternCompiler(std::string_view text, std::vector<Step>& steps) : text_(text), steps_(steps) {}

  void compile() {
    if (text_.size() > kMostCharacters)
      unread(fmt::format("got {} characters, expected at most {}", text_.size(), kMostCharacters));
    alternatives();
    if (at_ < text_.size()) unread("a ) that nothing opens");
    add({Step::Kind::done});
  }

 private:
  bool more() const { return at_ < text_.size(); }
  bool take(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  std::size_t add(Step step) {
    if (steps_.size() >= kMostSteps) unread(fmt::format("more than {} steps", kMostSteps));
    steps_.push_back(std::move(step));
    return steps_.size() - 1;
  }
  std::size_t here() const { return steps_.size(); }

  void alternatives() {
    const std::size_t begin = here();
    sequence();
    std::vector<std::size_t> ends;
    while (take("|")) {
      insert_fork(begin, here() + 2, false);
      for (std::size_t& end : ends) ++end;
      ends.push_back(add({Step::Kind::go}));
      sequence();
    }
    for (const std::size_t end : ends) steps_[end].to = here();
  }

  void sequence() {
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      const std::size_t begin = here();
      atom();
      while (more() && quantify(begin)) {
      }
    }
  }

  // A step before others, which lie one further then.
  void insert_fork(std::size_t at, std::size_t or_to, bool repeated) {
    add({Step::Kind::go});
    std::rotate(steps_.begin() + static_cast<std::ptrdiff_t>(at), steps_.end() - 1, steps_.end());
    for (std::size_t i = at + 1; i < here(); ++i) shift(steps_[i], at, 1);
    steps_[at] = {Step::Kind::fork, at + 1, or_to};
    if (repeated) add({Step::Kind::go, at});
  }
  static void shift(Step& step, std::size_t from, std::size_t by) {
    if (step.to >= from) step.to += by;
    if (step.or_to >= from) step.or_to += by;
  }

  // What begins at a step, so many times.
  bool quantify(std::size_t begin) {
    std::size_t least = 0, most = kEndless;
    if (take("+"))
      least = 1;
    else if (take("?"))
      most = 1;
    else if (!take("*") && !braces(least, most))
      return false;
    if (begins_) unread("a quantifier of ^ or of looking ahead");
    if (take("+")) unread("a possessive quantifier");
    take("?");
    repeat(begin, least, most);
    return true;
  }

  bool braces(std::size_t& least, std::size_t& most) {
    if (!take("{")) return false;
    const auto number = [&](std::size_t otherwise) {
      const std::size_t begin = at_;
      std::size_t made = 0;
      while (more() && std::isdigit(static_cast<unsigned char>(text_[at_])))
        if ((made = made * 10 + static_cast<std::size_t>(text_[at_++] - '0')) > kMostSteps)
          unread(fmt::format("a quantifier beyond {}", kMostSteps));
      return at_ == begin ? otherwise : made;
    };
    const std::size_t first = number(kEndless);
    const bool range = take(",");
    least = first == kEndless ? 0 : first;
    most = range ? number(kEndless) : least;
    if ((first == kEndless && !range) || !take("}") || most < least) unread("braces that are no quantifier");
    return true;
  }

  void repeat(std::size_t begin, std::size_t least, std::size_t most) {
    const std::vector<Step> once(steps_.begin() + static_cast<std::ptrdiff_t>(begin), steps_.end());
    steps_.resize(begin);
    const auto again = [&] {
      const std::size_t by = here() - begin;
      for (Step step : once) {
        shift(step, begin, by);
        add(std::move(step));
      }
    };
    for (std::size_t i = 0; i < least; ++i) again();
    if (most == kEndless) {
      const std::size_t from = here();
      again();
      insert_fork(from, here() + 2, true);
      return;
    }
    for (std::size_t i = least; i < most; ++i) {
      const std::size_t from = here();
      again();
      insert_fork(from, here() + 1, false);
    }
  }

  void atom() {
    if (take("^") || take("\\A")) return void(add({Step::Kind::begin}));
    const bool begins = std::exchange(begins_, false);
    if (take("(?=")) return look(Step::Kind::ahead, begins);
    if (take("(?!")) return look(Step::Kind::not_ahead, begins);
    if (take("(")) return group();
    if (take("[")) return void(add({Step::Kind::one_of, 0, 0, bracket()}));
    if (take("$") || take("\\Z")) return void(add({Step::Kind::end}));
    if (take(".")) return void(add({Step::Kind::one_of, 0, 0, ~set_with('\n')}));
    if (take("\\")) return void(add({Step::Kind::one_of, 0, 0, escaped()}));
    const char c = text_[at_++];
    if (c == '*' || c == '+' || c == '?' || c == '{') unread(fmt::format("a {} with nothing before it", c));
    add({Step::Kind::one_of, 0, 0, set_with(c)});
  }

  void group() {
    if (!take("?:") && take("?")) unread("a group of another kind than (?:, (?= and (?!");
    alternatives();
    if (!take(")")) unread("a ( without )");
  }

  // Only where it is done once.
  void look(Step::Kind kind, bool begins) {
    if (!begins) unread("looking ahead behind the expression's beginning");
    const std::size_t from = add({kind});
    group();
    add({Step::Kind::done});
    steps_[from].to = here();
    begins_ = true;
  }

  Set escaped() {
    if (!more()) unread("a \\ at the end");
    const char c = text_[at_++];
    const char small = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool other = c != small;
    const Set set = small == 'd'   ? set_of(std::isdigit)
                    : small == 's' ? set_of(std::isspace)
                                   : set_of(std::isalnum) | set_with('_');
    if (small == 'd' || small == 's' || small == 'w') return other ? ~set : set;
    if (std::isalnum(static_cast<unsigned char>(c))) unread(fmt::format("\\{}", c));
    return set_with(c);
  }

  Set bracket() {
    const bool other = take("^");
    Set set;
    for (bool first = true; first || !take("]"); first = false) {
      if (!more()) unread("a [ without ]");
      const std::size_t begin = at_;
      const Set low = take("\\") ? escaped() : set_with(text_[at_++]);
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        const char from = text_[begin] == '\\' ? text_[begin + 1] : text_[begin];
        const Set high = take("\\") ? escaped() : set_with(text_[at_++]);
        const auto last = static_cast<unsigned char>(text_[at_ - 1]);
        if (low.count() != 1 || high.count() != 1 || static_cast<unsigned char>(from) > last)
          unread("a range that is none");
        for (std::size_t c = static_cast<unsigned char>(from); c <= last; ++c) set.set(c);
      }
      set |= low;
    }
    return other ? ~set : set;
  }

  std::string_view text_;
  std::vector<Step>& steps_;
  std::size_t at_ = 0;
  bool begins_ = true;  // nothing but ^ and looking ahead stands before
};

TargetPattern::TargetPattern(std::string_view expression) { PatternCompiler(expression, steps_).compile(); }

// The steps that may be next, each once.
class TargetPattern::Run {
 public:
  Run(const std::vector<Step>& steps, std::string_view text) : steps_(steps), text_(text) {}

  bool matches(std::size_t step, std::size_t at) {
    std::vector<std::size_t> now, next;
    std::vector<bool> seen(steps_.size());
    if (follow(step, at, now, seen)) return true;
    for (; at < text_.size() && !now.empty(); ++at) {
      next.clear(), seen.assign(steps_.size(), false);
      for (const std::size_t i : now)
        if (steps_[i].set[static_cast<unsigned char>(text_[at])] && follow(i + 1, at + 1, next, seen)) return true;
      std::swap(now, next);
    }
    return false;
  }

 private:
  // Adds what of a character may be next; true: all of it has matched.
  bool follow(std::size_t first, std::size_t at, std::vector<std::size_t>& into, std::vector<bool>& seen) {
    std::vector<std::size_t> open{first};
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (seen[i]) continue;
      seen[i] = true;
      const Step& step = steps_[i];
      using Kind = Step::Kind;
      if (step.kind == Kind::done) return true;
      if (step.kind == Kind::one_of) into.push_back(i);
      if (step.kind == Kind::fork) open.push_back(step.or_to);
      if (step.kind == Kind::fork || step.kind == Kind::go) open.push_back(step.to);
      if ((step.kind == Kind::begin && at == 0) || (step.kind == Kind::end && at == text_.size()))
        open.push_back(i + 1);
      const bool looks = step.kind == Kind::ahead || step.kind == Kind::not_ahead;
      if (looks && matches(i + 1, at) == (step.kind == Kind::ahead)) open.push_back(step.to);
    }
    return false;
  }

  const std::vector<Step>& steps_;
  std::string_view text_;
};

bool TargetPattern::matches(std::string_view text) const { return Run(steps_, text).matches(0, 0); }

}  // namespace hone::hub
