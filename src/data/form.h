// The fields of a row that make a record.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace hone::data {

// The fields of the file that are read; "" = not used. Exactly one of text, prompt + completion, input_ids, messages
// (or conversations), instruction + output is there; text_pair and label are with a text that has a label, chosen and
// rejected with a prompt that has no completion; the rest belongs to conversations.
struct Form {
  std::string text = {}, prompt = {}, completion = {}, input_ids = {}, labels = {};
  std::string text_pair = {}, label = {}, chosen = {}, rejected = {};
  std::string messages = {}, instruction = {}, input = {}, output = {}, history = {};
  std::string system = {}, tools = {}, documents = {}, variables = {};
  std::vector<std::string> fields() const;  // all that are used
  bool is_conversation() const { return !messages.empty() || !instruction.empty(); }
};

bool has(const std::vector<std::string>& names, const std::string& name);
// The first of `wanted` that the row has, or "".
std::string first_of(const std::vector<std::string>& names, std::initializer_list<const char*> wanted);
// What a message advises: "say which fields to read, for instance columns: {text: story}".
std::string advise_columns(const std::vector<std::string>& pairs);

}  // namespace hone::data
