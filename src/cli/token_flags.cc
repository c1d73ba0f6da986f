// Checks of tokens.
#include "cli/token_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "cli/utf8.h"
#include "hone/error.h"

namespace hone::cli {

void check_token_flags(const std::vector<std::string>& tokens, const std::string& flag) {
  for (const std::string& token : tokens) {
    require_utf8(token, flag, ErrorKind::usage);
    if (token.empty()) throw Error(ErrorKind::usage, flag + ": got an empty text, expected a token");
    if (token.starts_with("[") && token.ends_with("]") && token.find(',') != std::string::npos)
      throw Error(ErrorKind::usage, fmt::format("{}: got {}, expected one token", flag, hone::quoted(token)))
          .hint(fmt::format("several tokens: {0} A {0} B", flag));
    if (std::count(tokens.begin(), tokens.end(), token) > 1)
      throw Error(ErrorKind::usage, fmt::format("{}: {} is given twice", flag, hone::quoted(token)));
  }
}

}  // namespace hone::cli
