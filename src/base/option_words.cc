// A recipe's options, or flags.
#include "base/option_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>

#include "base/strings.h"
#include "hone/error.h"

namespace hone {
namespace {

std::atomic<const char*> flags{nullptr};  // what is in front of their names; null: a recipe's options

// As one word of a shell's command line.
std::string as_word(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 || std::string_view("_-./=:,").find(static_cast<char>(c)) != std::string::npos;
  });
  const std::string safe = escape_for_terminal(text);
  return plain ? safe : "'" + replace_all(safe, "'", R"('\'')") + "'";
}

// Of one name, whatever section a recipe has it in.
std::string flag(const char* prefix, std::string_view option) {
  option.remove_prefix(option.rfind('.') + 1);  // of none: npos + 1 is 0
  return prefix + replace_all(std::string(option), "_", "-");
}

}  // namespace

WordsOfFlags::WordsOfFlags(const char* prefix) { HONE_ASSERT(flags.exchange(prefix) == nullptr); }
WordsOfFlags::~WordsOfFlags() { flags = nullptr; }

std::string option_words(std::string_view option, std::string_view value) {
  const char* const prefix = flags.load();
  const std::string name = prefix ? flag(prefix, option) : std::string(option);
  return value.empty() ? name : fmt::format("{}{}{}", name, prefix ? " " : ": ", value);
}

std::string columns_words(const std::vector<std::pair<std::string, std::string>>& columns) {
  const char* const prefix = flags.load();
  std::vector<std::string> each;
  for (const auto& [known, field] : columns)
    each.push_back(prefix ? fmt::format("{} {}", flag(prefix, "columns"), as_word(known + "=" + field))
                          : fmt::format("{}: {}", known, escape_for_terminal(field)));
  return prefix ? join(each, " ") : fmt::format("columns: {{{}}}", join(each, ", "));
}

std::string ignore_words(std::string_view field) {
  const char* const prefix = flags.load();
  return prefix ? fmt::format("{} {}", flag(prefix, "ignore"), as_word(field))
                : fmt::format("ignore: [{}] beside the file's path", escape_for_terminal(field));
}

}  // namespace hone
