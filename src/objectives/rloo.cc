// RLOO's advantages and loss.
//
// Letters: N tokens, S answers.
#include "objectives/rloo.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "hone/registry.h"
#include "objectives/means.h"
#include "tensor/by_document.h"

namespace hone::objectives {

void Rloo::Config::validate(Problems& problems) const {
  check(beta, problems);
  problems.require(
      reward_clip_range.empty() || (reward_clip_range.size() == 2 && reward_clip_range[0] < reward_clip_range[1]),
      "reward_clip_range", "expected two numbers, the lower one first, as in [-1, 1]");
}

std::vector<double> Rloo::advantages(const Judged& judged, const World& world) const {
  std::vector<double> rewards = judged.sums;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (!config_.reward_clip_range.empty() && !std::isnan(rewards[i]))
      rewards[i] = std::clamp(rewards[i], config_.reward_clip_range[0], config_.reward_clip_range[1]);
    if (!judged.divergence.empty()) rewards[i] -= config_.beta * judged.divergence[i];
  }
  return leave_one_out(rewards, judged.rollout.each, config_.normalize_advantages, world);
}

void Rloo::add_terms(const Tokens& tokens, LossTerms& result) const {
  const auto by_answer = [&](const Tensor& values_N) {
    return sums_by_document(values_N * tokens.mask_N, tokens.documents_N, tokens.answers());
  };
  const Tensor old_N = tokens.old_N.defined() ? tokens.old_N : tokens.log_probs_N.detach();
  const AnswerTerms terms = answer_terms(by_answer(tokens.log_probs_N - old_N), tokens.advantages_S, config_.epsilon,
                                         config_.epsilon_high.value_or(config_.epsilon));
  result.terms.push_back({"loss", terms.losses_S.sum(), kAnswers});
  if (tokens.reference_N.defined()) {
    const Tensor apart_N = (old_N - tokens.reference_N) * tokens.mask_N;
    add_masked_mean("kl", apart_N, tokens.mask_N, result);
  }
  if (!tokens.training) return;
  add_extreme("clip_ratio/low_min", terms.low_clipped_S, LogMode::min, result);
  add_extreme("clip_ratio/high_max", terms.high_clipped_S, LogMode::max, result);
  add_mean("clip_ratio/low_mean", terms.low_clipped_S, result);
  add_mean("clip_ratio/high_mean", terms.high_clipped_S, result);
  add_mean("clip_ratio/region_mean", terms.low_clipped_S + terms.high_clipped_S, result);
}

void register_rloo(Registries& hone) {
  hone.objectives.add<Rloo>("rloo", "Answer prompts, and learn each answer by how much better it is than the others.");
}

}  // namespace hone::objectives
