#include "base/shell_words.h"

#include <algorithm>
#include <cctype>

#include "base/strings.h"

namespace hone {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "_-./=:,@+";
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? std::string(text) : "'" + replace_all(std::string(text), "'", R"('\'')") + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace hone
