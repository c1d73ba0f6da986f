// Columns that are templates: {prompt: "Question: {{question}}\nAnswer:"} makes what is read of several fields.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/place.h"
#include "text/jinja/template.h"

namespace hone::data {

// One thread at a time, as rows are read.
class ColumnTemplates {
 public:
  // Of columns those that are Jinja; path: of the file, for messages. Throws Error(config) for one that does not parse.
  ColumnTemplates(const std::map<std::string, std::string>& columns, const std::string& path);
  static bool is_template(const std::string& column);  // it has {{ or {%

  bool empty() const { return templates_.empty(); }
  // The field that holds what the template of `known` makes: no file has one of that name. "": it has none.
  std::string made_field(const std::string& known) const;
  std::vector<std::string> made_fields() const;
  bool mentions(const std::string& field) const;  // any of them, as a word

  // The row with these fields behind its own. A text, but lists and objects for what is read as such: there a template
  // ends with `| tojson`. What comes out as nothing is left out. A field that the row lacks may be asked for
  // ({% if input %}) and not written. Throws Error(data).
  nlohmann::ordered_json filled(const nlohmann::ordered_json& row, const Place& place) const;

 private:
  struct Made {
    std::string known;
    std::shared_ptr<const jinja::Template> how;
  };
  std::vector<Made> templates_;
};

}  // namespace hone::data
