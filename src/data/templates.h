// Columns that are templates: {prompt: "Question: {{question}}\nAnswer:"} makes what is read of several fields.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/place.h"
#include "text/jinja/template.h"

namespace hone::data {

class ColumnTemplates {
 public:
  // Of columns those that are Jinja. Throws Error(config) for one that does not parse, or reads nothing.
  explicit ColumnTemplates(const std::map<std::string, std::string>& columns);
  static bool is_template(const std::string& column);  // it has {{ or {%

  bool empty() const { return templates_.empty(); }
  // The field that holds what the template of `known` makes: no file has one of that name. "": it has none.
  std::string made_field(const std::string& known) const;
  std::vector<std::string> made_fields() const;
  const std::set<std::string>& variables() const { return variables_; }  // the fields that they read by name
  bool reads(const std::string& field) const { return reads_row_ || variables_.contains(field); }

  // Adds these fields to the row: texts, but lists and objects for what is read as such, and messages where a text may
  // be messages; there a template ends with `| tojson`. What comes out as nothing is left out. A field that the row
  // lacks, or that is null, may be asked for ({% if input %}) and not written. Throws Error(data).
  // `row` is all of it, for names that are none in Jinja: {{ row["a-b"] }}, {{ row["2"] }} of a table without names.
  void fill(nlohmann::ordered_json& row, const Place& place) const;

 private:
  struct Made {
    std::string known;
    std::shared_ptr<const jinja::Template> how;
  };
  std::vector<Made> templates_;
  std::set<std::string> variables_;
  bool reads_row_ = false;  // or all of them
};

}  // namespace hone::data
