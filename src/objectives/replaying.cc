// Prompts whose answers are all worth the same give way to answers of earlier steps (Axolotl's replay buffer).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "hone/random.h"
#include "hone/text.h"
#include "hone/world.h"
#include "objectives/policy_objective.h"
#include "objectives/replay_buffer.h"

namespace hone::objectives {
namespace {

using Judgement = std::vector<std::vector<double>>;  // [reward][answer]

// Of a prompt's answers: how far they are apart, by their advantages and by each reward.
double score_of(const std::vector<double>& advantages, const std::vector<std::vector<Moments>>& by_reward,
                std::size_t prompt, std::size_t each) {
  double size = 0, spread = 0;
  for (std::size_t i = prompt * each; i < (prompt + 1) * each; ++i) size += std::abs(advantages[i]);
  for (const std::vector<Moments>& groups : by_reward)
    if (const double std = groups[prompt].std(); std::isfinite(std)) spread += std;
  return size * spread;
}

KeptGroup kept_of(const Rollout& rollout, const Judgement& rewards, std::size_t prompt) {
  const auto each = static_cast<std::size_t>(rollout.each), begin = prompt * each;
  const Asked& asked = rollout.asked[prompt];
  KeptGroup group{.score = 0, .record = asked.record, .prompt = asked.ids};
  for (std::size_t i = begin; i < begin + each; ++i)
    group.answers.push_back({rollout.answers[i].ids, rollout.answers[i].complete});
  for (const std::vector<double>& values : rewards)
    group.rewards.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(begin),
                               values.begin() + static_cast<std::ptrdiff_t>(begin + each));
  return group;
}

// Of all ranks; of equal scores in the order of the step's prompts, however many ranks share them.
struct Found {
  std::uint64_t place;
  KeptGroup group;
};
std::vector<KeptGroup> over_ranks(const std::vector<Found>& own, const World& world) {
  std::string bytes;
  const auto add = [&](double number) {
    const auto bits = std::bit_cast<std::array<char, sizeof(double)>>(number);
    bytes.append(bits.data(), bits.size());
  };
  for (const Found& one : own) {
    const std::vector<double> numbers = numbers_of({one.group});
    add(static_cast<double>(one.place));
    add(static_cast<double>(numbers.size()));
    for (const double number : numbers) add(number);
  }
  std::vector<Found> all;
  for (const std::string& text : world.gather(bytes)) {
    std::size_t at = 0;
    const auto next = [&] {
      std::array<char, sizeof(double)> bits{};
      std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(at), bits.size(), bits.begin());
      at += bits.size();
      return std::bit_cast<double>(bits);
    };
    while (at < text.size()) {
      const auto place = static_cast<std::uint64_t>(next());
      std::vector<double> numbers(static_cast<std::size_t>(next()));
      for (double& number : numbers) number = next();
      all.push_back({place, std::move(groups_in(numbers).front())});
    }
  }
  std::ranges::sort(all, {}, &Found::place);
  std::vector<KeptGroup> groups;
  for (Found& one : all) groups.push_back(std::move(one.group));
  return groups;
}

// Of each prompt its number among all ranks': that of its micro-batch, and its own there.
std::vector<std::uint64_t> prompt_places(const Rollout& rollout, const World& world) {
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < rollout.prompts.size(); ++i)
    for (std::size_t d = 0; d < rollout.prompts[i]; ++d)
      places.push_back(((i * static_cast<std::size_t>(world.size()) + static_cast<std::size_t>(world.rank())) << 20) +
                       d);
  return places;
}

}  // namespace

// Behind the others: as they were said and judged.
void PolicyObjective::add_kept(const KeptGroup& group, const StepContext& context, Judged& to) const {
  const Asked asked{.ids = group.prompt, .record = group.record};
  const std::string prompt = context.tokenizer->decode(asked.ids, /*skip_special=*/false);
  for (const KeptGroup::Said& said : group.answers)
    to.rollout.answers.push_back({.prompt = prompt,
                                  .text = context.tokenizer->decode(said.ids),
                                  .reference = "",
                                  .prompt_ids = asked.ids,
                                  .ids = said.ids,
                                  .complete = said.complete,
                                  .record = context.record_name(asked.record)});
  to.rollout.asked.push_back(asked);
  for (std::size_t k = 0; k < to.rewards.size(); ++k)
    to.rewards[k].insert(to.rewards[k].end(), group.rewards[k].begin(), group.rewards[k].end());
  const std::vector<double> sums = sums_of(group.rewards, weights_);
  to.sums.insert(to.sums.end(), sums.begin(), sums.end());
}

AnswerObjective::Judged PolicyObjective::with_replayed(Judged made, ReplayBuffer& buffer, const StepContext& context,
                                                       Metrics& told) const {
  const auto each = static_cast<std::size_t>(made.rollout.each);
  buffer.leave_out_unlike(each, made.rewards.size());
  const std::vector<Moments> moments = moments_by_group(made.sums, made.rollout.each);
  std::vector<std::vector<Moments>> by_reward;
  for (const std::vector<double>& values : made.rewards)
    by_reward.push_back(moments_by_group(values, made.rollout.each));
  const std::vector<double> advantages = this->advantages(made, context.world);
  const std::vector<std::uint64_t> places = prompt_places(made.rollout, context.world);
  std::vector<Found> found;
  for (std::size_t p = 0; p < moments.size(); ++p) {
    if (!differ(moments[p])) continue;
    found.push_back({places[p], kept_of(made.rollout, made.rewards, p)});
    found.back().group.score = score_of(advantages, by_reward, p, each);
  }
  buffer.add(over_ranks(found, context.world));

  const Random random(context.seed, fmt::format("replay/{}", context.step));
  Judged again;
  again.rollout.each = made.rollout.each;
  again.rewards.resize(made.rewards.size());
  std::vector<AskedPlace> taken;
  for (std::size_t p = 0; p < moments.size(); ++p) {
    if (differ(moments[p]) || buffer.groups().empty()) {
      taken.push_back({0, p});
      continue;
    }
    taken.push_back({1, again.rollout.asked.size()});
    add_kept(buffer.groups()[buffer.drawn(random.uniform(places[p]))], context, again);
  }
  const double replaced = static_cast<double>(again.rollout.asked.size());
  told["replay_buffer_replacements"] = context.world.total({{"replaced", replaced}}).at("replaced");
  told["replay_buffer_size"] = static_cast<double>(buffer.groups().size());
  Judged both = put_together({std::move(made), std::move(again)}, taken);
  for (const AskedPlace& place : taken)
    both.told["replayed"].insert(both.told["replayed"].end(), each, static_cast<double>(place.draw));
  return both;
}

}  // namespace hone::objectives
