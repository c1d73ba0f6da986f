// A program of the user's that is asked something by lines: it reads one for each question, and writes one for each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone {

class AskedProgram {
 public:
  // who: asks, for messages, as "reward command"; what: a line is about. Each time it is started by /bin/sh, for so
  // many seconds at most.
  AskedProgram(std::string who, std::string command, double seconds, std::string what = "answer")
      : who_(std::move(who)), command_(std::move(command)), seconds_(seconds), what_(std::move(what)) {}
  // What it says to each of these lines, without blanks around. Throws Error(data): what is wrong with it.
  std::vector<std::string> answers(const std::vector<std::string>& lines) const;
  Error error(const std::string& fact) const;
  // Of an answer, counted from 1, that is not as it is expected to be.
  Error error_of_line(std::size_t number, const std::string& line, const std::string& expected) const;

 private:
  std::string who_, command_;
  double seconds_;
  std::string what_;
};

}  // namespace hone
