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

std::int64_t usual_length(const Model& model) { return std::min(kUsual, model.max_positions()); }

std::int64_t text_length(const ModelPlace& place, const Model& model, std::optional<std::int64_t> given) {
  if (given) return *given;
  std::optional<std::int64_t> said = folder_length(place, model);
  if (!said && model.classifier()) said = RunRecipe(place).max_length();
  return said ? std::min(*said, model.max_positions()) : usual_length(model);
}

WindowSizes window_sizes(const RunRecipe& run, const Model& model, std::optional<std::int64_t> given_length,
                         std::optional<std::int64_t> given_stride) {
  constexpr const char* kObjective = "question_answering";
  WindowSizes sizes;
  const std::int64_t usual = std::min(sizes.max_length, model.max_positions());
  sizes.max_length = given_length.value_or(run.number(kObjective, "data", "max_length").value_or(usual));
  const std::optional<std::int64_t> runs = run.number(kObjective, "objective", "doc_stride");
  sizes.doc_stride = given_stride.value_or(runs.value_or(sizes.doc_stride));
  if (!given_stride && (given_length || !runs)) sizes.doc_stride = std::min(sizes.doc_stride, sizes.max_length / 4);
  return sizes;
}

}  // namespace hone::cli
