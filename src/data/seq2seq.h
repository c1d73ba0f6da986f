// Sources and targets: which fields of a row they are, what they say, and which tokens they become.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "data/record_tokens.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source.
const std::vector<std::string>& seq2seq_fields();

// prompt and completion, input_ids and labels, or instruction (with input, where there is one) and output. By their
// names or as the columns say. Throws Error(data) that lists the row's fields and proposes columns.
Form seq2seq_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                  const Place& place);

// What the row says, as a PromptRecord or an IdsRecord.
Record read_seq2seq(const nlohmann::ordered_json& value, const Form& form, const Place& place);

// Two documents: the source as the tokenizer puts a text, and behind TargetOptions::start the target likewise, which is
// learnt. Each ends with eos where the tokenizer has one and append_eos says so; each is shortened to its own length.
// A record without a source or without a target is empty.
RecordTokens from_source_and_target(const PromptRecord& record, const Tokenising& how);
RecordTokens from_source_and_target(const IdsRecord& record, const Tokenising& how, const std::string& place);

}  // namespace hone::data
