// In which type a run writes each weight into its checkpoints: trainer.save.dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "hone/recipe.h"
#include "train/state.h"

namespace hone::training {

SourceTypes source_types(const std::filesystem::path& folder);  // "" = fresh

class SaveTypes {
 public:
  SaveTypes(SaveDtype wanted, Precision run, SourceTypes source);

  at::ScalarType of(const std::string& weight) const;
  at::ScalarType most() const { return of("*"); }  // what config.json says
  std::string text() const;                        // "checkpoints are saved in fp32, as the model came"

 private:
  SaveDtype wanted_;
  Precision run_;
  SourceTypes source_;
};

}  // namespace hone::training
