// Texts without a label yet, from the fields of objects.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "data/place.h"
#include "data/templates.h"
#include "hone/data.h"

namespace hone::cli {

inline constexpr const char *kTextField = "text", *kPairField = "text_pair";

class TextsToClassify {
 public:
  // columns: of a data file, for `text` and `text_pair`. Throws Error(config) for another name, or a template that does
  // not parse.
  explicit TextsToClassify(const std::map<std::string, std::string>& columns);
  // A string, or an object; its label is empty. Throws Error(data).
  LabelledRecord read(nlohmann::ordered_json value, const data::Place& place);
  const std::set<std::string>& unread() const { return unread_; }  // fields of all objects so far

 private:
  std::string source_of(const std::string& known) const;
  const std::map<std::string, std::string> columns_;
  const data::ColumnTemplates templates_;
  std::set<std::string> unread_;
};

}  // namespace hone::cli
