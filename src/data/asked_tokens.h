// Prompts that are answered while a model learns, as tokens.
#pragma once

#include <string>

#include "data/record_tokens.h"

namespace hone::data {

// What is asked as the model meets it, then, with labels, what answers are compared with. With a teacher's prompt
// (Dataset::Options::teacher_prompt) its tokens stand there instead: its text with the prompt's, or what the user says
// last in a conversation, for {prompt}, and the record's answer, which the model is not shown, for
// {privileged_context}.
RecordTokens from_asked(const AskedRecord& record, const Tokenising& how, const std::string& place);

}  // namespace hone::data
