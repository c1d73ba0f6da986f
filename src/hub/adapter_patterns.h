// Ranks and alphas that an adapter_config.json gives some modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/adapter_config.h"

namespace hone::hub {

// As PEFT: of the file's patterns the first that fits counts.
std::int64_t rank_of(const AdapterConfig& config, const std::string& module);
double alpha_of(const AdapterConfig& config, const std::string& module);

// A recipe's patterns are tried in alphabetical order. Where that means another value than the file's order, `lora`
// gets the modules' whole names instead.
void settle_patterns(const AdapterConfig& config, const std::vector<std::string>& modules, LoraConfig& lora);
// Where a recipe's patterns fit modules of experts, and not the stacked weights that PEFT has them in: whole names.
void settle_patterns_for_file(const std::vector<std::string>& modules, LoraConfig& lora);

}  // namespace hone::hub
