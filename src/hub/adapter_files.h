// PEFT's folders <-> adapters on a model.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "hone/adapter.h"
#include "hub/adapter_config.h"
#include "hub/adapter_tensor.h"
#include "hub/save.h"

namespace hone::hub {

// Of the adapter of that name, and of the weights that are trained whole. value_of gives a weight's value: itself, or
// the master of it.
std::vector<AdapterTensor> adapter_tensors(Model& model, const std::string& adapter,
                                           const std::vector<std::string>& saved_modules);
// The name that PEFT gives a tensor where the adapter is on the body alone: without Model::base_prefix().
std::string name_of_body(const std::string& tensor, const Model& model);

// What load_adapter() will do, and whether it can; the weights need not be filled. Freezes all but what the file has
// whole.
std::pair<LoraConfig, LoraReport> plan_adapter(Model& model, const std::filesystem::path& folder);

// adapter_config.json for the adapter that is on the model. One that began as a part of the weights (PiSSA, OLoRA) is
// written as one of twice the rank, which goes with the base as it was.
std::string adapter_json(Model& model, const std::string& adapter, const AdapterConfig& config);

// A whole PEFT folder, made in one piece; the tokenizer's files go with it.
void save_adapter_folder(const std::filesystem::path& folder, Model& model, const AdapterConfig& config,
                         const std::vector<std::pair<std::string, std::string>>& texts, SaveOptions options);

}  // namespace hone::hub
