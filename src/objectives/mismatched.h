// Prompts with the answers of other records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "objectives/document_parts.h"

namespace hone::objectives {

// Of the last document of a batch.
AnswerTokens last_answer(const Batch& batch);

// As text, to send it; and back.
std::string to_text(const std::vector<AnswerTokens>& answers);
std::vector<AnswerTokens> answers_of_text(const std::string& text);

// Each document's prompt with the answer of the nearest document before it that belongs to another group; of those that
// have none, `before`: a document each, all in one row, whose labels are the answer's. most: tokens of a document;
// what is longer loses its end. Nothing: there are none, which a batch of one group is where `before` is nothing.
std::optional<Batch> mismatched(const Batch& batch, const std::optional<AnswerTokens>& before, std::int64_t most);

bool has_several_groups(const Batch& batch);

}  // namespace hone::objectives
