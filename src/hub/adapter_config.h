// PEFT's adapter_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hone/adapter.h"
#include "hub/adapter_selection.h"

namespace hone::hub {

inline constexpr const char *kAdapterConfig = "adapter_config.json", *kAdapterModel = "adapter_model.safetensors";

struct AdapterConfig {
  LoraConfig lora;
  std::string base;  // as the file names it; "": it names none
  bool of_body = false;  // to be written for the model without a head, as PEFT's for feature extraction are
  // Of a file that was read. targets: ends of names; empty: not to be told from it.
  std::vector<std::string> targets = {};
  AdapterSelection selection = {};
  // rank_pattern and alpha_pattern in the file's order: PEFT takes the first that fits.
  std::vector<std::pair<std::string, double>> ranks = {}, alphas = {};
};

bool is_adapter_folder(const std::filesystem::path& folder);
// Throws Error(checkpoint) for what is no LoRA adapter, or one with options that hone has not.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);
// What PEFT reads. modules: those that have the adapter; in_out: their weights are [in, out].
struct AdapterModules {
  std::vector<std::string> adapted, saved,
      parameters;  // parameters: stacked weights of experts, "mlp.experts.down_proj"
  bool in_out = false;
  std::string task;  // "CAUSAL_LM"
  std::vector<std::int64_t> tokens = {};  // whose rows of the table of embeddings it has
  bool tied_tokens = false;               // and the head makes its outputs with them
};
std::string adapter_config_json(const AdapterConfig& config, const AdapterModules& modules);

}  // namespace hone::hub
