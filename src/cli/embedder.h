// A model folder's embedding: which of a text's hidden states stand for it, and what is put before it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_place.h"
#include "data/token_vector_texts.h"
#include "hub/sentence_files.h"

namespace hone::cli {

// What flags say in place of the folder.
struct EmbedderOptions {
  std::string tokenizer = {};
  std::optional<nn::Pooling> pooling = {};
  std::optional<bool> normalize = {};
  std::optional<std::int64_t> max_length = {}, dims = {}, max_active_dims = {};
};

// load_model(), and beside it the modules that make other vectors of pooled ones, where the folder has some.
std::unique_ptr<Model> load_embedding_model(const ModelPlace& place, const ModelFlags& flags);

class Embedder {
 public:
  // Throws Error of several kinds, by the flags' names.
  Embedder(const ModelPlace& place, const ModelFlags& flags, const EmbedderOptions& options);

  // A text's tokens, as far as there is room.
  struct Tokens {
    std::vector<std::int32_t> ids;
    bool is_cut = false;
  };
  // `where`: which text it is, for errors. prompt: what is put before it. role: query, or what a document is. Throws
  // Error(data).
  Tokens read(const std::string& text, const std::string& prompt, const std::string& where,
              Role role = Role::chosen) const;
  // [texts, dims] on the host, in fp32. dims: the first so many numbers, of length 1 once more where vectors have that;
  // nothing: as flags and folder say. REQUIRES: at most width().
  // Of a sparse encoder [texts, vocabulary], with as many weights above 0 as flags and folder let be.
  Tensor vectors(const std::vector<std::vector<std::int32_t>>& texts, std::optional<std::int64_t> dims = {}) const;
  bool is_sparse() const { return folder_.splade.has_value(); }
  // Whether texts have a vector of each token; then these, [tokens, width] of each text on the host, in fp32.
  bool gives_tokens() const { return folder_.token_vectors.has_value(); }
  std::vector<Tensor> token_vectors(std::vector<std::vector<std::int32_t>> texts, Role role) const;

  // The folder's prompt of this name; "": its default one, if it has one. Error(usage): it has none, by `flag`'s name.
  std::string prompt(const std::string& name, const std::string& flag) const;
  // What the folder says stands before queries, or before documents; "": nothing.
  std::string usual_prompt(Role role) const {
    return role == Role::query ? folder_.prompt({"query"}) : folder_.prompt({"document", "passage", "corpus"});
  }
  std::int64_t max_length() const { return longest_; }
  std::int64_t width() const { return width_; }  // of a whole vector
  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const { return tokenizer_; }

 private:
  void check_sparse(const EmbedderOptions& options);
  void check_tokens(const EmbedderOptions& options);
  Batch batch_of(const std::vector<HostRow>& rows) const;
  Tensor on_host(const Tensor& vectors) const;  // in fp32; throws Error: some are not finite
  Tensor made(const Output& output, const Batch& batch, Pass& pass, std::optional<std::int64_t> dims) const;

  std::unique_ptr<Model> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  hub::SentenceFolder folder_;
  std::shared_ptr<const data::TokenVectorTexts> token_texts_;
  nn::Pooling pooling_ = nn::Pooling::mean;
  bool normalize_ = true, again_ = false;  // again: what is left of a vector has length 1, too
  std::int64_t longest_ = 0, dims_ = 0, width_ = 0, active_ = 0;
};

// Error(usage): nothing else would be left of a text.
void require_room_behind(const Embedder& embedder, const std::string& prompt);

}  // namespace hone::cli
