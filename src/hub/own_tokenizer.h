// The tokenizer in a model's folder, which may have none, and whether it is that of another model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "hone/text.h"

namespace hone::hub {

// As load_tokenizer(folder); where the folder has no file of tokens: "none", which rows of ids can do with.
std::shared_ptr<const Tokenizer> own_tokenizer(const std::filesystem::path& folder);

std::string_view tokenizer_json(const Tokenizer& tokenizer);  // "": it has no such file

// Whether ids are the same tokens to it and to the folder's own, with the same ends; a folder without one takes any.
bool is_tokenizer_of(const std::filesystem::path& folder, const Tokenizer& tokenizer);

// Throws Error(config) where ids mean other tokens to the model in the folder: `who` reads another language than the
// run. Other special tokens, and a folder without a file of tokens, are told.
void check_same_tokens(const Tokenizer& own, const std::filesystem::path& folder, const std::string& who);

}  // namespace hone::hub
