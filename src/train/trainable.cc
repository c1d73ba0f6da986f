// Freezing the weights that a recipe does not name, all the time or in some steps.
#include "train/trainable.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <regex>

#include "base/strings.h"
#include "train/state.h"
#include "train/updater.h"

namespace hone::training {
namespace {

constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

Error matches_nothing(const Model& model, const std::string& pattern) {
  std::vector<std::string> names;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (!weight.is_buffer()) names.push_back(name);
  });
  return Error(ErrorKind::config, fmt::format("model.trainable: {}: matches none of the model's {} weights: {}",
                                              hone::quoted(pattern), names.size(), list_names(names)))
      .hint("`hone inspect model FOLDER` lists all names");
}

std::vector<std::regex> expressions_of(const std::vector<TrainableWeights>& entries) {
  std::vector<std::regex> expressions;
  for (const TrainableWeights& entry : entries) expressions.emplace_back(entry.match);
  return expressions;
}

std::vector<StepWindow> windows_of(const std::string& weight, const std::vector<TrainableWeights>& entries,
                                   const std::vector<std::regex>& expressions) {
  std::vector<StepWindow> windows;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (std::regex_search(weight, expressions[i]))
      windows.push_back({entries[i].from, entries[i].until.value_or(kForEver)});
  return windows;
}

std::string name_of(const std::vector<StepWindow>& windows) {
  std::string name;
  for (const StepWindow& window : windows)
    name += fmt::format("{}{}-{}", name.empty() ? "" : ",", window.from,
                        window.until == kForEver ? "" : std::to_string(window.until));
  return name;
}

bool trains(const std::vector<StepWindow>& windows, std::int64_t step) {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const StepWindow& window) { return window.from <= step && step < window.until; });
}

// Of a weight that nothing else is known of: what was trained from the beginning on has had the run's.
std::int64_t presumed_updates(const std::vector<StepWindow>& windows, const RunState& state) {
  return trains(windows, 0) ? state.updates : 0;
}

}  // namespace

void choose_trainable(Model& model, const std::vector<TrainableWeights>& entries) {
  if (entries.empty()) return;
  std::vector<bool> matched(entries.size());
  const std::vector<std::regex> expressions = expressions_of(entries);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer()) return;
    bool trained = false;
    for (std::size_t i = 0; i < expressions.size(); ++i)
      if (std::regex_search(name, expressions[i])) trained = matched[i] = true;
    weight.set_trainable(trained);
  });
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (!matched[i]) throw matches_nothing(model, entries[i].match);
}

std::int64_t trained_parameters(const Model& model) {
  std::int64_t count = 0;
  model.each_weight(
      [&](const std::string&, const Weight& weight) { count += weight.trainable() ? weight.numel() : 0; });
  return count;
}

bool trained_by_step(const std::vector<TrainableWeights>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const TrainableWeights& entry) { return entry.from > 0 || entry.until; });
}

void keep_updates(const std::vector<TrainableWeights>& before, const std::vector<TrainableWeights>& now, Model& model,
                  RunState& state) {
  const bool had_windows = trained_by_step(before), has_windows = trained_by_step(now);
  if (!had_windows && !has_windows) return;
  const std::vector<std::regex> were = expressions_of(before), are = expressions_of(now);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.trainable()) return;
    std::int64_t had = state.updates;
    if (const std::vector<StepWindow> windows = windows_of(name, before, were); had_windows && !windows.empty()) {
      const auto counted = state.trained_updates.find(name_of(windows));
      had = counted != state.trained_updates.end() ? counted->second : presumed_updates(windows, state);
    }
    had = state.own_updates.try_emplace(name, had).first->second;
    if (had == (has_windows ? presumed_updates(windows_of(name, now, are), state) : state.updates))
      state.own_updates.erase(name);
  });
  state.trained_updates.clear();
}

TrainedByStep::TrainedByStep(const std::vector<TrainableWeights>& entries, Model& model, std::int64_t steps) {
  if (!trained_by_step(entries)) return;
  const std::vector<std::regex> expressions = expressions_of(entries);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.trainable()) return;
    const std::vector<StepWindow> windows = windows_of(name, entries, expressions);
    const std::string alike = name_of(windows);
    windows_[name] = alike;
    Alike& its = alike_[alike];
    its.windows = windows;
    its.parameters += weight.numel();
  });
  std::vector<std::int64_t> turns{0};  // where something may stop being trained
  for (const TrainableWeights& entry : entries) turns.push_back(entry.until.value_or(0));
  std::sort(turns.begin(), turns.end());
  for (const std::int64_t step : turns)
    if (step < steps && parameters(step) == 0)
      throw Error(ErrorKind::config,
                  fmt::format("model.trainable: nothing is trained in step {} of {}", step + 1, steps))
          .hint("an entry without from and until, such as a norm, trains something all the time");
}

std::int64_t TrainedByStep::parameters(std::int64_t step) const {
  std::int64_t count = 0;
  for (const auto& [name, alike] : alike_) count += training::trains(alike.windows, step) ? alike.parameters : 0;
  return count;
}

void TrainedByStep::begin_step(RunState& state, Updater& updater) const {
  for (const auto& [name, alike] : alike_)
    state.trained_updates.try_emplace(name, presumed_updates(alike.windows, state));
  const auto had = [&](const std::string& weight) {
    if (const auto own = state.own_updates.find(weight); own != state.own_updates.end()) return own->second;
    const auto windows = windows_.find(weight);  // models beside the one that is trained have none
    return windows == windows_.end() ? state.updates : state.trained_updates.at(windows->second);
  };
  if (!empty()) updater.choose([&](const std::string& weight) { return trains(weight, state.step); });
  if (!empty() || !state.own_updates.empty()) updater.count_from(had);
}

bool TrainedByStep::trains(const std::string& weight, std::int64_t step) const {
  const auto windows = windows_.find(weight);
  return windows == windows_.end() || training::trains(alike_.at(windows->second).windows, step);
}

void TrainedByStep::count(RunState& state) const {
  for (const auto& [name, alike] : alike_)
    state.trained_updates[name] += training::trains(alike.windows, state.step) ? 1 : 0;
  for (auto& [weight, updates] : state.own_updates) updates += trains(weight, state.step) ? 1 : 0;
}

}  // namespace hone::training
