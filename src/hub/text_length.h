// How long the texts are that a folder of the sentence-transformers package takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace hone::hub {

// Tokens of a text, or of a pair: max_seq_length of sentence_bert_config.json, else model_max_length of
// tokenizer_config.json, as that package reads them; nothing: neither says a number. A model may have fewer positions.
std::optional<std::int64_t> said_length(const std::filesystem::path& folder);

}  // namespace hone::hub
