// The fields of a row that make a record.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::data {

// The fields of the file that are read; "" = not used. Exactly one of text, prompt + completion, input_ids, messages
// (or conversations), instruction + output is there; text_pair and label are with a text that has a label, label also
// with an answer that is judged; chosen and rejected with the prompt of the pair, if it has one: prompt, messages or
// instruction; of what is asked one of these, and the answer, with choices where it is one of them; the rest belongs to
// conversations.
struct Form {
  std::string text = {}, prompt = {}, completion = {}, input_ids = {}, labels = {};
  std::string text_pair = {}, label = {}, chosen = {}, rejected = {}, answer = {}, choices = {};
  std::string messages = {}, instruction = {}, input = {}, output = {}, history = {};
  std::string system = {}, tools = {}, documents = {}, variables = {}, images = {};
  std::string query = {}, positive = {}, negatives = {}, score = {};  // of texts to embed; documents: a list of them
  std::vector<std::string> more_negatives = {};                       // of negative_1, negative_2, …
  std::string question = {}, context = {}, answers = {}, id = {};  // of questions about a text
  std::string words = {}, tags = {}, entities = {}, steps = {};  // of labels for tokens; tags also of steps
  std::string logprobs = {}, logprob_ids = {};  // of a teacher
  std::vector<std::string> fields() const;  // all that are used
  bool is_conversation() const { return !messages.empty() || !instruction.empty(); }
};

bool has(const std::vector<std::string>& names, const std::string& name);
// Whether a row can have such a field: one of its own, or of an object in it ("a.b").
bool can_have(const std::vector<std::string>& names, const std::string& field);
// The field itself, or, for a name with dots that is none, the field of a nested object. null: missing, or JSON's null.
const nlohmann::ordered_json* find_field(const nlohmann::ordered_json& object, const std::string& name);
// Whether columns may give `known` a field that only some records have.
bool is_optional_column(std::string_view known);
// The first of `wanted` that the row has, or "".
std::string first_of(const std::vector<std::string>& names, std::initializer_list<const char*> wanted);
// What a message advises: "say which fields to read, for instance columns: {text: story}", as those of `found` that
// have another name than what they are read as; where there are none, "name the fields", as those of `standard`.
using Columns = std::vector<std::pair<std::string, std::string>>;  // what is read, and the field
std::string advise_columns(const Columns& found, const Columns& standard);

}  // namespace hone::data
