// What a folder of sentence-transformers says of how its model embeds.
#include "train/sentence_defaults.h"

#include <filesystem>
#include <functional>
#include <optional>

#include "hone/config_read.h"
#include "hone/hub.h"
#include "hub/cross_encoder.h"
#include "hub/sentence_files.h"
#include "train/make_objective.h"

namespace hone::training {
namespace {

constexpr const char *kObjective = "embedding", *kSparse = "sparse_embedding", *kLate = "late_interaction";

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

namespace {

using Take = std::function<void(const char* key, config::Node value)>;

template <class T>
config::Node said_node(const T& value) {
  return config::Values<T>::write(value);
}

// `expands`: the recipe says itself whether queries go on.
void take_token_vectors(const hub::SentenceFolder& folder, bool expands, const Take& take) {
  const TokenVectorOptions& how = *folder.token_vectors;
  if (!folder.modules.empty()) take("embedding_dimension", said_node(how.dimension));
  take("normalize", said_node(folder.normalize));
  take("similarity_fn_name", said_node(folder.similarity));
  if (how.query_length > 0 && !expands) take("query_length", said_node(how.query_length));
  if (how.document_length > 0) take("document_length", said_node(how.document_length));
  take("skiplist_words", said_node(how.skiplist_words));
  std::vector<std::string> tasks;
  if (how.skips_in_queries) tasks.emplace_back("query");
  if (how.skips_in_documents) tasks.emplace_back("document");
  if (!tasks.empty()) take("skiplist_tasks", said_node(tasks));
  if (expands || how.expansion_length == 0) return;
  take("query_expansion", said_node(std::string(how.cuts_queries ? "fixed" : "min")));
  take("query_expansion_length", said_node(how.expansion_length));
  take("query_expansion_attend", said_node(how.attend));
  if (!how.expansion_token.empty()) take("query_expansion_token", said_node(how.expansion_token));
}

}  // namespace

void take_sentence_defaults(Recipe& recipe) {
  const std::string& type = recipe.objective.type;
  const bool sparse = type == kSparse, late = type == kLate;
  if ((!sparse && !late && type != kObjective) || recipe.model.path.empty()) return;
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
  if (late && folder->token_vectors) {
    const config::Node* given = node.find("query_expansion");
    take_token_vectors(*folder, given && !given->is_null(), take);
  }
  if (!sparse && !late && !folder->splade && !folder->token_vectors) {
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
