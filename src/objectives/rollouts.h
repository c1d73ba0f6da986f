// A step's answers: the model's own, to the prompts of its micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "hone/config.h"
#include "hone/generate.h"
#include "hone/objective.h"
#include "hone/reward.h"

namespace hone::objectives {

// How answers are drawn.
struct SamplingOptions {
  std::int64_t max_completion_length = 512;
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  std::int64_t top_k = 0;
  std::vector<std::string> stop;
  std::string regex;
  std::optional<std::int64_t> generation_batch_size = {};
  static constexpr auto fields() {
    using C = SamplingOptions;
    return std::tuple{
        field("max_completion_length", &C::max_completion_length,
              "Tokens of an answer at most; data.max_length is of a prompt with what its answers are compared with.",
              {.low = 1, .high = 1 << 20}),
        field("temperature", &C::temperature,
              "Logits are divided by it before tokens are drawn; of grpo, rloo and ppo also where it is learnt how "
              "likely they were.",
              {.low = 0.01, .high = 100}),
        field("top_p", &C::top_p, "Draw among the likeliest tokens that together have this probability; 1 = all.",
              {.low = 1e-6, .high = 1}),
        field("top_k", &C::top_k, "Draw among the k likeliest tokens; 0 = all.", config::at_least(0)),
        field("min_p", &C::min_p, "Leave out tokens less likely than this share of the likeliest one.",
              {.low = 0, .high = 1}),
        field("repetition_penalty", &C::repetition_penalty, "Above 1: tokens already in the text become less likely.",
              {.low = 1e-6, .high = 1e6}),
        field("stop", &C::stop, "Texts that end an answer."),
        field("regex", &C::regex,
              "Regular expression that an answer, or what the model says in a turn, matches as a whole; default: "
              "none."),
        field("generation_batch_size", &C::generation_batch_size,
              "Answers that are made at the same time, each with its keys and values in memory; default: all of a "
              "micro-batch.",
              config::at_least(1))};
  }
};

// What a micro-batch asks.
struct Asked {
  std::vector<std::int32_t> ids = {};  // as the model is to go on with it
  std::string reference = {};          // what answers are compared with; "": nothing
  std::vector<std::int32_t> reference_ids = {};  // its tokens, or those of a teacher's prompt
  std::int64_t record = 0;
};
std::vector<Asked> asked_by(const Batch& batch, const Tokenizer& tokenizer);

// Prompt by prompt, so many answers to each.
struct Rollout {
  std::vector<std::size_t> prompts = {};  // how many of each micro-batch
  std::vector<Asked> asked = {};
  std::int64_t each = 1;
  std::vector<Answer> answers = {};
  const Asked& of(std::size_t answer) const { return asked[answer / static_cast<std::size_t>(each)]; }
};

// An answer as it was given, in one turn or, with an environment, several. text and reason are those of the last turn.
struct GivenAnswer : Generated {
  std::vector<bool> heard = {};  // as Answer::heard, and so on
  std::string messages = {};
  std::optional<double> outcome = {};
  std::int64_t turns = 1, calls = 0, failures = 0;  // of the model's; of tools, and those that were none or failed
  bool is_complete() const { return reason != FinishReason::length; }
};

// Of each answer its seed.
using SeedOfAnswer = std::function<std::uint64_t(std::size_t prompt, std::int64_t which)>;
// Of a step's prompts, which are its micro-batches' documents; over ranks each has its own. draw: of prompts that are
// drawn in it again.
SeedOfAnswer seeds_of_step(const Group& group, const StepContext& context, std::int64_t draw = 0);
// Of a held-out batch's, by records, so that the same data have the same draws whatever batch they are in.
SeedOfAnswer seeds_of_evaluation(const Batch& batch, const StepContext& context);
// Who says something: a model, or its geometric mixture with another one.
struct Speaker {
  RoleModel model;
  const RoleModel* other = nullptr;
  double share = 0;  // the other's
};
// What is said to them, for `each` answers of every prompt; prompt 0 is the first of all micro-batches'.
std::vector<Generated> sample(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                              const SamplingOptions& options, const StepContext& context);
std::vector<Generated> sample_by(const Speaker& speaker, const std::vector<Asked>& asked, std::int64_t each,
                                 const SeedOfAnswer& seed, const SamplingOptions& options, const StepContext& context);

// What a model says behind each of these texts.
struct Draw {
  std::vector<std::int32_t> ids = {};
  std::uint64_t seed = 0;
  std::int64_t most = 0;  // tokens
};
std::unique_ptr<Generator> generator_of(const Speaker& speaker, const StepContext& context);
std::vector<Generated> draw(Generator& generator, const std::vector<Draw>& draws, const SamplingOptions& options,
                            const StepContext& context);

// How the prompts of one micro-batch are answered, `each` times every one.
using Answering = std::function<std::vector<GivenAnswer>(const std::vector<Asked>& asked, const SeedOfAnswer& seed)>;
// A group's prompts, and what was said to them. Each micro-batch is answered by itself: on any number of ranks its
// prompts are computed together with the same ones.
struct Answered {
  Rollout rollout = {};  // without answers
  std::vector<GivenAnswer> given = {};
};
Answered answered_by(const Answering& answer, const Group& group, std::int64_t each, const SeedOfAnswer& seed,
                     const StepContext& context);

// Puts what was said into the rollout, as rewards and completions.jsonl are told of it; numbers of turns stay in given.
void take_answers(Rollout& rollout, std::vector<GivenAnswer>& given, const StepContext& context);

// Tokens of an answer that the model said.
std::int64_t count_said(const Answer& answer);

// The micro-batches to learn from: answers to one prompt are documents of one row and group (Role::answer) whose labels
// are the tokens that the model said. Those with `left_out` have none. by_answer: numbers of each answer, which become
// columns of documents, fp64.
Group learnt_from(const Rollout& rollout, const std::map<std::string, std::vector<double>>& by_answer,
                  const std::vector<bool>& left_out);

}  // namespace hone::objectives
