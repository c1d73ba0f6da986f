// What a folder of sentence-transformers says of how its model embeds.
#include "train/sentence_defaults.h"

#include <filesystem>
#include <optional>

#include "hone/config_read.h"
#include "hone/hub.h"
#include "hub/cross_encoder.h"
#include "hub/sentence_files.h"
#include "train/make_objective.h"

namespace hone::training {
namespace {

constexpr const char *kObjective = "embedding", *kSparse = "sparse_embedding";

std::optional<hub::SentenceFolder> sentence_folder_of(const std::string& where) {
  ModelPlace place;
  try {
    place = find_model(where);
  } catch (const Error&) {
    return std::nullopt;  // told when the model is loaded
  }
  if (!place.adapter.empty())
    if (auto found = hub::read_sentence_folder(place.adapter)) return found;
  return hub::read_sentence_folder(place.folder);
}

}  // namespace

void take_sentence_defaults(Recipe& recipe) {
  const bool sparse = recipe.objective.type == kSparse;
  if ((!sparse && recipe.objective.type != kObjective) || recipe.model.path.empty()) return;
  const std::optional<hub::SentenceFolder> folder = sentence_folder_of(recipe.model.path);
  if (!folder) return;
  config::Node node = config::Values<config::Choice<Objective>>::write(recipe.objective);
  const auto take = [&](const char* key, config::Node value) {
    const config::Node* given = node.find(key);
    if (!given || given->is_null()) node.at_or_add(key) = std::move(value);
  };
  if (sparse && folder->splade) {
    take("pooling_strategy", config::Values<nn::SpladeStrategy>::write(folder->splade->strategy));
    take("activation_function", config::Values<nn::SpladeActivation>::write(folder->splade->activation));
  }
  if (!sparse && !folder->splade) {
    take("pooling", config::Values<nn::Pooling>::write(folder->pooling));
    take("normalize", config::Values<bool>::write(folder->normalize));
  }
  take("query_prompt", config::Values<std::string>::write(folder->prompt({"query"})));
  take("document_prompt", config::Values<std::string>::write(folder->prompt({"document", "passage"})));
  Problems problems;
  config::Values<config::Choice<Objective>>::read(node, recipe.objective, {problems, "objective"});
  problems.raise();
}

void take_pair_length(Recipe& recipe) {
  constexpr const char* kOption = "max_pair_length";
  const Needs needs = make_objective(recipe)->needs();
  if (recipe.objective.type != "ranking" || !needs.compares_records) return;
  config::Node node = config::Values<config::Choice<Objective>>::write(recipe.objective);
  if (const config::Node* given = node.find(kOption); given && !given->is_null()) return;
  node.at_or_add(kOption) = config::Values<std::int64_t>::write(recipe.data.max_length);
  Problems problems;
  config::Values<config::Choice<Objective>>::read(node, recipe.objective, {problems, "objective"});
  problems.raise();
}

std::map<std::string, std::string> files_beside(const Recipe& recipe, const Inputs& inputs, const Model& model) {
  auto files = make_objective(recipe)->folder_files(model, recipe.data.max_length);
  const Classifier* classifier = model.classifier();
  if (files.empty() && classifier && !classifier->of_tokens() && !inputs.source.empty())
    return hub::cross_encoder_files(inputs.source, recipe.data.max_length);
  if (files.empty()) return files;
  for (const std::filesystem::path& source : {inputs.adapter_source, inputs.source})
    if (!source.empty() && hub::read_sentence_folder(source)) {
      hub::keep_settings(source, files);
      break;
    }
  return files;
}

}  // namespace hone::training
