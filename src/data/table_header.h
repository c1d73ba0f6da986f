// Whether a table's first line names its columns, and what they are called where it does not.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hone::data {

// Whether a cell could be a column's name: a short word, or a few, that is no number.
bool names_something(const std::string& cell);

// "2" is the second of so many columns, with names or without.
std::optional<std::size_t> column_number(const std::string& source, std::size_t columns);

// A line that names a field we read is a header, or one that a template names; so is one of distinct short words,
// unless columns go by their numbers. read: the fields that are read, as the file calls them. templates: of `columns`.
class ColumnTemplates;
bool looks_like_header(const std::vector<std::string>& first, const std::vector<std::string>& read,
                       const std::map<std::string, std::string>& columns, const ColumnTemplates& templates);

// "1", "2", … for a table whose first line is a record. guessed: nobody has said so, and it is said to the user;
// `if_not` is what helps where the line does name the columns.
std::vector<std::string> numbered_columns(const std::string& path, const std::vector<std::string>& first, bool guessed,
                                          const char* if_not = "header: true if it names the columns");

}  // namespace hone::data
