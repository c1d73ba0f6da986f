// Texts to embed.
#include "data/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/option_words.h"
#include "base/strings.h"
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

double score_in(const json& value, const FieldPlace& given) {
  const std::optional<double> number = value.is_number()   ? std::optional(value.get<double>())
                                       : value.is_string() ? parse_double(trim(value.get_ref<const std::string&>()))
                                                           : std::nullopt;
  if (!number || !std::isfinite(*number))
    throw given.bad(value.is_string() ? hone::quoted(value.get_ref<const std::string&>()) : type_of(value), "a number");
  return *number;
}

}  // namespace

const std::vector<std::string>& embedding_fields() {
  static const std::vector<std::string> names = {"query",  "positive",  "negative",  "negatives",
                                                 "anchor", "sentence1", "sentence2", "score"};
  return names;
}

Form embedding_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                    const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected query and positive, with negative, negatives or score "
                            "where there are some",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(columns_for_texts(names));
  };
  const auto maybe = field_finder(names, columns, missing);
  Form form;
  form.query = one_of(maybe, {"query", "anchor", "sentence1"}, place);
  form.positive = one_of(maybe, {"positive", "sentence2"}, place);
  form.negatives = one_of(maybe, {"negative", "negatives"}, place);
  form.more_negatives = numbered_negatives(names);
  form.score = maybe("score");
  if (form.query.empty()) missing("query");
  if (form.positive.empty()) missing("positive");
  const std::string other = form.negatives.empty() && !form.more_negatives.empty() ? form.more_negatives[0]
                                                                                   : form.negatives;
  if (!other.empty() && !form.score.empty())
    throw Error(ErrorKind::data, fmt::format("{}: both {} and {}: a score is of two texts", place.text(),
                                             hone::quoted(other), hone::quoted(form.score)))
        .hint(ignore_words(form.score) + " passes over it");
  return form;
}

EmbeddingRecord read_embedding(const json& value, const Form& form, const Place& place) {
  const auto text = [&](const std::string& field) { return some_text(text_field(value, field, place), field, place); };
  EmbeddingRecord record{.query = text(form.query), .document = text(form.positive)};
  if (!form.score.empty()) record.score = score_in(*find_field(value, form.score), {form.score, place});
  const auto add = [&](const std::string& field) {
    const json& others = *find_field(value, field);
    if (!others.is_array()) return record.others.push_back(text(field));
    for (const json& one : others) {
      if (!one.is_string())
        throw FieldPlace{field, place}.bad(type_of(one) + " in the list", "a text or a list of texts");
      record.others.push_back(some_text(one.get<std::string>(), field, place));
    }
  };
  if (!form.negatives.empty()) add(form.negatives);
  for (const std::string& field : form.more_negatives) add(field);
  return record;
}

}  // namespace hone::data
