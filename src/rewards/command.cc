// What a program of the user's says of answers: a line of JSON each in, a line with a number each out.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/child.h"
#include "base/strings.h"
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
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

class UserCommand final : public Reward {
 public:
  struct Config {
    std::string command;
    double timeout = 300;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("command", &C::command,
                "What /bin/sh runs once per step, in the folder that hone was started in, while training waits for it. "
                "It reads a line of JSON for each answer: {\"prompt\", \"completion\", \"reference\", \"ids\", "
                "\"complete\", \"record\", \"step\"}, of several turns \"messages\", too, and writes a line for each, "
                "in their order: a number, null where it says nothing, or an object with \"reward\". Anything else, "
                "and an exit code, ends the run."),
          field("timeout", &C::timeout, "Seconds for the answers of a step; then it is ended, and so is the run.",
                {.low = 0.01, .high = 86400}, OnResume::free)};
    }
    void validate(Problems& problems) const {
      problems.require(command.find_first_not_of(" \t\n") != std::string::npos, "command", "missing");
      problems.require(command.find('\0') == std::string::npos, "command", "holds a byte 0");
    }
  };
  explicit UserCommand(const Config& config) : config_(config) {}

  std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                           const RewardContext& context) const override {
    if (answers.empty()) return {};
    std::string input;
    for (const Answer& answer : answers) input += line_of(answer, context.step);
    // A run that is to stop finishes its step first, and so does this.
    const ChildOptions options{.without = rank_variables(), .seconds = config_.timeout};
    const ChildResult result = run_shell(config_.command, options, input);
    if (!result.failure.empty()) throw error(result.failure);
    return read(result.output, answers.size());
  }

 private:
  Error error(const std::string& fact) const {
    return Error(ErrorKind::data, fmt::format("reward command: `{}`: {}", escape_for_terminal(config_.command), fact));
  }

  std::vector<std::optional<double>> read(std::string_view output, std::size_t expected) const {
    if (output.empty()) throw error(fmt::format("it wrote nothing; expected {}, a line for each answer", expected));
    if (output.ends_with('\n')) output.remove_suffix(1);
    std::vector<std::optional<double>> scores;
    for (const std::string& line : split(output, '\n')) scores.push_back(score_in(trim(line), scores.size() + 1));
    if (scores.size() != expected)
      throw error(fmt::format("it wrote {}; expected {}, one for each answer", counted(std::ssize(scores), "line"),
                              expected));
    return scores;
  }

  std::optional<double> score_in(std::string_view line, std::size_t number) const {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool has_reward = json.is_object() && json.contains("reward");
    const nlohmann::json& value = has_reward ? json["reward"] : json;
    if (value.is_null()) return std::nullopt;
    if (value.is_number()) return value.get<double>();  // finite: the parser refuses others
    throw error(fmt::format("line {} of what it wrote: got {}, expected a number, null or an object with \"reward\"",
                            number, quoted(line)))
        .hint("what else it has to say belongs on its standard error");
  }
  Config config_;
};

}  // namespace

void register_command(Registries& hone) {
  hone.rewards.add<UserCommand>("command", "What a program of yours says of each answer.");
}

}  // namespace hone::rewards
