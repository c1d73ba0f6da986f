// Experiments of MLflow's file store: folders with a meta.yaml.
#pragma once

#include <filesystem>
#include <string>

#include "base/env.h"

namespace hone::trackers {

inline constexpr const char* kMetaFile = "meta.yaml";

// The folder of the experiment of that name, made if there is none, as is the store. Two processes that ask at once get
// the same. Error(config): one of that name was deleted in MLflow.
Folder mlflow_experiment(const std::filesystem::path& store, const std::string& name);

std::string random_letters(std::size_t count, std::string_view letters);

}  // namespace hone::trackers
