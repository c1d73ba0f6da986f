// A recipe's options, or flags.
#include "base/option_words.h"

#include <fmt/format.h>

#include <atomic>

#include "base/shell_words.h"
#include "base/strings.h"
#include "hone/error.h"

namespace hone {
namespace {

std::atomic<const char*> flags{nullptr};  // what is in front of their names; null: a recipe's options

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
  for (const auto& [known, name] : columns) {
    const std::string field = escape_for_terminal(name);
    each.push_back(prefix ? fmt::format("{} {}", flag(prefix, "columns"), shell_word(known + "=" + field))
                          : fmt::format("{}: {}", known, field));
  }
  return prefix ? join(each, " ") : fmt::format("columns: {{{}}}", join(each, ", "));
}

std::string ignore_words(std::string_view field) {
  const char* const prefix = flags.load();
  return prefix ? fmt::format("{} {}", flag(prefix, "ignore"), shell_word(escape_for_terminal(field)))
                : fmt::format("ignore: [{}] beside the file's path", escape_for_terminal(field));
}

}  // namespace hone
