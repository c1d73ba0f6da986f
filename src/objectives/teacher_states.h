// What the divergence from a teacher's distributions is made of: its hidden states, and its head.
//
// Letters: B batch, T time, E the teacher's hidden size, V vocabulary.
#pragma once

#include <map>
#include <string>

#include "hone/layers.h"
#include "hone/objective.h"
#include "ops/divergence.h"

namespace hone::objectives {

// Numbers of documents (Objective::document_numbers()), by the names that divergence_from() finds them by.
struct TeacherStates {
  Tensor hidden_BTE, head_VE;
  double soft_cap = 0;  // of the head's logits
  std::map<std::string, Tensor> numbers() const;
};
// whose: "objective.teacher: its adapter", for the Error(config) of one that changes the head.
TeacherStates teacher_states(const CausalLm& lm, const std::string& adapter, const Batch& batch,
                             const std::string& whose);

// The divergence from what the batch has of them, of a model with so many rows in its head; a teacher may have more,
// which no token uses.
ops::Teacher divergence_from(const Batch& batch, double soft_cap, std::int64_t vocabulary);

}  // namespace hone::objectives
