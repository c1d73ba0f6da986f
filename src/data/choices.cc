// Prompts with answers to choose from.
#include "data/choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/asked.h"
#include "data/prompt_fields.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// Columns for well-known names; shown, never used unasked.
std::string columns_for_choices(const std::vector<std::string>& names) {
  const Columns found = {
      {"prompt", first_of(names, {"prompt", "question", "ctx", "context", "question_stem", "goal", "query", "input"})},
      {"choices", first_of(names, {"choices", "endings", "options", "candidates", "answers"})},
      {"answer", first_of(names, {"answer", "answerKey", "label", "gold", "target", "correct", "answer_index"})}};
  return advise_columns(found, {{"prompt", "ctx"}, {"choices", "endings"}, {"answer", "label"}});
}

// Texts, and what the answer calls them where the row says so.
struct Choices {
  std::vector<std::string> texts, labels;
};

std::vector<std::string> texts_in(const json& list, const char* what, const FieldPlace& given) {
  if (!list.is_array()) throw given.bad(type_of(list), std::string("a list of ") + what);
  std::vector<std::string> texts;
  for (const json& one : list) {
    if (!one.is_string() && !one.is_number())
      throw given.bad(type_of(one) + " in the list", std::string("a list of ") + what);
    texts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    if (trim(texts.back()).empty()) throw given.bad("an empty text in the list", std::string("a list of ") + what);
  }
  return texts;
}

Choices choices_in(const json& value, const FieldPlace& given) {
  Choices choices;
  if (value.is_object() && value.contains("text")) {
    choices.texts = texts_in(value.at("text"), "texts", given);
    if (value.contains("label")) choices.labels = texts_in(value.at("label"), "labels", given);
    if (!choices.labels.empty() && choices.labels.size() != choices.texts.size())
      throw given.bad(fmt::format("{} and {}", counted(std::ssize(choices.texts), "text"),
                                  counted(std::ssize(choices.labels), "label")),
                      "as many labels as texts");
  } else {
    choices.texts = texts_in(value, "texts", given);
  }
  if (choices.texts.size() < 2) throw given.bad(counted(std::ssize(choices.texts), "choice"), "at least two");
  return choices;
}

std::optional<std::int64_t> place_in(const std::vector<std::string>& all, const std::string& one) {
  const auto found = std::find(all.begin(), all.end(), one);
  return found == all.end() ? std::nullopt : std::optional<std::int64_t>(found - all.begin());
}

std::int64_t answer_in(const json& value, const Choices& choices, const FieldPlace& given) {
  const std::int64_t count = std::ssize(choices.texts);
  const std::string expected = !choices.labels.empty()
                                   ? "one of the labels " + list_names(choices.labels)
                                   : fmt::format("0 to {}, a letter from A on, or one of the choices", count - 1);
  if (!value.is_string() && !value.is_number_integer()) throw given.bad(type_of(value), expected);
  const std::string text = value.is_string() ? std::string(trim(value.get_ref<const std::string&>())) : value.dump();
  std::optional<std::int64_t> answer = place_in(choices.labels, text);
  if (!answer && value.is_string()) answer = place_in(choices.texts, value.get_ref<const std::string&>());
  std::optional<std::int64_t> counted_from_0 = choices.labels.empty() ? parse_int(text) : std::nullopt;
  if (choices.labels.empty() && text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z') counted_from_0 = text[0] - 'A';
  const bool is_place = counted_from_0 && *counted_from_0 >= 0 && *counted_from_0 < count;
  if (answer && is_place && answer != counted_from_0)
    throw given.bad(hone::quoted(text), "one meaning: it is a choice, and says the place of another")
        .hint("a number is a place: {\"answer\": 0}; {\"text\": [...], \"label\": [...]} gives choices labels");
  if (!answer && is_place) answer = counted_from_0;
  if (answer) return *answer;
  throw given.bad(value.is_string() ? hone::quoted(value.get_ref<const std::string&>()) : value.dump(), expected);
}

}  // namespace

const std::vector<std::string>& choice_fields() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = asked_fields();
    all.insert(all.begin() + 1, "choices");
    return all;
  }();
  return names;
}

const std::vector<std::string>& choice_table_fields() {
  static const std::vector<std::string> names = {"prompt", "choices", "answer"};
  return names;
}

Form choice_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected choices and answer, with prompt, messages or "
                            "instruction",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(columns_for_choices(names));
  };
  const auto maybe = field_finder(names, columns, missing);
  Form form;
  take_prompt(form, maybe, place);
  form.choices = maybe("choices"), form.answer = maybe("answer");
  if (form.prompt.empty() && !form.is_conversation()) missing("prompt");
  if (form.choices.empty()) missing("choices");
  if (form.answer.empty()) missing("answer");
  return form;
}

ChoiceRecord read_choice(const json& value, const Form& form, const Place& place) {
  Form of_prompt = form;
  of_prompt.answer.clear();
  AskedRecord asked = read_asked(value, of_prompt, place);
  const Choices choices = choices_in(*find_field(value, form.choices), {form.choices, place});
  const std::int64_t answer = answer_in(*find_field(value, form.answer), choices, {form.answer, place});
  return {std::move(asked.prompt), std::move(asked.chat), choices.texts, answer};
}

}  // namespace hone::data
