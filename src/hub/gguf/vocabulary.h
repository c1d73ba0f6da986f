// A tokenizer in a GGUF file's keys: tokens, what kind each is, merges or scores, special ids, chat templates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hone/text.h"
#include "io/gguf.h"

namespace hone::gguf {

struct Vocabulary {
  const Tokenizer& tokenizer;
  std::filesystem::path folder;  // where a tokenizer.model may lie, whose scores count
  std::int64_t rows = 0;         // of the model's table
  std::vector<std::int32_t> ends = {};  // at which generation stops
  bool gemma4 = false;  // words are merged as others do it by bytes
};
// Error(config): llama.cpp has no such tokenizer, or the table has fewer rows than it has tokens.
void vocabulary_keys(io::GgufKeys& keys, const Vocabulary& vocabulary);

}  // namespace hone::gguf
