// Commands in processes of their own, run to their end.
#include "base/child.h"

#include <fmt/format.h>

#include <utility>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/strings.h"

namespace hone {
namespace {

// talk: null where it has nothing to read and its output is not kept.
std::string run(const std::string& command, const ChildOptions& options, Talk* talk) {
  pid_t child = 0;
  Guard guard;
  const bool stops = options.stopped && !options.stopped();  // where that is so before, the command belongs to the end
  if (std::string failure = start_shell(child, guard, command, options, talk); !failure.empty()) return failure;
  const Stopwatch watch;
  const auto given_up = [&] { return (stops && options.stopped()) || (talk && talk->is_too_much()); };
  const auto status = wait_for(child, options.seconds, given_up, talk);
  const bool in_time = watch.seconds() < options.seconds;
  if (!status) end_with_all_it_started(child);
  else if (talk) talk->drain();
  if (talk && talk->is_too_much()) return fmt::format("wrote more than {}", human_size(options.most_output));
  if (status) return told_of_status(*status);
  if (in_time) return "ended, as the run was told to stop";
  return fmt::format("not done after {:g} s, so it was ended", options.seconds);
}

}  // namespace

const std::vector<std::string>& rank_variables() {
  static const std::vector<std::string> names{"RANK",        "LOCAL_RANK",  "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                              "MASTER_ADDR", "MASTER_PORT", "HONE_STORE", "HONE_RANK_TIMEOUT"};
  return names;
}

std::string run_shell(const std::string& command, const ChildOptions& options) {
  return run(command, options, nullptr);
}

ChildResult run_shell(const std::string& command, const ChildOptions& options, std::string_view input) {
  Talk talk(input, options.most_output);
  std::string failure = run(command, options, &talk);
  return {std::move(failure), talk.take_output()};
}

}  // namespace hone
