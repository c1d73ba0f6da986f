// What a program of the user's says of answers: a line of JSON each in, a line with a number each out.
#include <nlohmann/json.hpp>

#include "base/ask_program.h"
#include "hone/config_read.h"
#include "hone/error.h"
#include "hone/registry.h"
#include "hone/reward.h"

namespace hone::rewards {
namespace {

using nlohmann::ordered_json;

std::string line_of(const Answer& answer, std::int64_t step) {
  ordered_json line{{"prompt", answer.prompt},
                    {"completion", answer.text},
                    {"reference", answer.reference},
                    {"ids", answer.ids},
                    {"complete", answer.complete},
                    {"record", answer.record},
                    {"step", step + 1}};  // as it is counted everywhere else
  if (!answer.messages.empty()) line["messages"] = ordered_json::parse(answer.messages);
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

class UserCommand final : public Reward {
 public:
  struct Config {
    std::string command;
    double timeout = 300;
    std::int64_t retries = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("command", &C::command,
                "What /bin/sh runs once per step, in the folder that hone was started in, while training waits for it. "
                "It reads a line of JSON for each answer: {\"prompt\", \"completion\", \"reference\", \"ids\", "
                "\"complete\", \"record\", \"step\"}, of several turns \"messages\", too, and writes a line for each, "
                "in their order: a number, null where it says nothing, or an object with \"reward\". Anything else, "
                "and an exit code, ends the run."),
          field("timeout", &C::timeout,
                "Seconds for the answers of a step; then it is ended, and so is the run, unless there are retries.",
                {.low = 0.01, .high = 86400}, OnResume::free),
          field("retries", &C::retries,
                "How often it is started anew, with the same lines, where it takes too long, ends with an exit code or "
                "writes another number of lines; with a warning, after 1 s, then 2, 4 ..., 60 at most.",
                {.low = 0, .high = 1000}, OnResume::free)};
    }
    void validate(Problems& problems) const {
      problems.require(command.find_first_not_of(" \t\n") != std::string::npos, "command", "missing");
      problems.require(command.find('\0') == std::string::npos, "command", "holds a byte 0");
    }
  };
  explicit UserCommand(const Config& config) : config_(config) {}

  std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                           const RewardContext& context) const override {
    const AskedProgram judge("reward command", {config_.command, config_.timeout, config_.retries});
    std::vector<std::string> lines;
    for (const Answer& answer : answers) lines.push_back(line_of(answer, context.step));
    const std::vector<std::string> told = judge.answers(lines);
    std::vector<std::optional<double>> scores;
    for (std::size_t i = 0; i < told.size(); ++i) scores.push_back(score_in(told[i], i + 1, judge));
    return scores;
  }

 private:
  static std::optional<double> score_in(const std::string& line, std::size_t number, const AskedProgram& judge) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool has_reward = json.is_object() && json.contains("reward");
    const nlohmann::json& value = has_reward ? json["reward"] : json;
    if (value.is_null()) return std::nullopt;
    if (value.is_number()) return value.get<double>();  // finite: the parser refuses others
    throw judge.error_of_line(number, line, "a number, null or an object with \"reward\"");
  }
  Config config_;
};

}  // namespace

void register_command(Registries& hone) {
  hone.rewards.add<UserCommand>("command", "What a program of yours says of each answer.");
}

}  // namespace hone::rewards
