// A whole tokenizer from text: a vocabulary and the parts that go with its kind.
#pragma once

#include <functional>
#include <string>

#include "text/tokenizer/files.h"
#include "text/train/train.h"

namespace hone::text {

enum class TrainedKind { bpe, word_piece, unigram };

struct TrainerConfig {
  TrainedKind kind = TrainedKind::bpe;
  bool lowercase = true;  // WordPiece: without case and accents
  TrainOptions options;   // without special tokens: those usual for the kind
};

// next() hands out the lines of the corpus, each with its line end, until it gives nothing. The result is the
// tokenizer.json and tokenizer_config.json of a folder. Throws Error(data) for text that is not UTF-8.
Files train_tokenizer(TrainerConfig config, const std::function<bool(std::string&)>& next);

}  // namespace hone::text
