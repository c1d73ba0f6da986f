// Which fields of a file's rows make a Record: the names are known ones, or what the recipe's columns say.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// A row's place, made into text only when something is wrong with it.
struct Place {
  const std::string& path;
  std::int64_t line = 0;
  std::string text() const;  // "path:line"
};

// "a number", "a list (its first element is an object)", ... for messages.
std::string type_of(const nlohmann::ordered_json& value);

// The fields of the file that are read; "" = not used. Exactly one of text, prompt + completion, input_ids, messages
// (or conversations), instruction + output is there; the rest belongs to conversations.
struct Form {
  std::string text = {}, prompt = {}, completion = {}, input_ids = {}, labels = {};
  std::string messages = {}, instruction = {}, input = {}, output = {}, history = {};
  std::string system = {}, tools = {}, documents = {}, variables = {};
  std::vector<std::string> fields() const;  // all that are used
  bool is_conversation() const { return !messages.empty() || !instruction.empty(); }
};

// Immutable: any thread may call any member.
class FieldMap {
 public:
  explicit FieldMap(const SourceFile& file);  // throws Error(config): columns renames something that is not read

  // Decides by the names a row has. Names are never guessed: an unknown set is an Error(data) that lists them and
  // proposes columns. Names in columns win over fields that happen to have a known name.
  Form form_of(const std::vector<std::string>& names, const Place& place) const;

  // Reads a JSON value: an object by its fields, a string as text. Null fields count as missing.
  void read(const nlohmann::ordered_json& value, const Place& place, Record& record) const;

  // The field to read `known` ("text", ...) from.
  const std::string& source_of(const std::string& known) const;
  const std::map<std::string, std::string>& columns() const { return columns_; }

 private:
  Form own_form(const std::vector<std::string>& names, const Place& place) const;
  Form renamed_form(const std::vector<std::string>& names, const Place& place) const;
  void read_conversation(const nlohmann::ordered_json& value, const Form& form, const Place& place,
                         Record& record) const;
  // Throws Error(config) when columns name what this kind of record does not have.
  void check_extras(bool conversation, bool alpaca, const Place& place) const;
  // The field that would be read if it were not null; "" = there is none. names: of the others.
  std::string null_field(const nlohmann::ordered_json& value, const std::vector<std::string>& names) const;
  std::map<std::string, std::string> columns_;
};

// The names that columns can give another source, in the order of error messages.
const std::vector<std::string>& known_fields();
// Those that a table of texts can have.
const std::vector<std::string>& table_fields();

}  // namespace hone::data
