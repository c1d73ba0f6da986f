// A program of the user's that answers of several turns are spoken with: tools, a game, somebody who asks back.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/dialogue.h"
#include "hone/config_read.h"
#include "hone/error.h"

namespace hone::objectives {

struct EnvironmentOptions {
  std::string command;
  std::int64_t max_turns = 8;
  double timeout = 300;
  std::int64_t retries = 0;
  bool keep_turns = true;
  static constexpr auto fields() {
    using C = EnvironmentOptions;
    return std::tuple{
        field("command", &C::command,
              "What /bin/sh runs once per step, in the folder that hone was started in, and what answers of several "
              "turns are spoken with (docs/guide/rl.md): it reads a line of JSON for each turn of the model's and "
              "writes one, {\"messages\": [...]} or {\"text\": ...}, which the model reads next, or {\"done\": true, "
              "\"reward\": 0.5}. Default: answers are one turn."),
        field("max_turns", &C::max_turns,
              "Turns of the model's in an answer at most; its tokens, with those of what it is told, are at most "
              "max_completion_length.",
              {.low = 1, .high = 10'000}),
        field("timeout", &C::timeout,
              "Seconds without a line of it, while it has turns to answer; then it is ended, and so is the run, unless "
              "there are retries.",
              {.low = 0.01, .high = 86400}, OnResume::record),
        field("retries", &C::retries,
              "How often it is started anew where it is silent for too long or ends before it has answered: it is told "
              "all lines of the step again, and must answer those that it had answered as before; with a warning, "
              "after 1 s, then 2, 4 ..., 60 at most.",
              {.low = 0, .high = 1000}, OnResume::record),
        field("keep_turns", &C::keep_turns,
              "Keep keys and values of what was said until the next turn, of as many answers as are made at the same "
              "time; false: each turn reads its conversation anew, which takes less memory and more time.",
              OnResume::record)};
  }
  void validate(Problems& problems) const;
};

// What the program says to a turn.
struct Reply {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  // that follow
  std::optional<std::string> text = {};                               // instead of them
  bool done = false;
  std::optional<double> reward = {};  // once it is done
  std::int64_t failures = 0;          // of the turn's calls
};

// The program of one step. It is started when there is something to say.
class Environment {
 public:
  // counts_rewards: whether anything is made of those that it gives; where not, giving one is an error.
  explicit Environment(const EnvironmentOptions& options, bool counts_rewards = true)
      : options_(options), counts_rewards_(counts_rewards) {}
  // Of these lines of JSON each one's answer. Throws Error(data): what is wrong with the program or its answers; and
  // Error(kStopped) when the run is told to stop: nobody waits for it then.
  std::vector<Reply> say(const std::vector<nlohmann::ordered_json>& lines);
  void finish();  // throws Error(data): another exit code than 0
  Error error(const std::string& fact) const;
  std::int64_t max_turns() const { return options_.max_turns; }
  bool keeps_turns() const { return options_.keep_turns; }
  std::int64_t next_number() { return next_number_++; }  // of a conversation

 private:
  // What it was told at once, and has answered; kept where it may be told again.
  struct Said {
    std::string told;
    std::vector<std::string> heard;
  };
  void start();
  Dialogue::Heard hear(const std::string& told, std::size_t expected);
  Reply reply_in(const std::string& line, std::size_t number, const nlohmann::ordered_json& told) const;

  const EnvironmentOptions& options_;
  const bool counts_rewards_;
  std::unique_ptr<Dialogue> dialogue_;
  std::vector<Said> said_;
  std::int64_t next_number_ = 0;
};

}  // namespace hone::objectives
