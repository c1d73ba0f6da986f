// Answers that are judged one by one.
#include "data/judged.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/conversations.h"
#include "data/fail.h"
#include "data/preference.h"
#include "data/prompt_fields.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr std::initializer_list<const char*> kJudged = {"label", "kto_tag",  "desirable", "is_good",
                                                        "good",  "feedback", "thumbs_up", "rating"};

// Columns for well-known names; shown, never used unasked.
std::string proposed_columns(const std::vector<std::string>& names) {
  const Columns found = {{"prompt", first_of(names, {"prompt", "question", "query", "input", "context"})},
                         {"completion", first_of(names, {"completion", "answer", "response", "output", "generation"})},
                         {"label", first_of(names, kJudged)}};
  return advise_columns(found, {{"prompt", "question"}, {"completion", "answer"}, {"label", "liked"}});
}

Error bad_judgement(const std::string& got, const std::string& field, const Place& place) {
  return Error(ErrorKind::data, fmt::format("{}: field {}: got {}, expected true or false, or 1 or 0", place.text(),
                                            hone::quoted(field), got))
      .hint("true: an answer to give; false: one not to give; other words and degrees are not known");
}


}  // namespace

const std::vector<std::string>& judged_fields() {
  static const std::vector<std::string> names = {
      "prompt", "completion", "label",     "messages", "conversations", "instruction",          "input",   "output",
      "system", "tools",      "documents", "history",  "chosen",        "chat_template_kwargs", "rejected"};
  return names;
}

const std::vector<std::string>& judged_table_fields() {
  static const std::vector<std::string> names = {"prompt", "completion", "label", "chosen", "rejected"};
  return names;
}

Form judged_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place) {
  const auto source_of = [&](const char* known) -> std::string {
    const auto renamed = columns.find(known);
    return renamed == columns.end() ? known : renamed->second;
  };
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected label with prompt and completion, messages, or "
                            "instruction and output; or chosen and rejected",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(proposed_columns(names));
  };
  const auto maybe = [&](const char* known) -> std::string {
    const std::string name = source_of(known);
    if (can_have(names, name)) return columns.contains(known) || has(names, known) ? name : "";
    if (columns.contains(known)) missing(name);
    return "";
  };
  Form form;
  form.label = maybe("label");
  const auto has_side = [&](const char* known) { return can_have(names, source_of(known)); };
  if (form.label.empty() && (has_side("chosen") || has_side("chosen_messages")))
    return preference_form(names, columns, place);
  if (form.label.empty() && first_of(names, kJudged).empty())
    throw Error(ErrorKind::data, fmt::format("{}: no field {}; found {}", place.text(),
                                             hone::quoted(source_of("label")), list_names(names)))
        .hint("label is true for an answer to give, false for one not to give; " + columns_words({{"label", "liked"}}) +
              " reads another field as it");
  if (form.label.empty()) missing(source_of("label"));
  if (has_side("chosen") && has_side("rejected"))
    throw Error(ErrorKind::data, fmt::format("{}: chosen and rejected, and {}: a pair, or one answer", place.text(),
                                             hone::quoted(form.label)))
        .hint(ignore_words(form.label) + " reads the pair");
  take_prompt(form, maybe, place);
  if (!form.prompt.empty()) form.completion = maybe("completion");
  if (!form.instruction.empty()) form.output = maybe("output");
  if (form.prompt.empty() && !form.is_conversation()) missing(source_of("prompt"));
  if (!form.prompt.empty() && form.completion.empty()) missing(source_of("completion"));
  if (!form.instruction.empty() && form.output.empty()) missing(source_of("output"));
  return form;
}

bool judgement_of(const json& value, const std::string& field, const Place& place) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return judgement_of(value.get_ref<const std::string&>(), field, place);
  if (value.is_number() && (value == 1 || value == 0)) return value == 1;
  throw bad_judgement(value.is_number() ? value.dump() : type_of(value), field, place);
}

bool judgement_of(const std::string& cell, const std::string& field, const Place& place) {
  std::string word(trim(cell));
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  throw bad_judgement(hone::quoted(cell), field, place);
}

JudgedRecord judged(PromptRecord answer, bool desirable, const Place& place) {
  if (trim(answer.completion).empty()) fail(place, "the answer is empty; expected one to judge");
  return {std::move(answer), desirable};
}

std::int64_t prompt_of_judged(const json& messages, std::int64_t prompt, const Place& place) {
  if (prompt < 0) prompt = std::ssize(messages) - 1;
  if (prompt < 1 || prompt >= std::ssize(messages))
    fail(place, "no message and its answer; expected at least one each");
  const json& first = messages[static_cast<std::size_t>(prompt)];
  if (const std::string role = first.value("role", ""); role != "assistant")
    fail(place, fmt::format("the answer that is judged begins with a message of the role {}, expected assistant",
                            hone::quoted(role)));
  if (std::all_of(messages.begin() + prompt, messages.end(), says_nothing))
    fail(place, "the answer is empty; expected one to judge");
  return prompt;
}

}  // namespace hone::data
