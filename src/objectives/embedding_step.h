// The vectors of a whole step: of all its micro-batches, on all ranks.
//
// Letters: S documents, D numbers of a vector, P pairs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "objectives/embedded_texts.h"

namespace hone {
class World;  // hone/world.h
}

namespace hone::objectives {

// In Batch::extra, of each document; kGuided: the vectors that gist's guide makes of them.
inline constexpr const char *kTextIds = "text", *kScores = "score", *kClasses = "class", *kGuided = "guided";

// What a document is to the others: its role, and which group it is in.
struct TextMember {
  Role role = Role::none;
  std::int64_t group = 0;
};
std::vector<TextMember> members_of(const Batch& batch);

// Documents of a step with what is known of them, in one order.
struct StepTexts {
  std::vector<TextMember> members;
  Tensor vector_SD;  // of one type on all ranks
  Tensor text_S;     // int64; equal for equal texts; undefined: nobody knows
  Tensor score_S2;   // fp64: how alike, and whether that is known; undefined: there are none
  Tensor guided_SD = {};  // fp32 of gist's guide, of a width of its own; undefined: there is none
  Tensor class_S = {};    // int64 of texts that stand alone, equal for those of one label; undefined: there are none

  std::int64_t size() const { return static_cast<std::int64_t>(members.size()); }
  void add(const StepTexts& more);  // groups are numbered on
};
// Of a batch, with these vectors.
StepTexts texts_of(const Batch& batch, const Tensor& vector_SD);
// Of all ranks, in their order. `first`: of those returned the number of this rank's first one.
StepTexts gathered(const StepTexts& own, const World& world, std::int64_t& first);

// What a loss compares of them; a graph from vector_SD.
EmbeddedTexts compared(const StepTexts& texts);

// Of each document a number that is the same for the same tokens. REQUIRES: a batch in host memory.
Tensor text_ids(const Batch& batch);

std::int64_t count_texts(Role role, const Batch& batch);

}  // namespace hone::objectives
