// Texts to embed.
#include "data/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/labels.h"
#include "data/prompt_fields.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// Columns for well-known names; shown, never used unasked.
std::string columns_for_texts(const std::vector<std::string>& names) {
  const Columns found = {
      {"query", first_of(names, {"query", "anchor", "sentence1", "question", "premise", "text1", "text", "title"})},
      {"positive", first_of(names, {"positive", "sentence2", "document", "passage", "answer", "entailment", "pos",
                                    "text2", "context", "body"})},
      {"negative", first_of(names, {"negative", "negatives", "hard_negative", "contradiction", "neg"})}};
  return advise_columns(found, {{"query", "question"}, {"positive", "passage"}});
}

// The same where a list of texts has a list of scores.
std::string columns_for_lists(const std::vector<std::string>& names) {
  const Columns found = {
      {"query", first_of(names, {"query", "anchor", "question"})},
      {"documents", first_of(names, {"documents", "docs", "passages", "candidates", "texts"})},
      {"scores", first_of(names, {"scores", "score", "labels", "label", "relevance"})}};
  return advise_columns(found, {{"documents", "docs"}, {"scores", "labels"}});
}

// The one field of these that the row has, or "".
std::string one_of(const std::function<std::string(const char*)>& find, std::initializer_list<const char*> known,
                   const Place& place) {
  std::string first;
  for (const char* name : known) {
    const std::string found = find(name);
    if (found.empty()) continue;
    if (!first.empty())
      throw Error(ErrorKind::data, fmt::format("{}: both {} and {}; expected one of them", place.text(),
                                               hone::quoted(first), hone::quoted(found)))
          .hint(ignore_words(found) + " passes over it");
    first = found;
  }
  return first;
}

std::string some_text(std::string text, const std::string& field, const Place& place) {
  if (trim(text).empty())
    throw Error(ErrorKind::data, fmt::format("{}: field {}: got an empty text, expected one to embed", place.text(),
                                             hone::quoted(field)))
        .hint("leave the record out");
  return text;
}

// negative_1, negative_2, …, in the order of their numbers.
std::vector<std::string> numbered_negatives(const std::vector<std::string>& names) {
  constexpr std::string_view kBefore = "negative_";
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (name.starts_with(kBefore) && name.size() > kBefore.size() &&
        name.find_first_not_of("0123456789", kBefore.size()) == std::string::npos)
      found.push_back(name);
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return found;
}

double score_in(const json& value, const FieldPlace& given, const char* expected) {
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  if (!value.is_string()) throw given.bad(type_of(value), expected);
  const auto& text = value.get_ref<const std::string&>();
  const Error bad = given.bad(hone::quoted(text), expected);
  if (!parse_double(trim(text)) && !text.starts_with('[')) throw bad;
  throw Error(bad).hint("in quotes it is a text: write it without them");
}

// Nothing: it is no list.
std::optional<std::vector<double>> scores_in(const json& value, const FieldPlace& given) {
  if (!value.is_array()) return std::nullopt;
  std::vector<double> scores;
  for (const json& one : value) scores.push_back(score_in(one, given, "a list of numbers"));
  return scores;
}

// Scores of a record's texts: of each; or by how much the first is above each other one, of which it says the same; one
// number is that of two texts, or, of a query's one text, how alike they are.
void put_scores(const json& value, const FieldPlace& given, bool is_list, EmbeddingRecord& record) {
  const std::size_t others = record.others.size();
  const auto found = scores_in(value, given);
  const bool is_of_a_pair = !is_list && others == 0;
  if (is_of_a_pair && found && found->size() == 1) return void(record.score = found->front());
  if (is_of_a_pair && !found) return void(record.score = score_in(value, given, "a number"));
  const std::vector<double> scores = found ? *found : std::vector{score_in(value, given, "a number, or a list")};
  const bool margins = !is_list && others > 0 && scores.size() == others;
  if (!margins && scores.size() != others + 1)
    throw given.bad(found ? counted(std::ssize(scores), "number") : "one number",
                    is_list ? fmt::format("one for each of {}", counted(static_cast<std::int64_t>(others + 1), "text"))
                            : fmt::format("one for each of {}, or the margin over each negative",
                                          counted(static_cast<std::int64_t>(others + 1), "text")));
  if (!margins) return void(record.scores = scores);
  record.scores.push_back(0);
  for (const double margin : scores) record.scores.push_back(-margin);
}

// A query, and what is read beside it: one text with others, or a list of them.
Form texts_form(const std::vector<std::string>& names, const std::function<std::string(const char*)>& maybe,
                const std::function<void(const std::string&)>& missing, const Place& place) {
  Form form;
  form.query = one_of(maybe, {"query", "anchor", "sentence1"}, place);
  form.positive = one_of(maybe, {"positive", "sentence2"}, place);
  form.documents = maybe("documents");
  form.negatives = one_of(maybe, {"negative", "negatives"}, place);
  form.more_negatives = numbered_negatives(names);
  form.score = one_of(maybe, {"score", "scores"}, place);
  if (form.query.empty()) missing("query");
  if (form.positive.empty() && form.documents.empty()) missing("positive");
  if (form.documents.empty()) return form;
  for (const std::string& other : {form.positive, form.negatives})
    if (!other.empty())
      throw Error(ErrorKind::data, fmt::format("{}: both {} and {}; expected one of them", place.text(),
                                               hone::quoted(other), hone::quoted(form.documents)))
          .hint(ignore_words(form.documents) + " passes over it");
  form.more_negatives.clear();
  return form;
}

// The same, where a list has scores.
Form scored_form(const std::vector<std::string>& names, const std::function<std::string(const char*)>& maybe,
                 const std::function<void(const std::string&)>& missing, const Place& place) {
  Form form = texts_form(names, maybe, missing, place);
  if (!form.documents.empty() && form.score.empty()) missing("scores");
  return form;
}

// Of a list of texts: the first of them, and the others.
void put_documents(const json& value, const std::string& field, const Place& place, EmbeddingRecord& record) {
  const FieldPlace given{field, place};
  json list = value;
  if (value.is_string()) list = json::parse(value.get_ref<const std::string&>(), nullptr, /*allow_exceptions=*/false);
  if (!list.is_array() || list.empty()) throw given.bad(type_of(value), "a list of texts");
  for (const json& one : list) {
    if (!one.is_string()) throw given.bad(type_of(one) + " in the list", "a list of texts");
    record.others.push_back(some_text(one.get<std::string>(), field, place));
  }
  record.document = std::move(record.others.front());
  record.others.erase(record.others.begin());
}

}  // namespace

const std::vector<std::string>& embedding_fields() {
  static const std::vector<std::string> names = {"query",     "positive",  "negative", "negatives",
                                                 "anchor",    "sentence1", "sentence2", "score",
                                                 "scores",    "documents", "text",     "label"};
  return names;
}

const std::vector<std::string>& ranked_fields() {
  static const std::vector<std::string> names = {"query",     "positive",  "negative", "negatives", "anchor",
                                                 "sentence1", "sentence2", "score",    "scores",    "documents"};
  return names;
}

Form embedding_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                    const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected query and positive, with negative, negatives or score "
                            "where there are some, or text and label",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(name == "scores" ? columns_for_lists(names) : columns_for_texts(names));
  };
  const auto maybe = field_finder(names, columns, missing);
  Form alone{.text = maybe("text"), .label = maybe("label")};
  const bool has_more = !one_of(maybe, {"query", "anchor", "sentence1"}, place).empty() ||
                        !one_of(maybe, {"positive", "sentence2"}, place).empty() || !maybe("documents").empty();
  if (has_more || alone.text.empty() || alone.label.empty()) return scored_form(names, maybe, missing, place);
  if (const std::string score = one_of(maybe, {"score", "scores"}, place); !score.empty())
    throw Error(ErrorKind::data,
                fmt::format("{}: a text with {}, and {}; expected a text with a label, or two texts with a score",
                            place.text(), hone::quoted(alone.label), hone::quoted(score)))
        .hint(ignore_words(score) + " passes over it");
  return alone;
}

Form ranked_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected query, and documents with scores, or positive and "
                            "negative (or negatives)",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(columns_for_lists(names));
  };
  return scored_form(names, field_finder(names, columns, missing), missing, place);
}

Form unscored_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected query, and documents, or positive and negative (or "
                            "negatives)",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(columns_for_lists(names));
  };
  Form form = texts_form(names, field_finder(names, columns, missing), missing, place);
  form.score.clear();
  return form;
}

json score_of_text(const std::string& text) {
  if (const auto number = parse_double(trim(text)); number && std::isfinite(*number)) return *number;
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return list.is_array() ? list : json(text);
}

EmbeddingRecord read_embedding(const json& value, const Form& form, const Place& place) {
  const auto text = [&](const std::string& field) { return some_text(text_field(value, field, place), field, place); };
  if (!form.text.empty())
    return {.query = text(form.text),
            .document = {},
            .label = label_of(*find_field(value, form.label), ProblemType::single_label_classification, form.label,
                              place)};
  EmbeddingRecord record{.query = text(form.query), .document = form.positive.empty() ? "" : text(form.positive)};
  const auto add = [&](const std::string& field) {
    const json& others = *find_field(value, field);
    if (!others.is_array()) return record.others.push_back(text(field));
    for (const json& one : others) {
      if (!one.is_string())
        throw FieldPlace{field, place}.bad(type_of(one) + " in the list", "a text or a list of texts");
      record.others.push_back(some_text(one.get<std::string>(), field, place));
    }
  };
  if (!form.documents.empty()) put_documents(*find_field(value, form.documents), form.documents, place, record);
  if (!form.negatives.empty()) add(form.negatives);
  for (const std::string& field : form.more_negatives) add(field);
  if (!form.score.empty())
    put_scores(*find_field(value, form.score), {form.score, place}, !form.documents.empty(), record);
  return record;
}

}  // namespace hone::data
