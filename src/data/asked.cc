// Prompts that a model is to answer.
#include "data/asked.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/conversations.h"
#include "data/fail.h"
#include "data/prompt_fields.h"
#include "data/training_fields.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// Columns for well-known names; shown, never used unasked.
std::string columns_for_asked(const std::vector<std::string>& names) {
  const Columns found = {
      {"prompt", first_of(names, {"prompt", "question", "problem", "query", "input", "text"})},
      {"answer", first_of(names, {"answer", "solution", "ground_truth", "completion", "output", "target", "label"})}};
  return advise_columns(found, {{"prompt", "question"}, {"answer", "solution"}});
}


std::string answer_of(const json& value, const Form& form) {
  const json* found = form.answer.empty() ? nullptr : find_field(value, form.answer);
  if (!found) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

const std::vector<std::string>& asked_fields() {
  static const std::vector<std::string> names = {
      "prompt", "answer",    "messages", "conversations", "instruction",         "input",
      "system", "documents", "tools",    "history",       "chat_template_kwargs"};
  return names;
}

const std::vector<std::string>& asked_table_fields() {
  static const std::vector<std::string> names = {"prompt", "answer"};
  return names;
}

Form asked_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected prompt, messages or instruction, and answer where "
                            "answers are compared with one",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(columns_for_asked(names));
  };
  const auto maybe = field_finder(names, columns, missing);
  Form form;
  take_prompt(form, maybe, place);
  if (form.prompt.empty() && !form.is_conversation()) missing("prompt");
  const auto answer = columns.find("answer");
  form.answer = answer != columns.end() && !can_have(names, answer->second) ? "" : maybe("answer");
  return form;
}

bool is_chat_asked(const json& value, const Form& form) {
  return form.is_conversation() || !find_field(value, form.prompt)->is_string();
}

AskedRecord asked_text(std::string prompt, std::string answer, const Place& place) {
  if (prompt.empty()) fail(place, "the prompt is empty; expected some text");
  return {.prompt = std::move(prompt), .chat = {}, .answer = std::string(trim(answer))};
}

AskedRecord read_asked(const json& value, const Form& form, const Place& place) {
  if (!is_chat_asked(value, form))
    return asked_text(text_field(value, form.prompt, place), answer_of(value, form), place);
  json messages = prompt_messages(value, form, place);
  take_choices(messages, place.text());
  if (messages.empty()) fail(place, "the prompt has no messages; expected at least one");
  if (messages.back().value("role", "") == "assistant")
    throw Error(ErrorKind::data, place.text() + ": the last message is the assistant's; expected what it is to answer")
        .hint("leave it out; what answers are compared with is the field answer");
  AskedRecord record{.prompt = "", .chat = Conversation(), .answer = std::string(trim(answer_of(value, form)))};
  record.chat->messages = template_json(messages, place);
  read_extras(value, form, place, *record.chat);
  return record;
}

}  // namespace hone::data
