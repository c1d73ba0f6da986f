// A reference that follows the model (TR-DPO: Gorbatovski et al., 2024, arXiv:2404.09656), as objectives with one have
// it: two options, what is wrong with them, and what they need.
#pragma once

#include <map>
#include <string>

#include "hone/config_read.h"
#include "hone/objective.h"

namespace hone::objectives {

inline constexpr double kMixupAlpha = 0.6;

// REQUIRES of C: std::int64_t reference_sync_steps; double reference_mixup_alpha = kMixupAlpha.
template <class C>
constexpr auto reference_sync_steps_field() {
  return config::field("reference_sync_steps", &C::reference_sync_steps,
                       "After each so many steps the reference moves towards the model; 0 = it stays as it was.",
                       config::at_least(0));
}
template <class C>
constexpr auto reference_mixup_alpha_field() {
  return config::field("reference_mixup_alpha", &C::reference_mixup_alpha,
                       "How far it moves: its weights become 1 - alpha times themselves and alpha times the model's; 1 "
                       "= the model's.",
                       {.low = 1e-6, .high = 1});
}

template <class C>
void check_moving_reference(const C& config, Problems& problems) {
  problems.require(config.reference_sync_steps > 0 || config.reference_mixup_alpha == kMixupAlpha,
                   "reference_mixup_alpha", "only with reference_sync_steps above 0");
}
// Of those that can ask the reference before the first step.
template <class C>
void check_moving_and_precomputed(const C& config, Problems& problems) {
  problems.require(config.reference_sync_steps == 0 || !config.precompute_reference, "reference_sync_steps",
                   "not together with precompute_reference, which asks the reference once");
}

template <class C>
void follow(const C& config, const std::string& role, std::map<std::string, Following>& following) {
  if (config.reference_sync_steps > 0)
    following[role] = {config.reference_sync_steps, config.reference_mixup_alpha, "reference_sync_steps"};
}

}  // namespace hone::objectives
