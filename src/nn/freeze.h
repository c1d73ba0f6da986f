// A model that is not to learn.
#pragma once

#include "hone/model.h"

namespace hone::nn {

inline void freeze(Model& model) {
  model.each_with_adapters([](const std::string&, Weight& weight) {
    if (!weight.is_buffer()) weight.set_trainable(false);
  });
}

}  // namespace hone::nn
