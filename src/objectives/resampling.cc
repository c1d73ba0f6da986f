// Prompts whose answers are all worth the same give way to others: dynamic sampling (Yu et al., 2025,
// arXiv:2503.14476).
#include <algorithm>
#include <utility>

#include "hone/world.h"
#include "objectives/policy_objective.h"

namespace hone::objectives {
namespace {

template <class T>
void take(const std::vector<T>& from, std::size_t prompt, std::size_t each, std::vector<T>& to) {
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(prompt * each);
  to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(each));
}

}  // namespace

// In micro-batches as those of the first draw.
AnswerObjective::Judged PolicyObjective::put_together(const std::vector<Judged>& draws,
                                                      const std::vector<AskedPlace>& places) {
  const Judged& first = draws.front();
  const auto each = static_cast<std::size_t>(first.rollout.each);
  Judged made;
  made.rollout.prompts = first.rollout.prompts, made.rollout.each = first.rollout.each;
  made.rewards.resize(first.rewards.size());
  for (const auto& [draw, prompt] : places) {
    const Judged& from = draws[draw];
    made.rollout.asked.push_back(from.rollout.asked[prompt]);
    take(from.rollout.answers, prompt, each, made.rollout.answers);
    take(from.sums, prompt, each, made.sums);
    for (std::size_t k = 0; k < made.rewards.size(); ++k) take(from.rewards[k], prompt, each, made.rewards[k]);
    for (const auto& [name, counts] : from.counts) take(counts, prompt, each, made.counts[name]);
  }
  return made;
}

AnswerObjective::Judged PolicyObjective::with_something_to_learn(Judged first, const StepContext& context,
                                                                 Metrics& told) const {
  std::vector<Judged> draws;
  std::vector<AskedPlace> learnt, alike;
  double groups = 0;
  const auto add = [&](Judged draw) {
    const auto moments = moments_by_group(draw.sums, draw.rollout.each);
    for (std::size_t p = 0; p < moments.size(); ++p)
      (differ(moments[p]) ? learnt : alike).push_back({draws.size(), p});
    groups += static_cast<double>(moments.size());
    draws.push_back(std::move(draw));
  };
  const std::size_t wanted = first.rollout.asked.size();
  add(std::move(first));
  while (std::ssize(draws) <= options_.resample && context.world.any(learnt.size() < wanted)) {
    const Group more = context.more();
    if (context.world.any(more.empty())) break;  // the data have ended
    add(judged(more, context, std::ssize(draws)));
  }
  const Sums all = context.world.total({{"groups", groups}, {"alike", static_cast<double>(alike.size())}});
  told["resampling/draws"] = static_cast<double>(draws.size());
  told["resampling/frac_reward_zero_std"] = all.at("alike") / std::max(1.0, all.at("groups"));
  if (learnt.size() < wanted) learnt.insert(learnt.end(), alike.begin(), alike.end());
  learnt.resize(wanted);
  return put_together(draws, learnt);
}

}  // namespace hone::objectives
