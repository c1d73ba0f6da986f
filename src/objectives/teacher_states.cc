// A teacher's pass, and what is taken of it.
#include "objectives/teacher_states.h"

#include <ATen/ATen.h>

#include "ops/linear_weight.h"

namespace hone::objectives {
namespace {

constexpr const char *kTeacherStates = "teacher_hidden", *kTeacherHead = "teacher_head";

}  // namespace

std::map<std::string, Tensor> TeacherStates::numbers() const {
  return {{kTeacherStates, hidden_BTE}, {kTeacherHead, head_VE}};
}

TeacherStates teacher_states(const CausalLm& lm, const std::string& adapter, const Batch& batch,
                             const std::string& whose) {
  Pass pass(batch);
  pass.adapter = adapter;
  if (lm.head().is_made_apart(pass))
    throw Error(ErrorKind::config, whose + " changes its head; expected a model whose head is one weight")
        .hint("hone merge makes one model of both");
  return {lm.forward(batch, pass).hidden_BTD, lm.head().with_bias().weight_OI, lm.head().soft_cap()};
}

ops::Teacher divergence_from(const Batch& batch, double soft_cap, std::int64_t vocabulary) {
  return {.hidden_NE = batch.extra.at(kTeacherStates).flatten(0, -2),
          .head_VE = batch.extra.at(kTeacherHead).narrow(0, 0, vocabulary),
          .soft_cap = soft_cap};
}

}  // namespace hone::objectives
