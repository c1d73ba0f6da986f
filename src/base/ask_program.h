// A program of the user's that is asked something by lines: it reads one for each question, and writes one for each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone {

// Each time it is started by /bin/sh, for so many seconds at most. Where it fails it is asked the same anew, so often.
struct AskedHow {
  std::string command;
  double seconds = 0;
  std::int64_t retries = 0;
};

// What ends every wait for a program: that a run that minds signals is told to stop, or that another rank has failed,
// of which whoever hears it tells with the kind of error that waits end with. By any thread.
bool is_told_to_stop();
void check_wait(const std::string& doing);  // if so: Error(kStopped), or of that kind
void tell_others_failed(ErrorKind kind);

// What has failed so often is to be asked anew: says so, and waits for a second, then two, four ..., a minute at most.
// Throws Error(kStopped) when the run is told to stop meanwhile.
void wait_to_ask_anew(const std::string& failure, std::int64_t times, std::int64_t retries);

class AskedProgram {
 public:
  // who: asks, for messages, as "reward command"; what: a line is about.
  AskedProgram(std::string who, AskedHow how, std::string what = "answer")
      : who_(std::move(who)), how_(std::move(how)), what_(std::move(what)) {}
  // What it says to each of these lines, without blanks around. Throws Error(data): what is wrong with it; and
  // Error(kStopped) when the run is told to stop: nobody waits for it then.
  std::vector<std::string> answers(const std::vector<std::string>& lines) const;
  Error error(const std::string& fact) const;
  // Of an answer, counted from 1, that is not as it is expected to be.
  Error error_of_line(std::size_t number, const std::string& line, const std::string& expected) const;

 private:
  std::vector<std::string> asked(const std::string& input, std::size_t expected) const;
  std::string who_;
  AskedHow how_;
  std::string what_;
};

}  // namespace hone
