#include "evals/python_text.h"

#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::evals {
std::u32string code_points(std::string_view text) {
  std::u32string all;
  for (std::size_t at = 0; at < text.size();) all += text::next_code_point(text, at);
  return all;
}

std::string as_utf8(std::u32string_view text) {
  std::string made;
  for (const char32_t c : text) text::append_utf8(made, c);
  return made;
}

std::vector<std::string> python_split(std::string_view text) {
  const jinja::Parts words = jinja::split_on_space(text, -1);
  return {words.begin(), words.end()};
}

}  // namespace hone::evals
