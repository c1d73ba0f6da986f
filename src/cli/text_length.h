// How many tokens of a text, or of a pair of texts, commands read.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/model_place.h"
#include "cli/run_recipe.h"

namespace hone::cli {

// As the folder of an embedding, of a sparse encoder or of a cross-encoder says it, the adapter's before the model's;
// nothing: it says none, or is none of these. Error(checkpoint): a folder that hone does not have.
std::optional<std::int64_t> folder_length(const ModelPlace& place, const Model& model);

// As many as the model has positions, at most 2048.
std::int64_t usual_length(const Model& model);

// given: the flag --max-length; without it that of the folder, or, of a model with a classification head, that of the
// run that it is of, but no more than the model has positions; else usual_length().
std::int64_t text_length(const ModelPlace& place, const Model& model, std::optional<std::int64_t> given);

// How a question's text is cut into windows: tokens of one, and how many two of them share.
struct WindowSizes {
  std::int64_t max_length = 384, doc_stride = 128;
};
// given: the flags --max-length and --doc-stride; without them what the run had that the model is of, else the usual
// ones. A stride that nobody gave is made to fit a length that the run had not: a quarter of it at most.
WindowSizes window_sizes(const RunRecipe& run, const Model& model, std::optional<std::int64_t> given_length,
                         std::optional<std::int64_t> given_stride);

}  // namespace hone::cli
