// Asking a program.
#include "base/ask_program.h"

#include <fmt/format.h>

#include <string_view>

#include "base/child.h"
#include "base/strings.h"

namespace hone {

Error AskedProgram::error(const std::string& fact) const {
  return Error(ErrorKind::data, fmt::format("{}: `{}`: {}", who_, escape_for_terminal(command_), fact));
}

Error AskedProgram::error_of_line(std::size_t number, const std::string& line, const std::string& expected) const {
  return error(fmt::format("line {} of what it wrote: got {}, expected {}", number, hone::quoted(line), expected))
      .hint("what else it has to say belongs on its standard error");
}

std::vector<std::string> AskedProgram::answers(const std::vector<std::string>& lines) const {
  if (lines.empty()) return {};
  std::string input;
  for (const std::string& line : lines) input += line + "\n";
  // A run that is to stop finishes its step first, and so does this.
  const ChildOptions options{.without = rank_variables(), .seconds = seconds_};
  const ChildResult result = run_shell(command_, options, input);
  if (!result.failure.empty()) throw error(result.failure);
  std::string_view output = result.output;
  if (output.empty())
    throw error(fmt::format("it wrote nothing; expected {}, a line for each {}", lines.size(), what_));
  if (output.ends_with('\n')) output.remove_suffix(1);
  std::vector<std::string> answers;
  for (const std::string& line : split(output, '\n')) answers.emplace_back(trim(line));
  if (answers.size() != lines.size())
    throw error(fmt::format("it wrote {}; expected {}, one for each {}", counted(std::ssize(answers), "line"),
                            lines.size(), what_));
  return answers;
}

}  // namespace hone
