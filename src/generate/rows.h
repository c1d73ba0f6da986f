// Prompts as a batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "hone/text.h"

namespace hone::generate {

// Rows of ids, padded on the right; `docs` says where the real tokens are. pictures: of each row; empty: none has any.
using RowPictures = std::vector<std::span<const DocPicture>>;
Batch rows_of_ids(const std::vector<std::span<const std::int32_t>>& rows, const RowPictures& pictures = {});

// The same as sources, each with a target behind it that has the token `start` alone.
Batch sources_with_starts(const std::vector<std::span<const std::int32_t>>& rows, std::int32_t start);

// A text that is to be continued: as the tokenizer begins texts, without what it puts at their end.
std::vector<std::int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text);
// A text as a model reads it that was trained by objective seq2seq: what the tokenizer makes of it, with its
// end-of-sequence token. language: its token in place of the tokenizer's own; "": that.
std::vector<std::int32_t> source_ids(const Tokenizer& tokenizer, const std::string& text,
                                     const std::string& language = "");

}  // namespace hone::generate
