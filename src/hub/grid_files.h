// Weights on a grid in safetensors and config.json, as compressed-tensors has them: what vLLM and transformers open,
// and hone too (hub/packed).
//
//   int4     M.weight_packed (eight codes in a word of 32 bits), M.weight_scale, M.weight_shape
//   int8     M.weight (I8), M.weight_scale
//   float8   M.weight (F8_E4M3), M.weight_scale
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ops/fake_quantize.h"

namespace hone::hub {

// Of "M.weight". REQUIRES: such a name.
std::map<std::string, at::Tensor> grid_tensors(const std::string& name, const ops::OnGrid& made);

// config.json's "quantization_config". ignored: linear modules that stay as they are.
nlohmann::ordered_json grid_config(const FakeQuantized& grids, const std::vector<std::string>& ignored);

std::string name_of(const FakeQuantized& grids);  // "int4 by groups of 32"

}  // namespace hone::hub
