// Texts to embed or to rank as tokens of a record.
#include "data/embedded_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "text/tokenizer/token_types.h"

namespace hone::data {
namespace {

// One text of several that are embedded, as the tokenizer reads a text. What it goes on with is its second text.
RecordTokens from_embedded(const std::string& text, Role role, const std::string& label, const Tokenising& how) {
  const std::size_t most =
      how.token_vectors ? how.token_vectors->most(role, how.labelled->most) : how.labelled->most;
  FittedEncoding made = how.tokenizer.encode_fitting({.first = text, .second = {}}, most, how.labelled->keep_end);
  RecordTokens tokens;
  tokens.role = role;
  tokens.label = {label, static_cast<std::uint32_t>(made.ids.size()), static_cast<std::uint32_t>(made.cut)};
  if (how.token_vectors && !made.ids.empty()) how.token_vectors->expand(role, made.ids);
  tokens.labels.assign(made.ids.size(), -100);
  tokens.ids = std::move(made.ids);
  return tokens;
}

std::string number_text(double number) { return fmt::format("{}", number); }

// A plug-in's source, or a program, may have written what no file says.
void check_scores(const EmbeddingRecord& record, const std::string& place) {
  const std::size_t texts = 1 + record.others.size();
  if (!record.scores.empty() && record.scores.size() != texts)
    throw Error(ErrorKind::data, fmt::format("{}: {} for {} of a query; expected one each", place,
                                             counted(std::ssize(record.scores), "score"),
                                             counted(static_cast<std::int64_t>(texts), "text")));
}

// Of the document (0) and the others.
std::string score_of(const EmbeddingRecord& record, std::size_t i) {
  if (!record.scores.empty()) return number_text(record.scores[i]);
  return record.score ? number_text(*record.score) : "";
}

RecordTokens from_one(const EmbeddingRecord& record, const Tokenising& how) {
  return from_embedded(how.query_prompt + record.query, Role::query, kClassMark + record.label, how);
}

RecordTokens from_query(const EmbeddingRecord& record, const Tokenising& how) {
  const std::string alike = record.scores.empty() ? score_of(record, 0) : "";  // of the two texts
  RecordTokens all = from_embedded(how.query_prompt + record.query, Role::query, alike, how);
  const auto add = [&](const std::string& text, Role role) {
    const std::string score = score_of(record, all.companions.size());
    all.companions.push_back(from_embedded(how.document_prompt + text, role, score, how));
  };
  add(record.document, Role::chosen);
  for (const std::string& other : record.others) add(other, Role::rejected);
  return all;
}

RecordTokens from_ranked(const EmbeddingRecord& record, const Tokenising& how, const std::string& place) {
  const auto one = [&](const std::string& text, std::size_t i) {
    TextPair texts{.first = record.query, .second = text};
    RecordTokens made = labelled_tokens(texts, score_of(record, i), how, place);
    made.role = i == 0 ? Role::chosen : Role::rejected;
    return made;
  };
  RecordTokens all = one(record.document, 0);
  for (std::size_t i = 0; i < record.others.size(); ++i) all.companions.push_back(one(record.others[i], i + 1));
  return all;
}

}  // namespace

RecordTokens labelled_tokens(const TextPair& texts, std::string label, const Tokenising& how,
                             const std::string& place) {
  FittedEncoding made = how.tokenizer.encode_fitting(texts, how.labelled->most, how.labelled->keep_end);
  const auto is_typed = [&](auto type) { return type != 0 && text::gives_token_types(how.tokenizer); };
  const auto second = std::find_if(made.type_ids.begin(), made.type_ids.end(), is_typed);
  if (std::any_of(second, made.type_ids.end(), [](auto type) { return type != 1; }))
    throw Error(ErrorKind::config, place + ": the tokenizer gives types other than 0, then 1; these are not supported");
  RecordTokens tokens;
  tokens.label = {std::move(label), static_cast<std::uint32_t>(second - made.type_ids.begin()),
                  static_cast<std::uint32_t>(made.cut)};
  tokens.labels.assign(made.ids.size(), -100);
  tokens.ids = std::move(made.ids);
  return tokens;
}

RecordTokens from_texts(const EmbeddingRecord& record, const Tokenising& how, const std::string& place) {
  check_scores(record, place);
  RecordTokens all = how.records == RecordKind::ranked ? from_ranked(record, how, place)
                     : record.label.empty()            ? from_query(record, how)
                                                       : from_one(record, how);
  const auto nothing = [](const RecordTokens& one) { return one.ids.empty(); };
  if (nothing(all) || std::any_of(all.companions.begin(), all.companions.end(), nothing))
    throw Error(ErrorKind::data, fmt::format("{}: a text has no tokens; expected some to {}", place,
                                             how.records == RecordKind::ranked ? "rank" : "embed"))
        .hint("leave the record out");
  return all;
}

std::int64_t documents_of(const EmbeddingRecord& record, RecordKind records) {
  if (!record.label.empty()) return 1;
  return (records == RecordKind::ranked ? 1 : 2) + std::ssize(record.others);
}

void require_rest(const std::string& prompt, const char* of, const Tokenising& how) {
  if (prompt.empty() || !how.labelled || how.labelled->keep_end) return;
  const Role role = &prompt == &how.query_prompt ? Role::query : Role::chosen;
  const std::size_t most =
      how.token_vectors ? how.token_vectors->most(role, how.labelled->most) : how.labelled->most;
  if (most == 0) return;
  const std::size_t tokens = how.tokenizer.encode_fitting({.first = prompt, .second = {}}, 0).ids.size();
  if (tokens < most) return;
  throw Error(ErrorKind::config,
              fmt::format("the prompt before {} has {} tokens and max_length is {}: nothing of a text is left; "
                          "expected a shorter prompt", of, tokens, most))
      .hint("raise " + option_words("data.max_length"));
}

const char* noun_of(RecordKind records) {
  return records == RecordKind::ranked ? "texts to rank" : "texts to embed";
}

}  // namespace hone::data
