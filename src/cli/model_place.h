// A model as commands are given it: a folder, or that and an adapter.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "hone/hub.h"

namespace hone::cli {

// `where`: what find_model() takes; with `adapter` (find_adapter_folder()) it must be a whole model. Throws
// Error(usage).
ModelPlace model_place(const std::string& where, const std::string& adapter);
// The folder whose tokenizer and chat template go with it: the adapter's, where it has a tokenizer.
std::filesystem::path tokenizer_folder(const ModelPlace& place);

}  // namespace hone::cli
