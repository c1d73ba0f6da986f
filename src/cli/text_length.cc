#include "cli/text_length.h"

#include <algorithm>

#include "hub/cross_encoder.h"
#include "hub/sentence_files.h"
#include "hub/text_length.h"

namespace hone::cli {
namespace {

constexpr std::int64_t kUsual = 2048;  // of models that are made for more

}  // namespace

std::optional<std::int64_t> folder_length(const ModelPlace& place, const Model& model) {
  if (!model.classifier()) {
    const auto embeds = hub::read_sentence_folder(embedding_folder(place));
    return embeds ? embeds->max_length : std::nullopt;
  }
  if (!place.adapter.empty() && hub::is_cross_encoder(place.adapter))
    if (const auto own = hub::said_length(place.adapter)) return own;
  return hub::says_cross_encoder(model, place.folder) ? hub::said_length(place.folder) : std::nullopt;
}

std::int64_t text_length(const ModelPlace& place, const Model& model, std::optional<std::int64_t> given) {
  if (given) return *given;
  return std::min(folder_length(place, model).value_or(kUsual), model.max_positions());
}

}  // namespace hone::cli
