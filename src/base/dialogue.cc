// Speaking with a command.
#include "base/dialogue.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/strings.h"

namespace hone {

struct Dialogue::State {
  ChildOptions options;
  Talk talk;
  pid_t child = 0;
  Guard guard;
  std::string failure;  // "": it runs
  explicit State(const ChildOptions& given) : options(given), talk("", given.most_output, Talk::Input::first) {}

  // Of what it has said the whole lines, so many at most.
  std::vector<std::string> take_lines(std::size_t most) {
    std::vector<std::string> lines;
    const std::string& text = talk.output();
    std::size_t begin = 0;
    for (std::size_t end = 0; lines.size() < most && (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      lines.push_back(text.substr(begin, end - begin));
    talk.forget(begin);
    return lines;
  }
  void end(std::string why) {
    end_with_all_it_started(child);
    failure = std::move(why);
  }
  // REQUIRES: it has ended
  std::string too_early(std::size_t known, std::size_t expected) const {
    const std::string told = told_of_status(wait_for(child, options.seconds).value_or(0));
    if (known >= expected) return "ended before it had read what it was told";
    return fmt::format("{} after {} of {}", told.empty() ? "ended" : told, known,
                       counted(static_cast<std::int64_t>(expected), "line"));
  }
  std::string silent() const { return fmt::format("no further line for {:g} s, so it was ended", options.seconds); }
  std::string too_late() const { return fmt::format("not done after {:g} s, so it was ended", options.seconds); }
  bool is_told_to_stop() const { return options.stopped && options.stopped(); }
  std::string stopped() const { return "ended, as the run was told to stop"; }
  std::string too_much() const { return fmt::format("wrote more than {}", human_size(options.most_output)); }
};

Dialogue::Dialogue(const std::string& command, const ChildOptions& options) : state_(std::make_unique<State>(options)) {
  state_->failure = start_shell(state_->child, state_->guard, command, options, &state_->talk);
}

Dialogue::~Dialogue() {
  if (state_->failure.empty()) end_with_all_it_started(state_->child);
}

Dialogue::Heard Dialogue::say(const std::string& lines, std::size_t expected) {
  State& s = *state_;
  if (!s.failure.empty()) return {s.failure, {}};
  s.talk.say(lines);
  Stopwatch watch;  // since something came or went last
  const auto count = [&] { return static_cast<std::size_t>(std::ranges::count(s.talk.output(), '\n')); };
  std::size_t size = 0, known = 0, left = 0;  // lines are counted anew where more has come
  while (known < expected || !s.talk.has_said_all()) {
    const bool is_over = has_ended(s.child);
    if (is_over) s.talk.drain();
    if (s.talk.output().size() != size) {
      const std::size_t before = known;
      size = s.talk.output().size(), known = count();
      if (known != before) watch.restart();
    }
    if (s.talk.left_to_say() != left) left = s.talk.left_to_say(), watch.restart();
    if (known >= expected && s.talk.has_said_all()) break;  // its end, if it has come, is finish()'s
    if (is_over) {
      s.failure = s.too_early(known, expected);
    } else if (s.talk.is_too_much()) {
      s.end(s.too_much());
    } else if (s.is_told_to_stop()) {
      s.end(s.stopped());
    } else if (watch.seconds() > s.options.seconds) {
      s.end(s.silent());
    } else {
      s.talk.pass(std::chrono::milliseconds(20));
      continue;
    }
    return {s.failure, s.take_lines(expected)};
  }
  return {"", s.take_lines(expected)};
}

std::string Dialogue::finish() {
  State& s = *state_;
  if (!s.failure.empty()) return s.failure;
  s.talk.say_no_more();
  const auto given_up = [&] { return s.talk.is_too_much() || s.is_told_to_stop(); };
  const auto status = wait_for(s.child, s.options.seconds, given_up, &s.talk);
  if (!status) {
    s.end(s.talk.is_too_much() ? s.too_much() : s.is_told_to_stop() ? s.stopped() : s.too_late());
    return s.failure;
  }
  s.talk.drain();
  s.failure = "it has ended";
  if (std::string told = told_of_status(*status); !told.empty()) return told;
  return s.talk.output().empty() ? "" : "wrote more than was asked for: " + hone::quoted(s.talk.output().substr(0, 80));
}

}  // namespace hone
