// How the tensors of an optimizer's state are called: exp_avg.model.norm.weight, or prodigy, which is of no weight.
#pragma once

#include <string>

namespace hone::optim {

// The weight that a tensor of the state is of, the longest name that fits; "": of none. weights: a set or map by name.
template <typename Names>
std::string weight_of(const std::string& state, const Names& weights) {
  for (std::size_t dot = state.find('.'); dot != std::string::npos; dot = state.find('.', dot + 1))
    if (std::string name = state.substr(dot + 1); weights.contains(name)) return name;
  return "";
}

}  // namespace hone::optim
