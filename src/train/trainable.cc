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

bool TrainedByStep::Alike::trains(std::int64_t step) const {
  return std::any_of(windows.begin(), windows.end(),
                     [&](const Window& window) { return window.from <= step && step < window.until; });
}

std::string TrainedByStep::name_of(const std::vector<Window>& windows) {
  std::string name;
  for (const Window& window : windows)
    name += fmt::format("{}{}-{}", name.empty() ? "" : ",", window.from,
                        window.until == kForEver ? "" : std::to_string(window.until));
  return name;
}

TrainedByStep::TrainedByStep(const std::vector<TrainableWeights>& entries, Model& model, std::int64_t steps) {
  if (!trained_by_step(entries)) return;
  const std::vector<std::regex> expressions = expressions_of(entries);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.trainable()) return;
    std::vector<Window> windows;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (std::regex_search(name, expressions[i]))
        windows.push_back({entries[i].from, entries[i].until.value_or(kForEver)});
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
  for (const auto& [name, alike] : alike_) count += alike.trains(step) ? alike.parameters : 0;
  return count;
}

// What was trained from the beginning on has had the run's updates, where nothing says otherwise.
void TrainedByStep::begin_step(RunState& state, Updater& updater) const {
  for (const auto& [name, alike] : alike_) state.trained_updates.try_emplace(name, alike.trains(0) ? state.updates : 0);
  const auto had = [&](const std::string& weight) {
    if (const auto own = state.own_updates.find(weight); own != state.own_updates.end()) return own->second;
    return empty() ? state.updates : state.trained_updates.at(windows_.at(weight));
  };
  if (!empty()) updater.choose([&](const std::string& weight) { return trains(weight, state.step); });
  if (!empty() || !state.own_updates.empty()) updater.count_from(had);
}

bool TrainedByStep::trains(const std::string& weight, std::int64_t step) const {
  return empty() || alike_.at(windows_.at(weight)).trains(step);
}

void TrainedByStep::count(RunState& state) const {
  for (const auto& [name, alike] : alike_) state.trained_updates[name] += alike.trains(state.step) ? 1 : 0;
  for (auto& [weight, updates] : state.own_updates) updates += trains(weight, state.step) ? 1 : 0;
}

}  // namespace hone::training
