// Cross-encoders of the sentence-transformers package: folders of models with a classification head, which say how a
// score is shown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "hone/model.h"

namespace hone::hub {

// Whether the folder's files of that package are those of a cross-encoder.
bool is_cross_encoder(const std::filesystem::path& folder);

// The same, or by what the model's configuration says of the package.
bool says_cross_encoder(const Model& model, const std::filesystem::path& folder);

// Whether a score is shown between 0 and 1, as by a sigmoid: as the model's configuration says, or the files of its
// folder; `otherwise`, where neither says anything. Throws Error(config) for another function.
bool shows_sigmoid(const Model& model, const std::filesystem::path& folder, bool otherwise = false);

// Those files, name -> content; empty: it is none. With max_length they say that pairs are of so many tokens.
std::map<std::string, std::string> cross_encoder_files(const std::filesystem::path& folder,
                                                       std::optional<std::int64_t> max_length = {});

}  // namespace hone::hub
