// rank_pattern and alpha_pattern, in the order of the file.
#include "hub/adapter_patterns.h"

#include <algorithm>
#include <optional>

#include "hub/expert_stacks.h"
#include "nn/lora_targets.h"

namespace hone::hub {
namespace {

// Of an expert's part the stacked weight that PEFT has it in: what its patterns are for.
std::string stacked_name(const std::string& module) {
  ExpertName expert;
  if (!parse_expert(module, expert)) return module;
  return expert.experts + (expert.part == "down_proj" ? ".down_proj" : ".gate_up_proj");
}

template <class Patterns>
std::optional<double> value_for(const Patterns& patterns, const std::string& module) {
  for (const auto& [pattern, value] : patterns)
    if (nn::matches_pattern(module, pattern) || nn::matches_pattern(stacked_name(module), pattern))
      return static_cast<double>(value);
  return std::nullopt;
}

template <class T>
void settle(std::map<std::string, T>& patterns, const std::vector<std::pair<std::string, double>>& in_file,
            const std::vector<std::string>& modules) {
  const auto same = [&](const std::string& one) { return value_for(patterns, one) == value_for(in_file, one); };
  if (std::all_of(modules.begin(), modules.end(), same)) return;
  patterns.clear();
  for (const std::string& module : modules)
    if (const auto value = value_for(in_file, module)) patterns[stacked_name(module)] = static_cast<T>(*value);
}

// What is for modules of experts, as experts.0.down_proj, fits no stacked weight, which is what PEFT looks for.
template <class T>
void settle_for_file(std::map<std::string, T>& patterns, const std::vector<std::string>& modules) {
  const auto is_found = [&](const std::string& module) {
    const std::string name = stacked_name(module);
    const auto first = std::find_if(patterns.begin(), patterns.end(),
                                    [&](const auto& one) { return nn::matches_pattern(name, one.first); });
    const std::optional<double> wanted = value_for(patterns, module);
    return first == patterns.end() ? !wanted : wanted == static_cast<double>(first->second);
  };
  if (std::all_of(modules.begin(), modules.end(), is_found)) return;
  std::map<std::string, T> named;
  for (const std::string& module : modules)
    if (const auto value = value_for(patterns, module)) named[stacked_name(module)] = static_cast<T>(*value);
  patterns = std::move(named);
}

}  // namespace

std::int64_t rank_of(const AdapterConfig& config, const std::string& module) {
  return static_cast<std::int64_t>(value_for(config.ranks, module).value_or(static_cast<double>(config.lora.rank)));
}

double alpha_of(const AdapterConfig& config, const std::string& module) {
  const double standard = config.lora.alpha.value_or(2.0 * static_cast<double>(config.lora.rank));
  return value_for(config.alphas, module).value_or(standard);
}

void settle_patterns(const AdapterConfig& config, const std::vector<std::string>& modules, LoraConfig& lora) {
  settle(lora.rank_pattern, config.ranks, modules);
  settle(lora.alpha_pattern, config.alphas, modules);
}

void settle_patterns_for_file(const std::vector<std::string>& modules, LoraConfig& lora) {
  settle_for_file(lora.rank_pattern, modules);
  settle_for_file(lora.alpha_pattern, modules);
}

}  // namespace hone::hub
