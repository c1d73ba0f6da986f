// Words as a shell's command line has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone {

std::string shell_word(std::string_view text);  // as it is, or in quotes
std::string shell_line(const std::vector<std::string>& words);

}  // namespace hone
