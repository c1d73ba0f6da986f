// Pictures as a model's folder says that it reads them.
#pragma once

#include <filesystem>
#include <memory>

#include "hone/pictures.h"

namespace hone::data {

// folder: with preprocessor_config.json, or processor_config.json, which is read when the first picture comes. The
// reader throws Error(checkpoint): it has none, or what hone cannot read; Error(config): they make other patches than
// the model reads.
std::shared_ptr<const PictureReader> open_pictures(const PictureInput& input, const std::filesystem::path& folder);

}  // namespace hone::data
