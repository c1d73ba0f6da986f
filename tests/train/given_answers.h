// Answers of golden files, instead of a model's.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "objectives/rollouts.h"

namespace hone::test {

constexpr std::int32_t kEndOfAnswer = 257;

// Of each prompt `each`; ids_of: of the record's answer of this number.
inline std::vector<objectives::GivenAnswer> given_answers(
    const std::vector<objectives::Asked>& asked, std::int64_t each,
    const std::function<const nlohmann::json&(std::int64_t record, std::int64_t which)>& ids_of) {
  std::vector<objectives::GivenAnswer> made;
  for (const objectives::Asked& one : asked)
    for (std::int64_t i = 0; i < each; ++i) {
      objectives::GivenAnswer& answer = made.emplace_back();
      answer.ids = ids_of(one.record, i).get<std::vector<std::int32_t>>();
      answer.reason = answer.ids.back() == kEndOfAnswer ? FinishReason::eos : FinishReason::length;
    }
  return made;
}

}  // namespace hone::test
