// Rewards to advantages.
#include "objectives/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "hone/batch.h"

namespace hone::objectives {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastDeviation = 1e-4;  // added to deviations before anything is divided by them, as TRL does

using Values = std::vector<double>;

Moments moments_of(std::span<const double> values) {
  Moments made;
  for (const double value : values)
    if (!std::isnan(value)) made.add({1, value, 0, value, value});
  return made;
}

Values by_group(const Values& values, std::int64_t each, bool scale) {
  const std::vector<Moments> groups = moments_by_group(values, each);
  Values made(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Moments& group = groups[i / static_cast<std::size_t>(each)];
    made[i] = (values[i] - group.mean) / (scale ? group.std() + kLeastDeviation : 1);
  }
  return made;
}

Moments over(const World& world, const Values& values) { return moments_over(world, {{"", values}}).at(""); }

void without_none(Values& values) {
  for (double& value : values)
    if (std::isnan(value)) value = 0;
}

}  // namespace

double Moments::std() const { return count < 2 ? kNone : std::sqrt(squares / (count - 1)); }

bool differ(const Moments& group) { return group.count > 1 && group.std() >= 1e-8; }

// Chan et al., 1983.
void Moments::add(const Moments& other) {
  if (other.count == 0) return;
  if (count == 0) return void(*this = other);
  const double all = count + other.count, apart = other.mean - mean;
  squares += other.squares + apart * apart * count * other.count / all;
  mean += apart * other.count / all;
  count = all;
  low = std::min(low, other.low), high = std::max(high, other.high);
}

std::vector<Moments> moments_by_group(const Values& values, std::int64_t each) {
  const auto size = static_cast<std::size_t>(each);
  std::vector<Moments> groups;
  for (std::size_t begin = 0; begin < values.size(); begin += size)
    groups.push_back(moments_of(std::span(values).subspan(begin, size)));
  return groups;
}

std::map<std::string, Moments> moments_over(const World& world, const ValuesByName& values) {
  Sums told;
  for (const auto& [name, all] : values) {
    const Moments own = moments_of(all);
    const std::pair<const char*, double> parts[] = {
        {"count", own.count}, {"mean", own.mean}, {"squares", own.squares}, {"low", own.low}, {"high", own.high}};
    for (const auto& [part, value] : parts) told[name + " " + part] = value;
  }
  std::map<std::string, Moments> made;
  for (const Sums& rank : world.gather(told))
    for (const auto& [name, all] : values) {
      const auto part = [&](const char* which) { return rank.at(name + " " + which); };
      made[name].add({part("count"), part("mean"), part("squares"), part("low"), part("high")});
    }
  return made;
}

Values sums_of(const std::vector<Values>& rewards, const Values& weights) {
  Values sums(rewards.front().size(), kNone);
  for (std::size_t k = 0; k < rewards.size(); ++k)
    for (std::size_t a = 0; a < sums.size(); ++a)
      if (!std::isnan(rewards[k][a])) sums[a] = (std::isnan(sums[a]) ? 0 : sums[a]) + weights[k] * rewards[k][a];
  return sums;
}

Values group_advantages(const std::vector<Values>& rewards, const AdvantageOptions& options, const World& world) {
  Values made;
  if (options.aggregate == AggregateRewards::normalize_then_sum) {
    std::vector<Values> normal;
    for (const Values& one : rewards) normal.push_back(by_group(one, options.each, true));
    made = sums_of(normal, options.weights);
    const Values raw = sums_of(rewards, options.weights);
    for (std::size_t a = 0; a < made.size(); ++a)
      if (std::isnan(made[a]) && !std::isnan(raw[a])) made[a] = 0;  // judged, but with nothing to compare it with
    const Moments all = over(world, made);
    for (double& value : made) value = (value - all.mean) / (all.std() + kLeastDeviation);
  } else {
    const Values sums = sums_of(rewards, options.weights);
    made = by_group(sums, options.each, options.scale == ScaleRewards::group);
    if (options.scale == ScaleRewards::batch) {
      const double by = over(world, sums).std() + kLeastDeviation;
      for (double& value : made) value /= by;
    }
  }
  without_none(made);
  return made;
}

Values leave_one_out(const Values& rewards, std::int64_t each, bool normalize, const World& world) {
  const std::vector<Moments> groups = moments_by_group(rewards, each);
  Values made(rewards.size());
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const Moments& group = groups[i / static_cast<std::size_t>(each)];
    const double sum = group.mean * group.count;
    made[i] = group.count < 2 ? kNone : rewards[i] - (sum - rewards[i]) / (group.count - 1);
  }
  if (normalize) {
    const Moments all = over(world, made);
    for (double& value : made) value = (value - all.mean) / (all.std() + kLeastDeviation);
  }
  without_none(made);
  return made;
}

}  // namespace hone::objectives
