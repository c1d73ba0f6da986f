// Texts to embed or to rank as tokens of a record: a document each.
#pragma once

#include <string>

#include "data/record_tokens.h"

namespace hone::data {

// Texts, or two of them that are read together, with a label.
RecordTokens labelled_tokens(const TextPair& texts, std::string label, const Tokenising& how, const std::string& place);

// The query, with the document and the others as its companions; ranked: each of these behind the query, the first of
// which has the others as its companions. The label is a text's score, "" where it has none, or its class behind
// kClassMark.
RecordTokens from_texts(const EmbeddingRecord& record, const Tokenising& how, const std::string& place);
inline constexpr char kClassMark = '=';

// How many documents that makes of a record: of a query with texts, or of a text alone.
std::int64_t documents_of(const EmbeddingRecord& record, RecordKind records);

// Behind a prompt that fills max_length every text would be the same. Throws Error(config).
void require_rest(const std::string& prompt, const char* of, const Tokenising& how);

// What such records are called in messages.
const char* noun_of(RecordKind records);

}  // namespace hone::data
