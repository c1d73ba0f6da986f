// Whether an answer is what its record says it should be.
#include "rewards/answer_check.h"

#include "base/strings.h"
#include "rewards/final_answer.h"

namespace hone::rewards {

AnswerCheck::AnswerCheck(const AnswerCheckOptions& options, const std::string& what) : options_(options) {
  if (options.after.starts_with("</")) opening_ = "<" + options.after.substr(2);
  if (!options.pattern.empty()) pattern_.emplace(options.pattern, what + ": pattern");
}

// The prompt may have opened it: chat templates of reasoning models do.
bool AnswerCheck::is_still_thinking(const Answer& answer) const {
  if (opening_.empty() || answer.text.find(options_.after) != std::string::npos) return false;
  return answer.text.find(opening_) != std::string::npos || trim(answer.prompt).ends_with(opening_);
}

std::string_view AnswerCheck::conclusion(std::string_view text) const {
  const std::size_t end = options_.after.empty() ? std::string_view::npos : text.rfind(options_.after);
  return end == std::string_view::npos ? text : text.substr(end + options_.after.size());
}

std::optional<bool> AnswerCheck::is_right(const Answer& answer) const {
  const auto found = [&](std::string_view text) { return pattern_ ? pattern_->last_in(text) : std::nullopt; };
  const std::string_view told = conclusion(answer.reference), given = conclusion(answer.text);
  const auto match = found(told);
  const std::string right = plain_answer(match ? *match : final_answer(told));
  if (right.empty()) return std::nullopt;
  if (is_still_thinking(answer)) return false;
  const auto own = pattern_ ? found(given) : std::optional<std::string>(final_answer(given));
  return own && same_answer(plain_answer(*own), right, options_.case_sensitive);
}

}  // namespace hone::rewards
