// Grouping weights by block and learning rate.
#include "nn/weight_groups.h"

#include <map>
#include <tuple>
#include <utility>

namespace hone::nn {
namespace {

std::map<const Weight*, std::size_t> units_of(const Model& model) {
  std::map<const Weight*, std::size_t> units;
  const auto of_root = [&](const std::string&, const Weight& weight) { units[&weight] = 0; };
  model.each_weight(of_root);
  for (const auto& [name, other] : model.beside()) std::as_const(*other).each_weight(of_root);
  const std::vector<const Block*> blocks = model.blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i]->each_weight([&](const std::string&, const Weight& weight) { units[&weight] = i + 1; });
  return units;
}

}  // namespace

std::vector<WeightGroup> weight_groups(Model& model, bool all) {
  const auto units = units_of(model);
  std::map<std::tuple<std::size_t, bool, double>, WeightGroup> groups;
  std::size_t unit = 0;
  model.each_with_adapters([&](const std::string& name, Weight& weight) {
    if (const auto own = units.find(&weight); own != units.end()) unit = own->second;  // an adapter's: its weight's
    if (all ? weight.is_buffer() : !weight.trainable()) return;
    const bool sliced = weight.layout().shape != weight.shape();
    WeightGroup& group = groups[{unit, sliced, weight.learning_rate_scale()}];
    group.unit = unit, group.sliced = sliced;
    group.weights.push_back({name, &weight});
  });
  std::vector<WeightGroup> made;
  for (auto& [key, group] : groups) made.push_back(std::move(group));
  return made;
}

}  // namespace hone::nn
