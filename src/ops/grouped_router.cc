// A router's choice by groups, in plain ATen: a few passes over [N, E].
#include "ops/grouped_router.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "base/sections.h"
#include "hone/error.h"

namespace hone::ops {
namespace {

// What lies in groups that are not looked at can be nobody's choice.
at::Tensor in_best_groups(const at::Tensor& score_NE, const GroupedRule& rule) {
  const at::Tensor score_NGX = score_NE.unflatten(1, {rule.groups, -1});
  const at::Tensor best_NG = std::get<0>(at::topk(score_NGX, rule.best_of_group, -1)).sum(-1);
  const at::Tensor chosen = std::get<1>(at::topk(best_NG, rule.chosen_groups, -1));
  const at::Tensor passed_over_NG = at::ones_like(best_NG, at::kBool).scatter_(1, chosen, false);
  return score_NGX.masked_fill(passed_over_NG.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(1);
}

at::Tensor likeliest(const at::Tensor& score_NE, const at::Tensor& correction_E, const GroupedRule& rule) {
  const at::NoGradGuard no_graph;
  at::Tensor corrected_NE = correction_E.defined() ? score_NE + correction_E.to(score_NE.scalar_type()) : score_NE;
  if (rule.chosen_groups < rule.groups) corrected_NE = in_best_groups(corrected_NE, rule);
  return std::get<1>(at::topk(corrected_NE, rule.per_token, -1));
}

}  // namespace

Choice choose_by_groups(const at::Tensor& logits_NE, const at::Tensor& correction_E, const GroupedRule& rule,
                        bool with_sum) {
  HONE_ASSERT(logits_NE.scalar_type() == at::kFloat || logits_NE.scalar_type() == at::kDouble);
  const sections::Timed section(sections::Section::elementwise);
  const bool sigmoid = rule.score == GroupedRule::Score::sigmoid;
  const at::Tensor score_NE = sigmoid ? logits_NE.sigmoid() : logits_NE.softmax(-1);
  const at::Tensor expert_NK = likeliest(score_NE, correction_E, rule);
  at::Tensor weight_NK = score_NE.gather(1, expert_NK);
  if (rule.normalise) {
    const at::Tensor sum_N1 = weight_NK.sum(-1, /*keepdim=*/true);
    weight_NK = weight_NK / (rule.floor_is_least ? sum_N1.clamp_min(rule.floor) : sum_N1 + rule.floor);
  }
  if (rule.scale != 1) weight_NK = weight_NK * rule.scale;
  return {weight_NK, expert_NK, with_sum ? score_NE.detach().sum(0) : at::Tensor()};
}

}  // namespace hone::ops
