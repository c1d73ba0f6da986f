// Texts to embed: one with another that is to lie near it, and others that are not, or one alone with its label; and
// texts to rank, a query with what each is worth to it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source; a table of texts can have them all.
const std::vector<std::string>& embedding_fields();
const std::vector<std::string>& ranked_fields();

// query (or anchor, or sentence1) and positive (or sentence2), with negatives or score where they are there; documents
// with scores in place of positive; or text and label. By their names or as the columns say. Throws Error(data) that
// lists the row's fields and proposes columns.
Form embedding_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                    const Place& place);
// The same of what is ranked, which has no label.
Form ranked_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place);

// The same of texts that are only to be scored: what they are worth is not read.
Form unscored_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place);

// A score as a table's cell, or a template, has it: a number or a list; what is neither stays a text.
nlohmann::ordered_json score_of_text(const std::string& text);

// negative, negatives, negative_1, negative_2, …: a text, or a list of texts. score (or scores): a number, of two
// texts; of more a list with one for each of them, or by how much the first is above each other. Throws Error(data),
// also for a text that is empty, and for a number that is written as a text.
EmbeddingRecord read_embedding(const nlohmann::ordered_json& value, const Form& form, const Place& place);

}  // namespace hone::data
