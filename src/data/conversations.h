// Conversations in the forms that data sets have: OpenAI's messages, ShareGPT's, Alpaca's, prompts and completions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "data/form.h"
#include "data/place.h"
#include "hone/text.h"

namespace hone::data {

// Messages as they are (role, content, tool_calls, ...), or ShareGPT's from and value, which become these: human and
// user; gpt and assistant; system; function_call, whose value is a call as JSON; observation, function_response and
// tool; a turn's other fields stay. A call's arguments that are JSON in a string become the object that templates
// expect, where nothing of them is lost by that. All of these throw Error(data) with the place; `why` goes on with
// "expected a list of messages".
nlohmann::ordered_json read_messages(const nlohmann::ordered_json& list, const std::string& field, const Place& place,
                                     const std::string& why = "");

// tools: a list, or JSON of one in a string, as it is: a bare function, too, as transformers passes it. null: none.
nlohmann::ordered_json read_tools(const nlohmann::ordered_json& value, const std::string& field, const Place& place);

// Alpaca: instruction and input are what the user says; earlier rounds are pairs in `history`.
struct AlpacaFields {
  std::string instruction, input;
};
nlohmann::ordered_json alpaca_prompt(const AlpacaFields& fields, const nlohmann::ordered_json* history,
                                     const Place& place);

// tools, documents and further variables of the template, where the form has them.
void read_extras(const nlohmann::ordered_json& value, const Form& form, const Place& place, Conversation& into);

nlohmann::ordered_json message(const char* role, const std::string& content);
bool says_nothing(const nlohmann::ordered_json& message);  // neither text nor calls

// What a template is given, as JSON. Throws Error(data) for an integer that does not fit 64 bits, which no template
// could write.
std::string template_json(const nlohmann::ordered_json& value, const Place& place);

}  // namespace hone::data
