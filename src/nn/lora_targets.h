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

// The weights of modules_to_save, and those of a classification head that is trained.
std::vector<NamedWeight> whole_modules(Model& model, const std::vector<std::string>& modules);
// Throws Error(config) for an entry that matches nothing, or a table that makes the outputs, too.
void check_modules_to_save(Model& model, const std::vector<std::string>& modules);
// The table that tokens are looked up in, of which rows can be trained (LoraConfig::trainable_token_indices). Throws
// Error(config): the model has none that PEFT would find, or it is among the targets or modules_to_save.
NamedWeight table_of_tokens(Model& model, const LoraConfig& config, const std::vector<NamedWeight>& targets);
// What PEFT calls them: ends of names without expressions.
std::vector<std::string> saved_names(Model& model, const std::vector<std::string>& modules);

// Whether an entry is a regular expression, and no end of a name.
bool is_expression(const std::string& entry);

// Whether it makes the outputs, too: then it has no copy of its own that a file could hold.
bool is_tied_table(const Model& model, const Weight& weight);

bool is_within_any(const std::string& name, const std::vector<std::string>& modules_to_save);

// Modules that PEFT's target_modules mean, without those of experts.
std::vector<std::string> modules_named(Model& model, const std::vector<std::string>& targets);

// PEFT's rule for rank_pattern and alpha_pattern: whether the pattern is the whole name, or its end behind a dot.
bool matches_pattern(const std::string& module, const std::string& pattern);

// Throws Error(config) for weights that PEFT knows under no name.
void refuse_unnamed(const std::string& module, const std::string& option);

}  // namespace hone::nn
