// What a teacher has said of a record's tokens: which fields of a row it is, and what they say.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source.
const std::vector<std::string>& teacher_fields();

// What the row says, in one of these forms, with null or an empty list where the teacher has said nothing:
//   logprobs [[-0.1, -2.3], ...] and target_token_ids [[17, 4], ...]
//   logprobs [[{"token": "token_id:17", "logprob": -0.1}, ...], ...]
//   logprobs [{"17": {"logprob": -0.1}, ...}, ...]
// Throws Error(data) with the place.
TeacherLogProbs read_teacher(const nlohmann::ordered_json& value, const Form& form, const Place& place);

}  // namespace hone::data
