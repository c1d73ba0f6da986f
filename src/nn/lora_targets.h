// Which modules of a model get an adapter.
#pragma once

#include <string>
#include <vector>

#include "hone/adapter.h"

namespace hone::nn {

// A weight that an adapter can sit on, or one of a module that is trained whole.
struct NamedWeight {
  std::string module;  // the weight's name without ".weight"
  Weight* weight = nullptr;
};

// As targets and exclude say, in the model's order. Throws Error(config): an entry that matches nothing, or nothing
// that can have an adapter.
std::vector<NamedWeight> lora_targets(Model& model, const LoraConfig& config);

// The weights of modules_to_save. Throws Error(config) for an entry that matches nothing.
std::vector<NamedWeight> whole_modules(Model& model, const std::vector<std::string>& modules);

// PEFT's rule for rank_pattern and alpha_pattern: whether the pattern is the whole name, or its end behind a dot.
bool matches_pattern(const std::string& module, const std::string& pattern);

}  // namespace hone::nn
