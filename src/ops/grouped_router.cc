// A router's choice by groups, in plain ATen: a few passes over [N, E]. On a CPU few tokens without a graph, as in
// decoding, have kernels of their own: the decoder's bits (nn/decoding).
#include "ops/grouped_router.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/checkpoint.h"
#include "ops/cpu/routed.h"
#include "ops/few_choices.h"
#include "ops/kernels.h"
#include "ops/skinny.h"

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

template <class W>
W sum_of_largest(const W* values, std::int64_t all, std::int64_t count, std::vector<std::int64_t>& places) {
  places.resize(static_cast<std::size_t>(count));
  find_largest(values, all, count, places.data());
  W sum = 0;
  for (const std::int64_t place : places) sum += values[place];
  return sum;
}

// in_best_groups() of one token.
template <class W>
void leave_best_groups(W* values, std::int64_t experts, const GroupedRule& rule) {
  const std::int64_t size = experts / rule.groups;
  std::vector<std::int64_t> places;
  std::vector<W> best;
  for (std::int64_t g = 0; g < rule.groups; ++g)
    best.push_back(sum_of_largest(values + g * size, size, rule.best_of_group, places));
  places.resize(static_cast<std::size_t>(rule.chosen_groups));
  find_largest(best.data(), rule.groups, rule.chosen_groups, places.data());
  for (std::int64_t g = 0; g < rule.groups; ++g)
    if (std::find(places.begin(), places.end(), g) == places.end())
      std::fill_n(values + g * size, size, -std::numeric_limits<W>::infinity());
}

bool are_few(const at::Tensor& x_N) {
  return !at::GradMode::is_enabled() && x_N.size(0) <= kSkinnyRows && kernels_take({x_N}) && !is_computed_again();
}

Choice choose_for_few(const at::Tensor& given_NE, const at::Tensor& given_E, const GroupedRule& rule) {
  const std::int64_t tokens = given_NE.size(0), experts = given_NE.size(1);
  const at::Tensor logits_NE = given_NE.contiguous(),
                   correction_E = given_E.defined() ? given_E.to(logits_NE.scalar_type()).contiguous() : given_E;
  const at::Tensor weight_NK = at::empty({tokens, rule.per_token}, logits_NE.options()),
                   expert_NK = at::empty({tokens, rule.per_token}, logits_NE.options().dtype(at::kLong)),
                   score_E = at::empty({experts}, logits_NE.options());
  cpu::with_type(logits_NE.scalar_type(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, cpu::Wide<T>>) {
      std::vector<T> room;
      const T* correction = correction_E.defined() ? correction_E.const_data_ptr<T>() : nullptr;
      for (std::int64_t n = 0; n < tokens; ++n)
        choose_for_one_by_groups(logits_NE.const_data_ptr<T>() + n * experts, experts, correction, rule,
                                 score_E.mutable_data_ptr<T>(), room,
                                 weight_NK.mutable_data_ptr<T>() + n * rule.per_token,
                                 expert_NK.mutable_data_ptr<std::int64_t>() + n * rule.per_token);
    }
  });
  return {weight_NK, expert_NK, {}};
}

}  // namespace

template <class W>
void choose_for_one_by_groups(const W* logits, std::int64_t experts, const W* correction, const GroupedRule& rule,
                              W* score, std::vector<W>& room, W* weight, std::int64_t* expert) {
  const bool sigmoid = rule.score == GroupedRule::Score::sigmoid;
  const auto kernels = cpu::routed_kernels<W>();
  (sigmoid ? kernels.sigmoid : kernels.softmax)(logits, experts, score);
  const W* chosen_by = rule.by_logits ? logits : score;
  room.assign(chosen_by, chosen_by + experts);
  for (std::int64_t e = 0; correction && e < experts; ++e) room[e] += correction[e];
  if (rule.chosen_groups < rule.groups) leave_best_groups(room.data(), experts, rule);
  find_largest(room.data(), experts, rule.per_token, expert);
  W sum = 0;
  for (std::int64_t k = 0; k < rule.per_token; ++k) sum += weight[k] = score[expert[k]];
  const W floor = static_cast<W>(rule.floor), divisor = rule.floor_is_least ? std::max(sum, floor) : sum + floor;
  for (std::int64_t k = 0; k < rule.per_token; ++k) {
    if (rule.normalise) weight[k] /= divisor;
    if (rule.scale != 1) weight[k] *= static_cast<W>(rule.scale);
  }
}
template void choose_for_one_by_groups(const float*, std::int64_t, const float*, const GroupedRule&, float*,
                                       std::vector<float>&, float*, std::int64_t*);
template void choose_for_one_by_groups(const double*, std::int64_t, const double*, const GroupedRule&, double*,
                                       std::vector<double>&, double*, std::int64_t*);

at::Tensor wide_logits(const at::Tensor& given_ND, const at::Tensor& weight_ED) {
  const at::ScalarType type = at::toOpMathType(given_ND.scalar_type());
  const bool fits = given_ND.dim() == 2 && given_ND.numel() > 0 && weight_ED.size(1) == given_ND.size(1);
  if (!fits || !are_few(given_ND) || !kernels_take({given_ND, weight_ED}) || !weight_ED.is_contiguous())
    return at::linear(given_ND.to(type), weight_ED.to(at::toOpMathType(weight_ED.scalar_type())));
  const sections::Timed section(sections::Section::elementwise);
  const at::Tensor x_ND = given_ND.contiguous();
  const std::int64_t experts = weight_ED.size(0);
  at::Tensor logits_NE = at::empty({x_ND.size(0), experts}, x_ND.options().dtype(type));
  cpu::with_type(x_ND.scalar_type(), [&]<class T>(T) {
    cpu::routed_kernels<T>().multiply(x_ND.const_data_ptr<T>(), weight_ED.const_data_ptr<T>(), x_ND.size(0),
                                      x_ND.size(1), experts, logits_NE.mutable_data_ptr<cpu::Wide<T>>(), experts);
  });
  return logits_NE;
}

Choice choose_by_groups(const at::Tensor& logits_NE, const at::Tensor& correction_E, const GroupedRule& rule,
                        bool with_sum) {
  HONE_ASSERT(logits_NE.scalar_type() == at::kFloat || logits_NE.scalar_type() == at::kDouble);
  HONE_ASSERT(!rule.by_logits || (!correction_E.defined() && rule.groups == 1));
  const sections::Timed section(sections::Section::elementwise);
  if (!with_sum && are_few(logits_NE)) return choose_for_few(logits_NE, correction_E, rule);
  const bool sigmoid = rule.score == GroupedRule::Score::sigmoid;
  const at::Tensor score_NE = sigmoid ? logits_NE.sigmoid() : logits_NE.softmax(-1);
  const at::Tensor expert_NK = likeliest(rule.by_logits ? logits_NE : score_NE, correction_E, rule);
  at::Tensor weight_NK = score_NE.gather(1, expert_NK);
  if (rule.normalise) {
    const at::Tensor sum_N1 = weight_NK.sum(-1, /*keepdim=*/true);
    weight_NK = weight_NK / (rule.floor_is_least ? sum_N1.clamp_min(rule.floor) : sum_N1 + rule.floor);
  }
  if (rule.scale != 1) weight_NK = weight_NK * rule.scale;
  return {weight_NK, expert_NK, with_sum ? score_NE.detach().sum(0) : at::Tensor()};
}

}  // namespace hone::ops
