// Texts whose words have labels, and answers whose steps have: which fields of a row they are.
#include "data/tagged.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "data/labels.h"
#include "data/prompt_fields.h"
#include "hone/error.h"
#include "text/unicode/unicode.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;
using FieldNames = std::vector<std::string>;

Error no_field(const FieldNames& names, const std::string& wanted, const char* expected, const Place& place) {
  return Error(ErrorKind::data,
               fmt::format("{}: no field {}; found {}; expected {}", place.text(), hone::quoted(wanted),
                           names.empty() ? "none" : list_names(names), expected));
}

std::string taggings(const FieldNames& names) {
  const Columns found = {
      {"tokens", first_of(names, {"tokens", "words", "token", "word", "sentence_tokens"})},
      {"tags", first_of(names, {"tags", "ner_tags", "labels", "ner", "pos_tags", "pos", "upos", "tag", "label"})}};
  const Columns spans = {{"text", first_of(names, {"text", "sentence", "content", "document"})},
                         {"entities", first_of(names, {"entities", "spans", "annotations", "mentions"})}};
  const bool of_text = !spans[0].second.empty() && found[0].second.empty();
  return advise_columns(of_text ? spans : found, {{"tokens", "words"}, {"tags", "pos_tags"}});
}

std::vector<std::string> texts_of(const json& object, const std::string& field, const Place& place) {
  const FieldPlace given{field, place};
  const json& list = *find_field(object, field);
  if (!list.is_array()) throw given.bad(type_of(list), "a list of texts");
  std::vector<std::string> texts;
  for (const json& one : list) {
    if (!one.is_string()) throw given.bad(type_of(one) + " in the list", "a list of texts");
    texts.push_back(one.get<std::string>());
    if (!is_utf8(texts.back())) throw given.bad("invalid UTF-8", "a list of texts");
  }
  return texts;
}

// Names, whole numbers, or true and false; "": -100, which goes with all.
std::string kind_of_label(const json& one) {
  if (one.is_string()) return "names";
  if (one.is_boolean()) return "true and false";
  return one.is_number_integer() && one.get<std::int64_t>() != -100 ? "whole numbers" : "";
}

// As many as there are texts.
std::vector<std::string> labels_for(std::size_t count, const char* what, const json& object, const std::string& field,
                                    const Place& place) {
  const FieldPlace given{field, place};
  const json& list = *find_field(object, field);
  if (!list.is_array()) throw given.bad(type_of(list), std::string("a list with a label for each ") + what);
  if (list.size() != count)
    throw given.bad(counted(std::ssize(list), "label"), fmt::format("{}, one for each {}", count, what));
  std::vector<std::string> labels;
  std::string first;
  for (const json& one : list) {
    const std::string kind = kind_of_label(one);
    if (first.empty()) first = kind;
    if (!kind.empty() && kind != first)
      throw given.bad(fmt::format("mixed kinds of labels: {} and {}", first, kind), "labels of one kind");
    const bool none = one.is_number_integer() && one.get<std::int64_t>() == -100;
    labels.push_back(none ? "" : label_of(one, ProblemType::single_label_classification, field, place));
  }
  return labels;
}

// As an error shows it. A text in it may be no UTF-8.
std::string shown_entity(const json& entity) {
  return "an entity " + escape_for_terminal(entity.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

// A member of an entity, which must be there.
const json& member_of(const json& entity, const char* key, const FieldPlace& given) {
  const auto found = entity.find(key);
  if (found == entity.end())
    throw given.bad(fmt::format("{} without {}", shown_entity(entity), hone::quoted(key)), "{start, end, label}");
  return *found;
}

std::int64_t place_of(const json& entity, const char* key, const FieldPlace& given) {
  const json& found = member_of(entity, key, given);
  if (!found.is_number_integer() || found.get<std::int64_t>() < 0)
    throw given.bad(fmt::format("{} whose {} is {}", shown_entity(entity), hone::quoted(key),
                                found.is_number() ? found.dump() : type_of(found)),
                    "a whole number of characters");
  return found.get<std::int64_t>();
}

// Words get B- and I- before it, and O where there is no entity.
std::string type_in(const json& entity, const std::string& field, const Place& place) {
  const FieldPlace given{field, place};
  const std::string label = label_of(member_of(entity, "label", given), ProblemType::single_label_classification, field,
                                     place);
  if (label == "O" || label.starts_with("B-") || label.starts_with("I-"))
    throw given.bad(fmt::format("the label {}", hone::quoted(label)), "what an entity is, as in PER")
        .hint("words get B-PER, I-PER or O of it; B- and I- of words are for records with tokens and tags");
  return label;
}

// What an entity says its text is must stand there. Places outside of the text are refused later, as is invalid UTF-8.
void check_text_of(const json& entity, const TaggedRecord::Span& span, const std::string& text,
                   const FieldPlace& given) {
  const auto said = entity.find("text");
  if (said == entity.end() || !said->is_string() || !is_utf8(text)) return;
  std::string is;
  std::int64_t character = 0;
  for (std::size_t at = 0; at < text.size(); ++character) {
    const std::size_t begin = at;
    text::next_code_point(text, at);
    if (span.start <= character && character < span.end) is += text.substr(begin, at - begin);
  }
  if (span.end <= character && said->get_ref<const std::string&>() != is)
    throw given
        .bad(fmt::format("an entity at {} to {} whose text is {}", span.start, span.end,
                         hone::quoted(said->get<std::string>())),
             fmt::format("{}, which stands there", hone::quoted(is)))
        .hint("start and end count characters (code points) from 0, and end is not included");
}

std::vector<TaggedRecord::Span> spans_of(const json& object, const std::string& field, const std::string& text,
                                         const Place& place) {
  const FieldPlace given{field, place};
  const json& list = *find_field(object, field);
  if (!list.is_array()) throw given.bad(type_of(list), "a list of {start, end, label}");
  std::vector<TaggedRecord::Span> spans;
  for (const json& one : list) {
    if (!one.is_object()) throw given.bad(type_of(one) + " in the list", "a list of {start, end, label}");
    const std::string label = type_in(one, field, place);
    spans.push_back({place_of(one, "start", given), place_of(one, "end", given), label});
    if (spans.back().start >= spans.back().end)
      throw given.bad(fmt::format("start {} and end {}", spans.back().start, spans.back().end), "end behind start");
    check_text_of(one, spans.back(), text, given);
  }
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].start < spans[i - 1].end)
      throw given.bad(fmt::format("entities at {} to {} and at {} to {}", spans[i - 1].start, spans[i - 1].end,
                                  spans[i].start, spans[i].end),
                      "entities of which none lie one over the other");
  return spans;
}

}  // namespace

const std::vector<std::string>& tagged_fields() {
  static const std::vector<std::string> names = {"tokens", "tags", "text", "entities"};
  return names;
}

const std::vector<std::string>& steps_fields() {
  static const std::vector<std::string> names = {"prompt", "completions", "labels"};
  return names;
}

Form tagged_form(const FieldNames& names, const std::map<std::string, std::string>& columns, const Place& place) {
  constexpr const char* kExpected = "tokens and tags, or text and entities";
  const auto missing = [&](const std::string& name) {
    throw no_field(names, name, kExpected, place).hint(taggings(names));
  };
  const auto find = field_finder(names, columns, missing);
  Form form{.text = find("text")};
  form.words = find("tokens"), form.tags = find("tags"), form.entities = find("entities");
  if (form.tags.empty()) {
    const bool both = has(names, "ner_tags") && has(names, "labels");
    if (both)
      throw Error(ErrorKind::data, place.text() + ": ner_tags and labels; expected one of them")
          .hint(advise_columns({{"tags", "ner_tags"}}, {}));
    form.tags = first_of(names, {"ner_tags", "labels"});
  }
  const bool words = !form.words.empty() && !form.tags.empty(), spans = !form.text.empty() && !form.entities.empty();
  const bool say_text = columns.contains("text") || columns.contains("entities");
  const bool say_words = columns.contains("tokens") || columns.contains("tags");
  if (words && spans && say_text == say_words)
    throw Error(ErrorKind::data, fmt::format("{}: more than one form of record; found {}; expected {}", place.text(),
                                             list_names(names), kExpected))
        .hint("say which to read, for instance " + advise_columns({{"tokens", form.words}}, {{"tokens", "tokens"}}));
  if (spans && (!words || say_text)) return {.text = form.text, .entities = form.entities};
  if (words) return {.words = form.words, .tags = form.tags};
  missing(form.words.empty() ? (form.text.empty() ? "tokens" : "entities") : "tags");
  return {};
}

Form steps_form(const FieldNames& names, const std::map<std::string, std::string>& columns, const Place& place) {
  const auto missing = [&](const std::string& name) {
    const Columns found = {{"prompt", first_of(names, {"prompt", "question", "problem", "instruction"})},
                           {"completions", first_of(names, {"completions", "steps", "solution_steps", "responses"})},
                           {"labels", first_of(names, {"labels", "ratings", "step_labels", "label"})}};
    throw no_field(names, name, "prompt, completions and labels", place)
        .hint(advise_columns(found, {{"prompt", "question"}, {"completions", "steps"}}));
  };
  const auto find = field_finder(names, columns, missing);
  Form form{.prompt = find("prompt")};
  form.steps = find("completions"), form.tags = find("labels");
  for (const auto& [known, name] :
       {std::pair{"prompt", form.prompt}, {"completions", form.steps}, {"labels", form.tags}})
    if (name.empty()) missing(known);
  return form;
}

TaggedRecord read_tagged(const json& value, const Form& form, const Place& place) {
  TaggedRecord record;
  if (!form.words.empty()) {
    record.words = texts_of(value, form.words, place);
    record.tags = labels_for(record.words.size(), "word", value, form.tags, place);
    return record;
  }
  record.text = text_field(value, form.text, place);
  record.spans = spans_of(value, form.entities, record.text, place);
  return record;
}

StepsRecord read_steps(const json& value, const Form& form, const Place& place) {
  StepsRecord record{.prompt = text_field(value, form.prompt, place), .steps = texts_of(value, form.steps, place)};
  if (record.steps.empty()) throw FieldPlace{form.steps, place}.bad("an empty list", "at least one step");
  record.labels = labels_for(record.steps.size(), "step", value, form.tags, place);
  return record;
}

}  // namespace hone::data
