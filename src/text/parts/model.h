// What turns a word into ids: the `model` of tokenizer.json, one file per kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/parts/vocabulary.h"
#include "text/tokenizer/tokenizer_file.h"

namespace hone::text {

// An id and the bytes of the word it stands for.
struct Token {
  std::int32_t id;
  std::uint32_t begin, end;
};

// Memory of a model for one thread at a time: buffers and caches.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
};

// Immutable: any thread may call it, with its own scratch.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<ModelScratch> make_scratch() const = 0;
  // Appends the tokens of a word; its bytes as they are if takes_bytes(). REQUIRES: word is not empty.
  virtual void tokenize(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // The words come as plain bytes, although the vocabulary spells bytes as characters.
  virtual bool takes_bytes() const { return false; }
  // The text of a token that tokenize() made of this word.
  virtual std::string_view text_of(const Token& token, std::string_view) const { return vocabulary().token(token.id); }
};

// spelled_bytes: the pre-tokenizer would turn bytes into characters; the model may do without (see takes_bytes).
// `where` begins every message: "tokenizer.json: model". A further kind is one more file and one more line in model.cc.
std::unique_ptr<Model> make_model(const ModelConfig& config, const std::string& where, bool spelled_bytes);

std::unique_ptr<Model> make_bpe(const ModelConfig& config, const std::string& where, bool spelled_bytes);
std::unique_ptr<Model> make_word_piece(const ModelConfig& config, const std::string& where);
std::unique_ptr<Model> make_word_level(const ModelConfig& config, const std::string& where);
std::unique_ptr<Model> make_unigram(const ModelConfig& config, const std::string& where);

}  // namespace hone::text
