// Answers as lines of JSON.
#include "objectives/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "hone/world.h"

namespace hone::objectives {
namespace {

using nlohmann::ordered_json;

std::string dumped(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// null: there is none.
ordered_json number_of(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::isnan(value) ? ordered_json() : ordered_json(value);
}

ordered_json line_of(const Rollout& rollout, const ToldNumbers& numbers, std::size_t i, std::int64_t step) {
  const Answer& answer = rollout.answers[i];
  ordered_json line{{"step", step}, {"record", answer.record}, {"prompt", answer.prompt}, {"completion", answer.text}};
  if (!answer.messages.empty()) line["messages"] = ordered_json::parse(answer.messages);
  if (!answer.reference.empty()) line["reference"] = answer.reference;
  line["tokens"] = count_said(answer);
  line["complete"] = answer.complete;
  line["rewards"] = ordered_json::object();
  for (const auto& [name, values] : numbers.rewards) line["rewards"][name] = number_of(values[i]);
  for (const auto& [name, values] : numbers.others) line[name] = number_of(values[i]);
  return line;
}

// This rank's, micro-batch by micro-batch.
ordered_json own_lines(const Rollout& rollout, const ToldNumbers& numbers, std::int64_t step) {
  ordered_json batches = ordered_json::array();
  std::size_t answer = 0;
  for (const std::size_t prompts : rollout.prompts) {
    ordered_json& lines = batches.emplace_back(ordered_json::array());
    for (std::size_t end = answer + prompts * static_cast<std::size_t>(rollout.each); answer < end; ++answer)
      lines.push_back(line_of(rollout, numbers, answer, step));
  }
  return batches;
}

// Of all ranks, each of which has every size()th micro-batch.
std::vector<ordered_json> in_order(const std::vector<std::string>& told) {
  std::vector<ordered_json> ranks, lines;
  std::size_t most = 0;
  for (const std::string& one : told) {
    ranks.push_back(ordered_json::parse(one));
    most = std::max(most, ranks.back().size());
  }
  for (std::size_t i = 0; i < most; ++i)
    for (const ordered_json& batches : ranks)
      if (i < batches.size()) lines.insert(lines.end(), batches[i].begin(), batches[i].end());
  return lines;
}

void print(const std::vector<ordered_json>& lines, std::size_t count) {
  const std::size_t shown = std::min(count, lines.size());
  for (std::size_t k = 0; k < shown; ++k) {
    const ordered_json& line = lines[k * lines.size() / shown];
    std::string numbers;
    for (const char* name : {"reward", "advantage", "preference"})
      if (const auto found = line.find(name); found != line.end() && found->is_number())
        numbers += fmt::format("{}{} {:.4g}", numbers.empty() ? "" : ", ", name, found->get<double>());
    log::info("step {}: {} -> {}{}", line["step"].get<std::int64_t>(), dumped(line["prompt"]),
              dumped(line["completion"]), numbers.empty() ? "" : " (" + numbers + ")");
  }
}

}  // namespace

void tell_completions(const Rollout& rollout, const ToldNumbers& numbers, std::int64_t printed,
                      const StepContext& context) {
  if (!context.tell_answers) return;
  const std::vector<std::string> told = context.world.gather(dumped(own_lines(rollout, numbers, context.step + 1)));
  if (!context.world.is_first()) return;
  const std::vector<ordered_json> lines = in_order(told);
  std::vector<std::string> texts;
  for (const ordered_json& line : lines) texts.push_back(dumped(line));
  context.tell_answers(texts);
  print(lines, static_cast<std::size_t>(printed));
}

}  // namespace hone::objectives
