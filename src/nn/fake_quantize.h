// Which weights of a model are quantized in the end, and trained with that in mind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hone/model.h"

namespace hone::nn {

// Those of linear layers in blocks, but of routers, whose choice would turn with a rounded logit, and of experts, whose
// weights are one stack elsewhere.
void each_linear_weight_in_blocks(Model& model, const std::function<void(const std::string&, Weight&)>& visit);

// Their layers round them from now on, or no longer (a weight grid of none). Error(config): there is none, or a group's
// size does not divide its inputs.
void fake_quantize(Model& model, const FakeQuantized& grids);

}  // namespace hone::nn
