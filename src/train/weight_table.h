// A recipe's weights as its run will have them: what each is, what trains it, what it takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/recipe.h"
#include "train/inputs.h"

namespace hone::training {

struct WeightRow {
  std::string name, dtype;  // dtype: that is computed with, as safetensors call it
  std::vector<std::int64_t> shape;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0, optimizer_bytes = 0;  // optimizer_bytes: its state, without masters and gradients
  bool trainable = false;
  double weight_decay = 0, learning_rate = 0;  // learning_rate: times the optimizer's
  std::string group;                           // the optimizer, or its part; "frozen", "buffer"
};

// In the model's order, adapters' weights behind theirs. Nothing is allocated.
std::vector<WeightRow> weight_table(const Recipe& recipe, const Inputs& inputs);

}  // namespace hone::training
