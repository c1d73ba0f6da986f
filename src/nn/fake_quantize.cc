// Choosing the weights that are rounded.
#include "nn/fake_quantize.h"

#include <fmt/format.h>

#include <set>

#include "nn/experts.h"

namespace hone::nn {
namespace {

bool is_of_router(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  return name.ends_with(kWeight) && is_router(std::string_view(name).substr(0, name.size() - kWeight.size()));
}

}  // namespace

void each_linear_weight_in_blocks(Model& model, const std::function<void(const std::string&, Weight&)>& visit) {
  std::set<const Weight*> within;
  for (const Block* block : model.blocks())
    block->each_weight([&](const std::string&, const Weight& weight) { within.insert(&weight); });
  model.each_weight([&](const std::string& name, Weight& weight) {
    const bool linear = weight.use_as() == WeightUse::product && within.contains(&weight);
    if (linear && !is_of_router(name) && name.find(".experts.") == std::string::npos) visit(name, weight);
  });
}

void fake_quantize(Model& model, const FakeQuantized& grids) {
  bool any = false;
  each_linear_weight_in_blocks(model, [&](const std::string& name, Weight& weight) {
    any = true;
    if (grids.group_size > 0 && weight.shape()[1] % grids.group_size != 0)
      throw Error(ErrorKind::config, fmt::format("{}: {} inputs; expected a multiple of group_size, {}", name,
                                                 weight.shape()[1], grids.group_size))
          .hint("another group_size, or 0: all of an output");
    weight.set_fake_quantized(grids);
  });
  if (!any && grids.weight != Grid::none)
    throw Error(ErrorKind::config, fmt::format("a model of type {}: none of its blocks has a linear layer that makes "
                                               "x W^T, whose weight could be rounded",
                                               model.hf_config().find("model_type")->text()));
}

}  // namespace hone::nn
