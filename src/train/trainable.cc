// Freezing the weights that a recipe does not name.
#include "train/trainable.h"

#include <fmt/format.h>

#include <regex>

#include "base/strings.h"

namespace hone::training {
namespace {

Error matches_nothing(const Model& model, const std::string& pattern) {
  std::vector<std::string> names;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (!weight.is_buffer()) names.push_back(name);
  });
  return Error(ErrorKind::config, fmt::format("model.trainable: {}: matches none of the model's {} weights: {}",
                                              hone::quoted(pattern), names.size(), list_names(names)))
      .hint("`hone inspect model FOLDER` lists all names");
}

}  // namespace

void choose_trainable(Model& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  std::vector<bool> matched(patterns.size());
  std::vector<std::regex> expressions;
  for (const std::string& pattern : patterns) expressions.emplace_back(pattern);
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer()) return;
    bool trained = false;
    for (std::size_t i = 0; i < expressions.size(); ++i)
      if (std::regex_search(name, expressions[i])) trained = matched[i] = true;
    weight.set_trainable(trained);
  });
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (!matched[i]) throw matches_nothing(model, patterns[i]);
}

std::int64_t trained_parameters(const Model& model) {
  std::int64_t count = 0;
  model.each_weight(
      [&](const std::string&, const Weight& weight) { count += weight.trainable() ? weight.numel() : 0; });
  return count;
}

}  // namespace hone::training
