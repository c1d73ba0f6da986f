// Tagged records and steps as tokens, some of which have labels.
#pragma once

#include <cstddef>

#include "data/place.h"
#include "data/token_store.h"
#include "hone/source.h"
#include "hone/text.h"

namespace hone::data {

struct TokenLabelling {
  const Tokenizer& tokenizer;
  TokenLabels labels = {};
  std::size_t most = 0;  // tokens of a document; 0: as many as there are
  bool keep_end = false;  // of what is too long
};

// labels[i] counts the names of `tags`.
struct TaggedTokens : Tokens {
  DocTags tags = {};
};

// Words as tokens, of which the first (all: every one) has the word's label; of the others "I-x" stands for "B-x".
// Spans of a text are given to its words in the form B-label, I-label, O: a word is a span's where they share a sign.
TaggedTokens from_tagged(const TaggedRecord& record, const TokenLabelling& how, const Place& place);

// bos, if the tokenizer has one, the prompt, and each step with the separator behind it, each tokenised on its own, as
// TRL's PRMTrainer does; the last token of each has the step's label.
TaggedTokens from_steps(const StepsRecord& record, const TokenLabelling& how, const Place& place);

}  // namespace hone::data
