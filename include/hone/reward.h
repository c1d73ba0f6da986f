// Rewards: what an answer is worth that the model has given while it learns by reinforcement.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/objective.h"
#include "hone/text.h"

namespace hone {

// A model's answer to the prompt of a record.
struct Answer {
  std::string prompt;                         // as the model has read it, special tokens written out
  std::string text;                           // the answer, without special tokens and stop strings
  std::string reference;                      // what the record says of right answers; "": nothing
  std::vector<std::int32_t> prompt_ids, ids;  // ids: with the token that ended the answer, if one did
  bool complete = true;                       // false: cut off at the longest that answers may be
  std::string record;                         // "data/train.jsonl:17", for messages
  // Of several turns, with objective.environment; `text` is then what the model said last.
  std::vector<bool> heard = {};       // for each of ids whether others said it than the model; empty: none
  std::string messages = {};          // what was said since the prompt: a JSON list of messages; "": no environment
  std::optional<double> outcome = {};  // what the environment says that it is worth
};

struct RewardContext {
  const Tokenizer& tokenizer;
  const Resources& resources;  // the models that Reward::models() names, by their roles
  std::int64_t longest = 0;    // tokens of an answer at most
  std::int64_t step = 0;       // done so far; a command's judge is told the next one, as people count
};

// Plug-in (src/rewards). It keeps nothing from step to step, so that a resumed run has the same rewards.
class HONE_API Reward {
 public:
  static constexpr std::string_view kInterface = "reward";
  virtual ~Reward() = default;
  virtual bool needs_reference() const { return false; }  // then data whose records lack one are refused at the start
  virtual bool needs_environment() const { return false; }  // it reads Answer::outcome
  // role -> folder of a model with a head of one label that reads the same tokens; roles of rewards do not meet.
  virtual std::map<std::string, std::string> models() const { return {}; }
  // Error(config): what does not go with the longest that an answer may be.
  virtual void check(std::int64_t /*longest*/) const {}
  // Of each answer; nothing: this reward says nothing of it. What it throws ends the run.
  virtual std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                                   const RewardContext& context) const = 0;
};

}  // namespace hone
