// Processes of /bin/sh: how they are started, talked to and ended. What child.h and dialogue.h are made of.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/child_options.h"

namespace hone {

// An end of a pipe.
class PipeEnd {
 public:
  PipeEnd() = default;
  ~PipeEnd() { shut(); }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;
  void take(int fd) { fd_ = fd; }
  void shut();
  void never_wait() const;
  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Ends what a command has started where this process ends first, however it does: a process of its own that reads a
// pipe of which nobody else has the other end.
class Guard {
 public:
  Guard() = default;
  ~Guard();  // lets it be
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  std::string start();      // "", or why not
  void watch(pid_t group);  // what it is to end. REQUIRES: start() was called

 private:
  void tell(const std::string& line) const;
  PipeEnd to_it_;
  pid_t process_ = 0;
  bool watches_ = false;
};

// What a command is given to read and what it writes, both at once: it may fill one pipe before it empties the other.
class Talk {
 public:
  enum class Input { all, first };  // whether the input is all that it will read, or more may follow
  Talk(std::string_view input, std::size_t most, Input input_is = Input::all)
      : input_(input), most_(most), input_is_(input_is) {}

  bool open();
  int its_input() const { return its_input_.fd(); }
  int its_output() const { return its_output_.fd(); }
  void has_started();

  // What it is to read next; it must live until it has been handed over. REQUIRES: Input::first
  void say(std::string_view more) { input_ = more; }
  void say_no_more() { to_it_.shut(); }
  bool has_said_all() const { return input_.empty(); }
  std::size_t left_to_say() const { return input_.size(); }
  // Hands over what can be, having waited for that so long at most.
  void pass(std::chrono::milliseconds most);
  // What is there still when it has ended. Others that hold the pipe are not waited for.
  void drain();
  bool is_too_much() const { return output_.size() > most_; }
  bool writes_no_more() const { return !from_it_.is_open(); }
  const std::string& output() const { return output_; }
  std::string take_output() { return std::move(output_); }
  void forget(std::size_t bytes) { output_.erase(0, bytes); }  // of the output, those that have been read

 private:
  void write_some();
  bool read_some();

  std::string_view input_;
  std::size_t most_;
  Input input_is_;
  std::string output_;
  PipeEnd its_input_, to_it_, from_it_, its_output_;
};

// "", or why not. talk: null where it has nothing to read and its output is not kept. guard: as long as it lives, the
// command does not outlive this process.
std::string start_shell(pid_t& child, Guard& guard, const std::string& command, const ChildOptions& options,
                        Talk* talk);

// Its status once it has ended; nothing: it still runs after so long, or when it is given up.
std::optional<int> wait_for(pid_t child, double seconds, const std::function<bool()>& given_up = {},
                            Talk* talk = nullptr);
// Whether wait_for() would have its status at once; it stays to be had.
bool has_ended(pid_t child);
void end_with_all_it_started(pid_t child);
// "" for a status of 0, else what it means.
std::string told_of_status(int status);

}  // namespace hone
