// Whether models are such that several ranks can compute a batch together: parallel.context.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hone/adapter.h"
#include "hone/model.h"

namespace hone::training {

// The model that is trained with its adapter (null: none), which is put on these modules; and further ones, by role.
struct ContextUse {
  int ranks = 1;  // that compute a batch together
  const Model& model;
  const LoraConfig* adapter = nullptr;
  const std::vector<std::string>& adapted;
  const std::map<std::string, std::string>& others;  // Needs::models
};
// Error(config): they are not. Nothing is loaded.
void check_context(const ContextUse& use);

}  // namespace hone::training
