// Questions about a text whose answer is a part of it: which fields of a row they are, and what documents they become.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "data/token_store.h"
#include "hone/questions.h"
#include "hone/source.h"

namespace hone::data {

// What targets of questions count in: AnswerPlace's, by name.
const std::vector<std::string>& answer_places();

const std::vector<std::string>& question_fields();
Form question_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place);
// answers: as in files of SQuAD, {"text": [...], "answer_start": [...]}, or a list of objects with one each; none where
// the text does not say. Throws Error(data): an answer that does not stand where it says.
QuestionRecord read_question(const nlohmann::ordered_json& value, const Form& form, const Place& place);

struct QuestionWindow : Tokens {  // labels count answer_places()
  DocTags tags = {};
  QuestionDoc doc = {};  // without what was asked
};

// Question and text as the tokenizer puts two texts together, the text cut into windows of which two share `stride`
// tokens, so that none has more than `most` in all. Each learns the first answer where it holds it whole, and otherwise
// that it has none. As transformers' run_qa makes them, but that an answer which ends with a window ends there.
std::vector<QuestionWindow> question_windows(const QuestionRecord& record, const Tokenizer& tokenizer, std::size_t most,
                                             std::size_t stride, const std::string& place);

}  // namespace hone::data
