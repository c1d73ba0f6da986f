// A model as commands are given it: a folder, or that and an adapter.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "hone/hub.h"
#include "hub/save.h"

namespace hone::cli {

// `where`: what find_model() takes; with `adapter` (find_adapter_folder()) it must be a whole model. Throws
// Error(usage). A base that is no longer what a run's adapter was trained beside: a warning.
ModelPlace model_place(const std::string& where, const std::string& adapter);
// An error, unless the model was named with the adapter.
ModelPlace model_place_to_merge(const std::string& where, const std::string& adapter);
// The model with its adapter in it and no longer beside it; precision: of what comes of it, as it is stored by default.
std::unique_ptr<Model> merged_model(const ModelPlace& place, std::optional<Precision> precision);
// Its weights, but not its buffers, in this type. Error(checkpoint), which begins with `where`: it cannot hold a
// number.
void cast_weights(Model& model, at::ScalarType type, const std::string& where);
// The small files of a merged model: those of its base, with the adapter's tokenizer and ends of answers where it has
// them.
hub::ModelFiles merged_files(const ModelPlace& place, Model& model);
// The folder whose generation_config.json counts: the adapter's, where it has one.
std::filesystem::path generation_folder(const ModelPlace& place);
// The folder whose tokenizer and chat template go with it: the adapter's, where it has a tokenizer.
std::filesystem::path tokenizer_folder(const ModelPlace& place);

}  // namespace hone::cli
