// What Python's strings do, as the measures of written answers are defined by programs in Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone::evals {

// str.lower(). REQUIRES: UTF-8.
std::string python_lower(std::string_view text);
bool is_python_space(char32_t c);
std::vector<std::string> python_split(std::string_view text);  // str.split()
std::string_view python_strip_end(std::string_view text);      // str.rstrip()
std::u32string code_points(std::string_view text);
std::string as_utf8(std::u32string_view text);

}  // namespace hone::evals
