// Asking a program.
#include "base/ask_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <string_view>
#include <thread>

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"

namespace hone {
namespace {

constexpr int kNone = -1;
constexpr const char* kElsewhere = "what else it has to say belongs on its standard error";
std::atomic<int> others_failed{kNone};  // the kind

}  // namespace

Error AskedProgram::error(const std::string& fact) const {
  return Error(ErrorKind::data, fmt::format("{}: `{}`: {}", who_, escape_for_terminal(how_.command), fact));
}

Error AskedProgram::error_of_line(std::size_t number, const std::string& line, const std::string& expected) const {
  return error(fmt::format("line {} of what it wrote: got {}, expected {}", number, hone::quoted(line), expected))
      .hint(line == "NaN" || line == "nan" ? "null says that there is nothing to say of an answer" : kElsewhere);
}

std::vector<std::string> AskedProgram::answers(const std::vector<std::string>& lines) const {
  if (lines.empty()) return {};
  std::string input;
  for (const std::string& line : lines) input += line + "\n";
  for (std::int64_t times = 1;; ++times) {
    try {
      return asked(input, lines.size());
    } catch (const Error& failure) {
      if (failure.kind() != ErrorKind::data || times > how_.retries) throw;
      wait_to_ask_anew(failure.what(), times, how_.retries);
    }
  }
}

std::vector<std::string> AskedProgram::asked(const std::string& input, std::size_t expected) const {
  const std::string doing = "waiting for " + who_;
  check_wait(doing);
  const ChildOptions options{
      .without = rank_variables(), .seconds = how_.seconds, .stopped = is_told_to_stop};
  const ChildResult result = run_shell(how_.command, options, input);
  if (!result.failure.empty()) check_wait(doing);
  if (!result.failure.empty()) throw error(result.failure);
  std::string_view output = result.output;
  if (output.empty())
    throw error(fmt::format("it wrote nothing; expected {}, a line for each {}", expected, what_));
  if (output.ends_with('\n')) output.remove_suffix(1);
  std::vector<std::string> answers;
  for (const std::string& line : split(output, '\n')) answers.emplace_back(trim(line));
  if (answers.size() != expected)
    throw error(fmt::format("it wrote {}, {}{}; expected {}, one for each {}", counted(std::ssize(answers), "line"),
                            answers.size() > 1 ? "the first of which is " : "", hone::quoted(answers.front()), expected,
                            what_))
        .hint(answers.size() > expected ? kElsewhere : "where there is nothing to say the line is null");
  return answers;
}

bool is_told_to_stop() {
  return others_failed != kNone || (StopSignal::wake_fd() >= 0 && StopSignal::stop_requested());
}

void check_wait(const std::string& doing) {
  StopSignal::check(doing);
  if (const int kind = others_failed; kind != kNone)
    throw Error(static_cast<ErrorKind>(kind), doing + ": another rank has failed");
}

void tell_others_failed(ErrorKind kind) { others_failed = static_cast<int>(kind); }

void wait_to_ask_anew(const std::string& failure, std::int64_t times, std::int64_t retries) {
  constexpr double kLongest = 60;
  const double seconds = std::min(kLongest, std::pow(2.0, static_cast<double>(std::min<std::int64_t>(times, 10) - 1)));
  log::warning("{}; asked anew in {:g} s ({} of {})", failure, seconds, times, retries);
  for (const Stopwatch watch; watch.seconds() < seconds; std::this_thread::sleep_for(std::chrono::milliseconds(20)))
    check_wait("waiting to ask a program anew");
}

}  // namespace hone
