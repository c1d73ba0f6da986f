// How the pictures of data become what a model reads.
#pragma once

#include <filesystem>
#include <memory>

#include "hone/model.h"
#include "hone/pictures.h"

namespace hone::training {

// As the model's folder says; null: the model reads none. A folder that does not say is an Error(checkpoint) when the
// first picture comes.
std::shared_ptr<const PictureReader> pictures_of(const Model& model, const std::filesystem::path& folder);

// The same of a folder, whose model is not built for longer; null also where it has no config.json.
std::shared_ptr<const PictureReader> pictures_in(const std::filesystem::path& folder);

}  // namespace hone::training
