// A cross-encoder as a server asks it.
#pragma once

#include "cli/model_place.h"
#include "serve/rerank.h"

namespace hone::cli {

struct ScoreOptions {
  std::optional<std::int64_t> max_length = {};  // default: as the folder says, else the positions
  std::int64_t pairs = 16, queue = 256;         // of a pass; requests that may wait
};

// REQUIRES: model and tokenizer outlive it; the model gives a text one number. Error(config): the tokenizer joins no
// texts.
serve::Scores served_scores(const Model& model, std::shared_ptr<const Tokenizer> tokenizer, const ModelPlace& place,
                            serve::FrontOptions front, const ScoreOptions& options);

}  // namespace hone::cli
