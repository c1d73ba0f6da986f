// Preference pairs.
#include "data/preference.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/conversations.h"
#include "data/fail.h"
#include "data/prompt_fields.h"
#include "data/shared_prompt.h"
#include "data/training_fields.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// Columns for well-known names; shown, never used unasked.
std::string proposed_pair_columns(const std::vector<std::string>& names) {
  const Columns found = {
      {"prompt", first_of(names, {"prompt", "question", "instruction", "query", "input", "context"})},
      {"chosen", first_of(names, {"chosen", "preferred", "better", "answer_w", "response_j", "accepted"})},
      {"rejected", first_of(names, {"rejected", "dispreferred", "worse", "answer_l", "response_k", "refused"})}};
  return advise_columns(found, {{"prompt", "question"}, {"chosen", "better"}});
}

// Which field is read as `known`; "": the row has none of it.
class Names {
 public:
  Names(std::vector<std::string> names, const std::map<std::string, std::string>& columns, const Place& place)
      : names_(std::move(names)), columns_(columns), place_(place) {}

  std::string maybe(const char* known) const {
    const auto renamed = columns_.find(known);
    if (renamed == columns_.end()) return has(names_, known) ? known : "";
    if (!can_have(names_, renamed->second)) fail(renamed->second);
    return renamed->second;
  }
  std::string side(const char* known, const char* as_messages) const {
    std::string found = maybe(known);
    if (found.empty()) found = maybe(as_messages);
    if (found.empty()) fail(known);
    return found;
  }
  [[noreturn]] void fail(const std::string& name) const {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected chosen and rejected, and a prompt "
                            "unless both begin with it",
                            place_.text(), hone::quoted(name), names_.empty() ? "none" : list_names(names_)))
        .hint(proposed_pair_columns(names_));
  }

 private:
  std::vector<std::string> names_;
  const std::map<std::string, std::string>& columns_;
  const Place& place_;
};


[[noreturn]] void fail_equal(const Place& place) {
  throw Error(ErrorKind::data, place.text() + ": chosen and rejected are equal: there is nothing to prefer")
      .hint("leave the record out");
}

[[noreturn]] void fail_empty(const Place& place, const char* side) {
  throw Error(ErrorKind::data, fmt::format("{}: {} is empty; expected an answer", place.text(), side))
      .hint("leave the record out");
}

}  // namespace

const std::vector<std::string>& preference_fields() {
  static const std::vector<std::string> names = {"prompt",        "chosen",      "rejected", "messages",
                                                 "conversations", "instruction", "input",    "system",
                                                 "documents",     "tools",       "history",  "chat_template_kwargs"};
  return names;
}

const std::vector<std::string>& preference_table_fields() {
  static const std::vector<std::string> names = {"prompt", "chosen", "rejected"};
  return names;
}

Form preference_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                     const Place& place) {
  const Names find(names, columns, place);
  Form form;
  form.chosen = find.side("chosen", "chosen_messages");
  form.rejected = find.side("rejected", "rejected_messages");
  take_prompt(form, [&](const char* known) { return find.maybe(known); }, place);
  return form;
}

bool is_chat_pair(const json& value, const Form& form) {
  const auto is_text = [&](const std::string& field) { return field.empty() || find_field(value, field)->is_string(); };
  return form.is_conversation() || !is_text(form.prompt) || !is_text(form.chosen) || !is_text(form.rejected);
}

PreferenceRecord text_pair(std::optional<std::string> prompt, std::string chosen, std::string rejected,
                           const Place& place) {
  if (trim(chosen).empty()) fail_empty(place, "chosen");
  if (trim(rejected).empty()) fail_empty(place, "rejected");
  if (chosen == rejected) fail_equal(place);
  if (prompt) return {std::move(*prompt), std::move(chosen), std::move(rejected)};
  const std::size_t shared = shared_prompt(chosen, rejected, place);
  PreferenceRecord pair{chosen.substr(0, shared), chosen.substr(shared), rejected.substr(shared)};
  if (trim(pair.chosen).empty()) fail_empty(place, "chosen, behind the prompt that both sides begin with,");
  if (trim(pair.rejected).empty()) fail_empty(place, "rejected, behind the prompt that both sides begin with,");
  return pair;
}

PreferenceRecord read_text_pair(const json& value, const Form& form, const Place& place) {
  const auto text = [&](const std::string& field) { return find_field(value, field)->get<std::string>(); };
  return text_pair(form.prompt.empty() ? std::nullopt : std::optional(text(form.prompt)), text(form.chosen),
                   text(form.rejected), place);
}

namespace {

// Messages, and what they say of themselves (take_choices).
struct Said {
  json messages = json::array();
  std::vector<int> choices = {};

  std::size_t size() const { return messages.size(); }
  int choice(std::size_t i) const { return choices.empty() ? -1 : choices[i]; }
  bool begins_with(const Said& other) const {
    return size() >= other.size() && std::equal(other.messages.begin(), other.messages.end(), messages.begin());
  }
  void append(const Said& other, std::size_t from) {
    for (std::size_t i = from; i < other.size(); ++i) {
      messages.push_back(other.messages[i]);
      choices.push_back(other.choice(i));
    }
  }
};

Said said(json messages, const std::string& where) {
  Said made;
  made.choices = take_choices(messages, where);
  if (made.choices.empty()) made.choices.assign(messages.size(), -1);
  made.messages = std::move(messages);
  return made;
}

// A list of messages, one, or the text of an assistant's.
Said read_side(const json& value, const std::string& field, const Place& place) {
  if (!value.is_string() && !value.is_structured())
    fail(place, fmt::format("field {}: got {}, expected a text, a message or a list of messages", hone::quoted(field),
                            type_of(value)));
  if (value.is_string()) return said(json::array({message("assistant", value.get<std::string>())}), place.text());
  return said(read_messages(value.is_object() ? json::array({value}) : value, field, place),
              place.text() + ": " + field);
}

std::size_t shared_messages(const Said& a, const Said& b) {
  std::size_t shared = 0;
  while (shared < a.size() && shared < b.size() && a.messages[shared] == b.messages[shared]) ++shared;
  return shared;
}

// A prompt given as a text beside conversations, as in UltraFeedback: what the user says last of what both begin with.
// Where they begin with the answer it is the user's message itself.
void check_text_prompt(const json& value, const Form& form, const Place& place, const Said& chosen, Said& prompt) {
  if (form.prompt.empty() || !find_field(value, form.prompt)->is_string()) return;
  const std::string text = find_field(value, form.prompt)->get<std::string>();
  const bool answers_only = chosen.messages[0].value("role", "") == "assistant" && prompt.size() <= 1;
  if (answers_only) return prompt.append(said(json::array({message("user", text)}), place.text()), 0);
  const bool there = std::any_of(chosen.messages.begin(), chosen.messages.end(), [&](const json& one) {
    const auto content = one.find("content");
    return content != one.end() && content->is_string() && trim(content->get_ref<const std::string&>()) == trim(text);
  });
  if (there) return;
  throw Error(ErrorKind::data, fmt::format("{}: field {} is a text that none of the messages of {} has", place.text(),
                                           hone::quoted(form.prompt), form.chosen))
      .hint(ignore_words(form.prompt) +
            " passes over it: the messages that both sides begin with are then the prompt");
}

// The prompt, and the messages of the side from `from` on.
ChatRecord conversation(const Said& prompt, const Said& side, std::size_t from, const char* name, const Place& place) {
  if (from >= side.size() ||
      std::all_of(side.messages.begin() + static_cast<std::ptrdiff_t>(from), side.messages.end(), says_nothing))
    fail_empty(place, name);
  if (const std::string role = side.messages[from].value("role", ""); role != "assistant")
    fail(place, fmt::format("{}: the first message that is not the prompt's is of the role {}, expected assistant",
                            name, hone::quoted(role)));
  Said all = prompt;
  all.append(side, from);
  ChatRecord record;
  record.chat.prompt = static_cast<std::int64_t>(prompt.size());
  record.chat.messages = template_json(all.messages, place);
  const bool any = std::any_of(all.choices.begin(), all.choices.end(), [](int one) { return one >= 0; });
  if (any) record.chosen = std::move(all.choices);
  return record;
}

}  // namespace

ChatPreferenceRecord read_chat_pair(const json& value, const Form& form, const Place& place) {
  const Said chosen = read_side(*find_field(value, form.chosen), form.chosen, place),
             rejected = read_side(*find_field(value, form.rejected), form.rejected, place);
  // Empty: it is what both sides begin with.
  Said prompt = said(prompt_messages(value, form, place), place.text());
  check_text_prompt(value, form, place, chosen, prompt);
  if (chosen.messages == rejected.messages) fail_equal(place);
  std::size_t from = 0;
  const bool whole = prompt.size() > 0 && chosen.begins_with(prompt) && rejected.begins_with(prompt);
  if (whole) {
    from = prompt.size();  // both sides say it once more
  } else if (chosen.messages[0].value("role", "") != "assistant") {
    if (prompt.size() > (form.system.empty() ? 0 : 1))
      fail(place,
           fmt::format("{} begins with neither the assistant's answer nor the prompt that is given", form.chosen));
    from = shared_messages(chosen, rejected);
    Said first;
    first.append(chosen, 0),
        first.messages.erase(first.messages.begin() + static_cast<std::ptrdiff_t>(from), first.messages.end());
    first.choices.resize(from);
    prompt.append(first, 0);
  }
  if (prompt.size() == 0) fail(place, "no prompt: chosen and rejected have no message in common");
  ChatPreferenceRecord pair{conversation(prompt, chosen, from, "chosen", place),
                            conversation(prompt, rejected, from, "rejected", place)};
  for (ChatRecord* side : {&pair.chosen, &pair.rejected}) read_extras(value, form, place, side->chat);
  return pair;
}

}  // namespace hone::data
