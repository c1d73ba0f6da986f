// Regular expressions on answers.
#include "rewards/answer_regex.h"

#include "base/strings.h"
#include "hone/error.h"

namespace hone::rewards {

AnswerRegex::AnswerRegex(std::string_view pattern, const std::string& what) : regex_(pattern, what) {}

void AnswerRegex::check(const std::string& pattern, const std::string& option, Problems& problems) {
  try {
    const AnswerRegex compiled(pattern, option);
  } catch (const Error& error) {
    problems.add(option, std::string(error.what()).substr(option.size() + 2));  // the list says of what it is
  }
}

std::optional<std::string> AnswerRegex::last_in(std::string_view text) const {
  const std::string whole = with_replaced_utf8(text);  // a cut off answer may end amid a character
  text::RegexScratch scratch;
  std::optional<std::string> last;
  try {
    regex_.each_match(whole, scratch, [&](std::size_t begin, std::size_t end) {
      regex_.narrow_to_group(scratch, begin, end);
      last = whole.substr(begin, end - begin);
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return std::nullopt;
  }
  return last;
}

}  // namespace hone::rewards
