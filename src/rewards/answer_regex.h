// Regular expressions of the user's, searched for in what a model has answered.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hone/config.h"
#include "text/regex/regex.h"

namespace hone::rewards {

// In Oniguruma's syntax, as those of tokenizers. An answer that is too long a search (it is cut off after ten million
// steps) has no match: what a model writes does not end its training. Immutable: any thread.
class AnswerRegex {
 public:
  // Error(config): it is none; `what` begins the message.
  AnswerRegex(std::string_view pattern, const std::string& what);
  static void check(const std::string& pattern, const std::string& option, Problems& problems);

  bool is_in(std::string_view text) const { return last_in(text).has_value(); }
  // What group 1 took of the last match, or the whole match where there is no group; nothing: no match.
  std::optional<std::string> last_in(std::string_view text) const;

 private:
  text::Regex regex_;
};

}  // namespace hone::rewards
