// Asking a program about pairs of answers.
#include "objectives/pair_judge.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/ask_program.h"

namespace hone::objectives {
namespace {

using nlohmann::ordered_json;

std::string line_of(const Answer& first, const Answer& second, std::int64_t step) {
  ordered_json line{{"prompt", first.prompt},
                    {"completions", {first.text, second.text}},
                    {"complete", {first.complete, second.complete}},
                    {"reference", first.reference},
                    {"record", first.record},
                    {"step", step + 1}};  // as it is counted everywhere else
  if (!first.messages.empty())
    line["messages"] = {ordered_json::parse(first.messages), ordered_json::parse(second.messages)};
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

double preference_in(const std::string& line, std::size_t number, const AskedProgram& program) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool named = json.is_object() && json.contains("first");
  const nlohmann::json& value = named ? json["first"] : json;
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1) return value.get<double>();
  throw program.error_of_line(number, line, "a number from 0 to 1, null or an object with \"first\"");
}

}  // namespace

void JudgeOptions::validate(Problems& problems) const {
  problems.require(command.empty() || command.find_first_not_of(" \t\n") != std::string::npos, "command", "is blank");
  problems.require(command.find('\0') == std::string::npos, "command", "holds a byte 0");
  problems.require(is_there() || timeout == JudgeOptions{}.timeout, "timeout", "only with a command");
  problems.require(is_there() || retries == 0, "retries", "only with a command");
}

std::vector<double> judged_pairs(const JudgeOptions& judge, const Rollout& rollout, std::int64_t step) {
  const AskedProgram program("judge", {judge.command, judge.timeout, judge.retries}, "pair");
  std::vector<std::string> lines;
  for (std::size_t i = 0; i + 1 < rollout.answers.size(); i += 2)
    lines.push_back(line_of(rollout.answers[i], rollout.answers[i + 1], step));
  const std::vector<std::string> told = program.answers(lines);
  std::vector<double> preferences;
  for (std::size_t i = 0; i < told.size(); ++i) preferences.push_back(preference_in(told[i], i + 1, program));
  return preferences;
}

}  // namespace hone::objectives
