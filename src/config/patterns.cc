// Regular expressions in recipes.
#include "config/patterns.h"

#include <fmt/format.h>

#include <regex>

#include "base/strings.h"

namespace hone::config {

void check_patterns(const std::vector<std::string>& patterns, const std::string& path, Problems& problems) {
  for (const std::string& pattern : patterns) try {
      const std::regex expression(pattern);
    } catch (const std::regex_error& error) {
      problems.add(path, fmt::format("got {}, expected a regular expression as in ECMAScript: {}",
                                     hone::quoted(pattern), error.what()));
    }
}

}  // namespace hone::config
