// A model like another one whose weights are not there.
#pragma once

#include <filesystem>
#include <memory>

#include "hone/adapter.h"
#include "hone/hub.h"
#include "hone/model.h"

namespace hone::training {

// A weight on the meta device; with a MetaMemory it has its place there.
void fill_meta(Weight& weight, WeightTypes types);

// With the same weights trained, on the meta device, filled; its adapters are not taken over. source: the folder that
// the other one came from, for errors; "": none. With a MetaMemory its weights have places there. slices: 1, or it has
// one of so many of each weight, the largest.
std::unique_ptr<Model> meta_twin(const Model& model, const std::filesystem::path& source, WeightTypes types,
                                 int slices = 1);

// The same with an adapter.
std::unique_ptr<Model> meta_twin(const Model& model, const std::filesystem::path& source, LoraConfig adapter,
                                 WeightTypes types, int slices = 1);

}  // namespace hone::training
