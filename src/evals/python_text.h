// Texts as the programs in Python have them by which written answers are measured; the rest of what Python's strings do
// is in text/jinja.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone::evals {

std::vector<std::string> python_split(std::string_view text);  // str.split(). REQUIRES: UTF-8
std::u32string code_points(std::string_view text);
std::string as_utf8(std::u32string_view text);

}  // namespace hone::evals
