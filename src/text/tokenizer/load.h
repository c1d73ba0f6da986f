// The files of a tokenizer, on disk or made by us, and the tokenizer they describe.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "hone/text.h"
#include "text/tokenizer/files.h"

namespace hone::text {

// The built-in tokenizer of bytes, as Hugging Face's library reads it.
Files bytes_tokenizer_files();

// files: tokenizer.json and, if they are there, tokenizer_config.json, special_tokens_map.json and added_tokens.json;
// others are kept only. fallback: generation_config.json and config.json, for ids that the tokenizer's own files do not
// give. `where` begins every message: the folder.
std::shared_ptr<const Tokenizer> make_tokenizer(Files files, const Files& fallback, const std::string& where);

// Why load_tokenizer(folder) finds no file of tokens in a folder; nothing: there is one.
std::optional<Error> missing_tokens(const std::filesystem::path& folder);

// A fallback for make_tokenizer() when a tokenizer is made again of changed files: the ids that it has, which may have
// come from files beside its own.
Files known_ids(const Tokenizer& tokenizer);

}  // namespace hone::text
