// How the pictures of data become what a model reads.
#include "train/pictures.h"

#include "data/picture_reader.h"
#include "hone/hub.h"

namespace hone::training {

std::shared_ptr<const PictureReader> pictures_of(const Model& model, const std::filesystem::path& folder) {
  return model.pictures() ? data::open_pictures(*model.pictures(), folder) : nullptr;
}

std::shared_ptr<const PictureReader> pictures_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return nullptr;
  const config::Node config = config::read_file(file.string());
  if (!config.is_map() || !config.find("vision_config")) return nullptr;
  return pictures_of(*build_model(config, file.string()), folder);
}

}  // namespace hone::training
