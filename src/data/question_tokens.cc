// Windows of a question as documents.
#include "data/question_tokens.h"

#include <iterator>
#include <memory>
#include <utility>

#include "data/questions.h"

namespace hone::data {

RecordTokens with_windows(const QuestionRecord& record, const Tokenising& how, const std::string& place) {
  HONE_ASSERT(how.labelled);
  const auto stride = static_cast<std::size_t>(how.questions.doc_stride);
  std::shared_ptr<const QuestionRecord> asked;
  if (how.questions.keep_texts) asked = std::make_shared<QuestionRecord>(record);
  std::vector<RecordTokens> all;
  for (QuestionWindow& window : question_windows(record, how.tokenizer, how.labelled->most, stride, place)) {
    RecordTokens tokens{std::move(window)};
    tokens.tags = std::move(window.tags);
    if (asked) tokens.question = std::move(window.doc), tokens.question->asked = asked;
    all.push_back(std::move(tokens));
  }
  RecordTokens first = std::move(all[0]);
  first.companions.assign(std::make_move_iterator(all.begin() + 1), std::make_move_iterator(all.end()));
  return first;
}

void add_windows(TokenStore& store, const RecordTokens& first, std::int64_t line) {
  const auto keep = [&](const RecordTokens& one) {
    if (one.question) store.keep_question(*one.question);
  };
  store.add_tagged(first, *first.tags, line);
  store.begin_group(Role::none);
  keep(first);
  for (const RecordTokens& other : first.companions) {
    store.add_tagged_companion(other, *other.tags);
    keep(other);
  }
}

}  // namespace hone::data
