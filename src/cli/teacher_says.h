// What a model says of the tokens of given documents: the likeliest at each place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/model.h"
#include "hone/source.h"
#include "hone/text.h"

namespace hone::cli {

// How a teacher is asked.
struct AskTeacher {
  std::int64_t top_k = 64;
  double temperature = 1;  // that its logits are divided by
};

// Of each document's tokens: at those that are learnt and that others stand before, the likeliest of the whole
// vocabulary, the likeliest first; nothing at the others. One pass over all; logits are made of a few places at a time.
// Throws Error(checkpoint) for a model whose logits are not finite.
std::vector<TeacherLogProbs> teacher_says(const CausalLm& model, const std::vector<Tokens>& documents,
                                          const AskTeacher& how);

}  // namespace hone::cli
