// From rewards to advantages: by how much an answer is better than the others to its prompt.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/config.h"
#include "hone/world.h"

namespace hone::objectives {

enum class ScaleRewards { group, batch, none };
enum class AggregateRewards { sum_then_normalize, normalize_then_sum };

// Of values that are there: NaN is none.
struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: of the differences from the mean, added up
  double low = 0, high = 0;
  double std() const;  // unbiased; NaN of fewer than two
  void add(const Moments& other);
};
// Whether such a group's answers are worth different things, so that there is something to learn from them.
bool differ(const Moments& group);
std::vector<Moments> moments_by_group(const std::vector<double>& values,
                                      std::int64_t each);  // of each prompt's answers
// Of all ranks' values, by name; the same on each of them.
using ValuesByName = std::map<std::string, std::vector<double>>;
std::map<std::string, Moments> moments_over(const World& world, const ValuesByName& values);

// rewards[k][a]: what reward k says of answer a; NaN: nothing. An answer of which none says anything has no sum, NaN.
std::vector<double> sums_of(const std::vector<std::vector<double>>& rewards, const std::vector<double>& weights);

// Answers lie prompt by prompt, so many to `each`. Those without a sum, or with nothing to be compared with, have 0.
struct AdvantageOptions {
  std::int64_t each = 1;
  ScaleRewards scale = ScaleRewards::group;
  AggregateRewards aggregate = AggregateRewards::sum_then_normalize;
  std::vector<double> weights = {};  // of the rewards
};
// The difference from the group's mean, by the standard deviation of the group, of the step, or by nothing.
// normalize_then_sum: each reward by its own group first, the sums by the step's mean and deviation (GDPO,
// arXiv:2601.05242).
std::vector<double> group_advantages(const std::vector<std::vector<double>>& rewards, const AdvantageOptions& options,
                                     const World& world);
// The difference from the mean of the group's others; `normalize`: by the step's mean and standard deviation.
std::vector<double> leave_one_out(const std::vector<double>& rewards, std::int64_t each, bool normalize,
                                  const World& world);

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::ScaleRewards> =
    std::to_array<std::pair<hone::objectives::ScaleRewards, std::string_view>>(
        {{hone::objectives::ScaleRewards::group, "group"},
         {hone::objectives::ScaleRewards::batch, "batch"},
         {hone::objectives::ScaleRewards::none, "none"}});
template <>
inline constexpr auto hone::config::enum_names<hone::objectives::AggregateRewards> =
    std::to_array<std::pair<hone::objectives::AggregateRewards, std::string_view>>(
        {{hone::objectives::AggregateRewards::sum_then_normalize, "sum_then_normalize"},
         {hone::objectives::AggregateRewards::normalize_then_sum, "normalize_then_sum"}});
