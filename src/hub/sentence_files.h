// The files that make a model folder one of the sentence-transformers package: what its vectors are made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "hone/precision.h"
#include "hub/sentence_folder.h"

namespace hone::hub {

// Nothing: the folder has no modules.json, or is of a cross-encoder. Throws Error(checkpoint) for what hone has not:
// other modules, or in another order, several kinds of pooling at once, prompts that do not count.
std::optional<SentenceFolder> read_sentence_folder(const std::filesystem::path& folder);

// Name -> content, of pooled vectors of so many numbers (of splade: of the vocabulary). Those of `modules` are not
// among them.
std::map<std::string, std::string> sentence_files(const SentenceFolder& folder, std::int64_t width);

// Puts the folder's modules beside the model, without their weights.
void set_vector_modules(Model& model, const SentenceFolder& folder);
// The same with their weights, on the model's device. Nothing happens where the folder is no such one.
void load_vector_modules(Model& model, const std::filesystem::path& folder, Precision precision);

// Makes of these files, which sentence_files() has made, those of a model that was trained from a folder's: what that
// says besides its modules stays (prompts of other names, default_prompt_name, similarity_fn_name, truncate_dim, …).
void keep_settings(const std::filesystem::path& source, std::map<std::string, std::string>& files);

// Those of a folder, be it of a cross-encoder, as they are, to be carried over to another one; empty: it has none.
// Error(checkpoint) as above.
std::map<std::string, std::string> copied_sentence_files(const std::filesystem::path& folder);

}  // namespace hone::hub
