// The head of an encoder: of labels, for masked tokens, or none.
#pragma once

#include "models/label_keys.h"

namespace hone::models {

struct EncoderHead {
  HeadLabels labels;       // empty: it has no classification head
  bool masked_lm = false;  // it has a head for masked tokens, which uses the table of words
  bool has_head() const { return !labels.empty() || masked_lm; }
  const char* class_end() const;  // how the name of transformers' class ends
};

// What config.json says. tied: its tie_word_embeddings, without which a head for masked tokens is passed over.
void read_head(const LabelKeys& keys, bool tied, EncoderHead& head, Problems& problems);
// What is asked for instead. A problem: a head for masked tokens that could not use the table.
void ask_for(const HeadRequest& request, bool tied, EncoderHead& head, Problems& problems);

// A model's shape with the head that is asked for. Throws Error(config): there are problems.
template <class Shape>
Shape with_head(Shape shape, const HeadRequest& request, bool tied, Problems& problems) {
  ask_for(request, tied, shape, problems);
  problems.raise("the model's configuration");
  return shape;
}

}  // namespace hone::models
