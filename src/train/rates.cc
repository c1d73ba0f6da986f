// How the optimizer updates each group of weights.
#include "train/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace hone::training {
namespace {

// What a recipe says of the optimizer that the part `name` is; "": of the whole.
const config::Node& node_of(const config::Node& optimizer, const std::string& name) {
  if (const config::Node* groups = optimizer.find("groups"))
    for (const config::Node& group : groups->items()) {
      const config::Node* own = group.find("name");
      if (own && own->text() == name && group.find("optimizer")) return *group.find("optimizer");
    }
  const config::Node* inner = name.empty() ? nullptr : optimizer.find(name);
  return inner && inner->is_map() ? *inner : optimizer;
}

std::optional<double> number_at(const config::Node& node, const char* key) {
  const config::Node* found = node.find(key);
  if (found && found->kind() == config::Node::Kind::list && !found->items().empty()) found = &found->items()[0];
  if (!found || found->kind() != config::Node::Kind::scalar) return std::nullopt;
  return parse_double(found->text());
}

Metrics constants_of(const config::Node& node) {
  Metrics constants;
  if (const auto decay = number_at(node, "weight_decay")) constants["weight_decay"] = *decay;
  for (const char* key : {"momentum", "beta1", "betas"})
    if (const auto momentum = number_at(node, key)) {
      constants["momentum"] = *momentum;
      break;
    }
  return constants;
}

}  // namespace

OptimizerRates::OptimizerRates(const Optimizer& optimizer, const Recipe& recipe, Model& model, const RunState& state,
                               std::int64_t steps)
    : state_(state), steps_(steps) {
  const config::Node written = write_recipe(recipe);
  const config::Node& node = *written.find("optimizer");
  for (const auto& [name, part] : optimizer.parts()) parts_.push_back({name, part, constants_of(node_of(node, name))});
  if (parts_.empty()) parts_.push_back({"", &optimizer, constants_of(node)});
  std::set<double> scales;
  model.each_with_adapters([&](const std::string&, Weight& weight) {
    if (weight.trainable() && !weight.is_buffer()) scales.insert(weight.learning_rate_scale());
  });
  scales_.assign(scales.begin(), scales.end());
  if (scales_.empty()) scales_.push_back(1);
}

std::vector<OptimizerGroup> OptimizerRates::groups() const {
  std::vector<OptimizerGroup> groups;
  const std::int64_t step = std::max<std::int64_t>(0, state_.step - 1);
  for (const Part& part : parts_)
    for (const double scale : scales_) {
      OptimizerGroup group{scale == 1 ? part.name : fmt::format("{}x{:g}", part.name, scale), part.constants};
      group.settings["learning_rate"] = scale * part.optimizer->learning_rate(step, steps_);
      groups.push_back(std::move(group));
    }
  return groups;
}

}  // namespace hone::training
