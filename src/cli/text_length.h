// How many tokens of a text, or of a pair of texts, commands read.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/model_place.h"

namespace hone::cli {

// As the folder of an embedding, of a sparse encoder or of a cross-encoder says it, the adapter's before the model's;
// nothing: it says none, or is none of these. Error(checkpoint): a folder that hone does not have.
std::optional<std::int64_t> folder_length(const ModelPlace& place, const Model& model);

// given: the flag --max-length; without it that of the folder, but no more than the model has positions; else as many,
// at most 2048.
std::int64_t text_length(const ModelPlace& place, const Model& model, std::optional<std::int64_t> given);

}  // namespace hone::cli
