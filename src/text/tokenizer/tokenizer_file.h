// The text of a tokenizer.json in its parts: small ones as JSON, the large lists of the model as the text they are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hone::text {

// The model's section. `vocab` and `merges` are JSON text, or empty where the file has none; `json` then has null.
struct ModelConfig {
  const nlohmann::json& json;
  std::string_view vocab, merges;
};

struct TokenizerFile {
  nlohmann::json json;  // without model.vocab and model.merges
  std::string_view vocab, merges;
  ModelConfig model() const { return {json["model"], vocab, merges}; }  // REQUIRES: json has a model
};

// `text` must outlive the result. Throws Error(config) that begins with `what` and says the line.
TokenizerFile read_tokenizer_file(std::string_view text, const std::string& what);

// Where the value of a member of the outermost object stands, or nothing (npos) when there is none.
struct Span {
  std::size_t begin = std::string_view::npos, end = std::string_view::npos;
};
Span find_member(std::string_view text, std::string_view name, const std::string& what);

}  // namespace hone::text
