// Answers of several turns: the model's, and what an environment says to them.
#pragma once

#include <cstdint>
#include <vector>

#include "objectives/environment.h"
#include "objectives/rollouts.h"

namespace hone::objectives {

// What a model and an environment say to each other after these prompts, `each` times after every one. The turns of all
// that have not ended are drawn together. What the model has said stays as its tokens were, bit for bit; what it is
// told is put behind it by the chat template, and is as little learnt as a prompt. Where the environment keeps turns,
// one is read from where the last one ended. An answer ends when the environment says so, at its last turn, and, cut
// off, where nothing fits in behind it. A turn's draws go by the answer's seed and the turn's number, so that a first
// turn is the answer of one turn.
std::vector<GivenAnswer> converse(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                                  const SamplingOptions& options, Environment& environment, const StepContext& context);

}  // namespace hone::objectives
