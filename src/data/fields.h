// Which fields of a file's rows make a Record: the names are known ones, or what the recipe's columns say.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "data/templates.h"
#include "hone/data.h"

namespace hone::data {

// One thread calls it: it remembers which fields it has told of and met.
class FieldMap {
 public:
  explicit FieldMap(const SourceFile& file);  // throws Error(config): columns renames something that is not read

  // Decides by the names a row has. Names are never guessed: an unknown set is an Error(data) that lists them and
  // proposes columns. Names in columns win over fields that happen to have a known name.
  Form form_of(const std::vector<std::string>& names, const Place& place) const;

  // Reads a JSON value: an object by its fields, a string as text. Null fields count as missing. Fields that other
  // kinds of training use are an Error(data); those that nobody reads are put into record.unread, once.
  void read(nlohmann::ordered_json value, const Place& place, Record& record);
  // The same for the columns of a table that are known before its rows; `form` is what is read of them. Those that
  // templates read are not among them.
  std::vector<std::string> unread(const std::vector<std::string>& names, const Form& form, const Place& place);
  // Throws Error(config) when columns name what this kind of record does not have. read() does so itself.
  void check_extras(bool conversation, bool alpaca, const Place& place) const;
  // Of columns: those whose values decide whether they may be passed over.
  static bool is_judged_by_value(const std::string& name);

  RecordKind records() const { return records_; }
  const ColumnTemplates& templates() const { return templates_; }
  ProblemType problem_type() const { return problem_type_; }
  bool reads_pictures() const { return pictures_; }
  // The field to read `known` ("text", ...) from; of a template the one that it makes.
  const std::string& source_of(const std::string& known) const;
  const std::map<std::string, std::string>& columns() const { return columns_; }

 private:
  Form own_form(const std::vector<std::string>& names, const Place& place) const;
  Form language_form(const std::vector<std::string>& names, const Place& place) const;
  Form renamed_form(const std::vector<std::string>& names, const Place& place) const;
  ChatRecord read_conversation(const nlohmann::ordered_json& value, const Form& form, const Place& place,
                               std::vector<PictureFile>* pictures = nullptr) const;
  std::vector<PictureFile> own_pictures(const nlohmann::ordered_json& value, const Form& form,
                                        const Place& place) const;
  JudgedRecord read_judged(const nlohmann::ordered_json& value, const Form& form, const Place& place) const;
  bool is_conversation(const nlohmann::ordered_json& value, const Form& form) const;
  // The field that would be read if it were not null; "" = there is none. names: of the others.
  std::string null_field(const nlohmann::ordered_json& value, const std::vector<std::string>& names) const;
  void number_scores(nlohmann::ordered_json& value) const;
  void check_unread(const nlohmann::ordered_json& value, const Form& form, const Place& place, Record& record);
  void note_renamed(const std::vector<std::string>& names, const Form& form, Record& record);
  // Whether the field is passed over without a word, as the recipe says; throws for one that may not be.
  void refuse_foreign(const std::string& name, const Form& form, const Place& place) const;
  std::map<std::string, std::string> columns_;
  std::vector<std::string> ignore_;
  ColumnTemplates templates_;
  RecordKind records_;
  ProblemType problem_type_;
  bool pictures_, teacher_;
  std::filesystem::path picture_folder_;
  std::set<std::string> told_;
  std::set<std::string> unmet_;  // fields that columns name, that records may lack and that none has had so far
};

// The names that columns can give another source, in the order of error messages.
const std::vector<std::string>& known_fields(RecordKind records);
const char* needed_fields(RecordKind records);  // for a message; REQUIRES: not language
// Those that a table of texts can have.
const std::vector<std::string>& table_fields(RecordKind records);

}  // namespace hone::data
