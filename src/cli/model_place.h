// A model as commands are given it: a folder, or that and an adapter.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "hone/hub.h"

namespace hone::cli {

// `where`: what find_model() takes; with `adapter` (find_adapter_folder()) it must be a whole model. Throws
// Error(usage). A base that is no longer what a run's adapter was trained beside: a warning.
ModelPlace model_place(const std::string& where, const std::string& adapter);
// An error, unless the model was named with the adapter.
ModelPlace model_place_to_merge(const std::string& where, const std::string& adapter);
// The model with its adapter in it and no longer beside it; precision: of what comes of it, as it is stored by default.
std::unique_ptr<Model> merged_model(const ModelPlace& place, std::optional<Precision> precision);
// The folder whose tokenizer and chat template go with it: the adapter's, where it has a tokenizer.
std::filesystem::path tokenizer_folder(const ModelPlace& place);

}  // namespace hone::cli
