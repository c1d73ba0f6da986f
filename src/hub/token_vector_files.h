// Folders of the sentence-transformers package whose models give a vector of each token (MultiVectorEncoder): what they
// say besides their weights.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hub/sentence_folder.h"
#include "nn/token_vectors.h"

namespace hone::hub {

// Throws Error(checkpoint): the folder is one of Stanford's ColBERT, whose projection lies among the model's weights.
void refuse_colbert(const std::filesystem::path& folder);
// Whether these modules are of such a model. Throws Error(checkpoint): they are of one that another package wrote.
bool are_of_tokens(const std::filesystem::path& folder, const nlohmann::json& modules);
// Transformer, one Dense or several, which read tokens, MultiVectorMask and, before or behind it, Normalize. Throws
// Error(checkpoint) for what hone has not.
void read_token_vectors(const std::filesystem::path& folder, const nlohmann::json& modules, SentenceFolder& made);
// What such a folder compares texts by. Throws Error(checkpoint): hone has not.
nn::TokenSimilarity token_similarity(const SentenceFolder& folder);
// modules.json and those that it names, but what `modules` are, and sentence_bert_config.json.
std::map<std::string, std::string> token_vector_files(const SentenceFolder& folder);

}  // namespace hone::hub
