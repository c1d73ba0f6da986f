// Prompts of rows.
#include "data/prompt_fields.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/conversations.h"
#include "hone/error.h"

namespace hone::data {

using json = nlohmann::ordered_json;

std::function<std::string(const char* known)> field_finder(const std::vector<std::string>& names,
                                                           const std::map<std::string, std::string>& columns,
                                                           std::function<void(const std::string& name)> missing) {
  return [&names, &columns, missing = std::move(missing)](const char* known) -> std::string {
    const auto renamed = columns.find(known);
    if (renamed == columns.end()) return has(names, known) ? known : "";
    if (!can_have(names, renamed->second)) missing(renamed->second);
    return renamed->second;
  };
}

void take_prompt(Form& form, const std::function<std::string(const char* known)>& find, const Place& place) {
  form.prompt = find("prompt");
  form.messages = find("messages");
  if (form.messages.empty()) form.messages = find("conversations");
  form.instruction = find("instruction");
  std::vector<std::string> prompts;
  for (const std::string& one : {form.prompt, form.messages, form.instruction})
    if (!one.empty()) prompts.push_back(one);
  if (prompts.size() > 1)
    throw Error(ErrorKind::data,
                fmt::format("{}: more than one field is a prompt: {}", place.text(), join(prompts, ", ")))
        .hint(ignore_words(prompts.back()) + " passes over it");
  form.system = find("system");
  form.tools = find("tools");
  form.documents = find("documents");
  form.variables = find("chat_template_kwargs");
  if (form.instruction.empty()) return;
  form.input = find("input");
  form.history = find("history");
}

std::string text_field(const json& value, const std::string& field, const Place& place) {
  const json& found = *find_field(value, field);
  if (!found.is_string())
    throw Error(ErrorKind::data, fmt::format("{}: field {}: got {}, expected a string", place.text(),
                                             hone::quoted(field), type_of(found)));
  return found.get<std::string>();
}

PromptRecord answered_prompt(std::string prompt, const json& value, const std::string& field, const Place& place) {
  const json& found = *find_field(value, field);
  if (!found.is_array() || found.empty() || !found[0].is_string())
    return {.prompt = std::move(prompt), .completion = text_field(value, field, place)};
  PromptRecord record{.prompt = std::move(prompt), .completion = found[0].get<std::string>()};
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (!found[i].is_string())
      throw Error(ErrorKind::data, fmt::format("{}: field {}: text {} of the list is {}, expected a string",
                                               place.text(), hone::quoted(field), i + 1, type_of(found[i])));
    record.others.push_back(found[i].get<std::string>());
  }
  return record;
}

std::vector<std::string> completions_in(const Record& record) {
  const auto* pair = record.as<PromptRecord>();
  if (!pair) return {};
  std::vector<std::string> all{pair->completion};
  all.insert(all.end(), pair->others.begin(), pair->others.end());
  return all;
}

json prompt_messages(const json& value, const Form& form, const Place& place) {
  json all = json::array();
  const auto append = [&](json more) {
    for (json& one : more) all.push_back(std::move(one));
  };
  if (!form.system.empty())
    if (const std::string system = text_field(value, form.system, place); !system.empty())
      all.push_back(message("system", system));
  if (!form.messages.empty()) append(read_messages(*find_field(value, form.messages), form.messages, place));
  if (!form.instruction.empty())
    append(alpaca_prompt(
        {text_field(value, form.instruction, place), form.input.empty() ? "" : text_field(value, form.input, place)},
        form.history.empty() ? nullptr : find_field(value, form.history), place));
  if (!form.prompt.empty() && !find_field(value, form.prompt)->is_string())
    append(read_messages(*find_field(value, form.prompt), form.prompt, place));
  return all;
}

}  // namespace hone::data
