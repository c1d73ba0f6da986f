// Which weights of a model are gathered, reduced and freed together.
#pragma once

#include <string>
#include <vector>

#include "hone/model.h"

namespace hone::nn {

struct GroupedWeight {
  std::string name;
  Weight* weight;
};

// A block's trained weights that have one learning rate (an optimizer is told one for all that it updates at once), its
// adapters' with them; or those in no block: the root's.
struct WeightGroup {
  std::size_t unit = 0;  // 0: the root; 1, 2, ...: blocks
  bool sliced = false;   // of each this process has a slice (TensorCut)
  std::vector<GroupedWeight> weights;
};
// The root's first, whole ones of a block before slices. `all`: of a model that does not learn, all but buffers.
std::vector<WeightGroup> weight_groups(Model& model, bool all = false);

}  // namespace hone::nn
