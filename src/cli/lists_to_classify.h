// Queries with the texts that are to be scored beside them, from the fields of objects.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/place.h"
#include "data/templates.h"
#include "hone/data.h"

namespace hone::cli {

class ListsToClassify {
 public:
  // Whether columns of a data file are those of lists, and not of texts or answers alone.
  static bool are_columns(const std::map<std::string, std::string>& columns);
  // REQUIRES: none, or are_columns(). Throws Error(config) for another name, or a template that does not parse.
  explicit ListsToClassify(const std::map<std::string, std::string>& columns);
  // A query with other fields than a text's.
  bool is_list(const nlohmann::ordered_json& value) const;
  // Each of the texts behind the query, in the order of the fields query, positive (or documents) and negatives; what
  // they are worth is not read. Throws Error(data).
  std::vector<LabelledRecord> read(nlohmann::ordered_json value, const data::Place& place);
  const std::set<std::string>& unread() const { return unread_; }  // fields of all lists so far

 private:
  const std::map<std::string, std::string> columns_;
  const data::ColumnTemplates templates_;
  std::map<std::string, std::string> sources_;  // the columns, with the fields that templates make
  std::set<std::string> unread_;
};

}  // namespace hone::cli
