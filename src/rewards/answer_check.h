// Whether an answer is what its record says it should be: what the rewards accuracy and cosine share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "hone/config_read.h"
#include "hone/reward.h"
#include "rewards/answer_regex.h"

namespace hone::rewards {

struct AnswerCheckOptions {
  std::string pattern, after = "</think>";
  bool case_sensitive = false;
  static constexpr auto fields() {
    using C = AnswerCheckOptions;
    return std::tuple{
        field("pattern", &C::pattern,
              "Regular expression (Oniguruma's, in which . is not the end of a line) whose last match is what is "
              "compared, or its first group; an answer without a match is wrong, a reference without one is read as "
              "by default: the last \\boxed{}, else the rest of the line behind the last ####, else all of it."),
        field("after", &C::after,
              "What ends the reasoning: only what is behind its last occurrence counts, and an answer that opens "
              "<think> without such an end is wrong; \"\" = all of an answer counts."),
        field("case_sensitive", &C::case_sensitive, "Whether capitals matter where texts are compared.")};
  }
  void validate(Problems& problems) const { AnswerRegex::check(pattern, "pattern", problems); }
};

// Immutable: any thread.
class AnswerCheck {
 public:
  AnswerCheck(const AnswerCheckOptions& options, const std::string& what);
  // Nothing: the reference says nothing that one could compare with.
  std::optional<bool> is_right(const Answer& answer) const;

 private:
  bool is_still_thinking(const Answer& answer) const;
  std::string_view conclusion(std::string_view text) const;  // behind the reasoning

  AnswerCheckOptions options_;
  std::string opening_;  // <think> of </think>; "": there is none
  std::optional<AnswerRegex> pattern_;
};

}  // namespace hone::rewards
