// By the words of the line, and by what is asked for.
#include "data/table_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "data/templates.h"

namespace hone::data {
namespace {

using Cells = std::vector<std::string>;

bool are_names(const Cells& cells) {
  return std::all_of(cells.begin(), cells.end(), names_something) &&
         std::set<std::string>(cells.begin(), cells.end()).size() == cells.size();
}

}  // namespace

bool names_something(const std::string& cell) {
  if (cell.empty() || cell.size() > 40 || parse_double(cell)) return false;
  return std::all_of(cell.begin(), cell.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == ' '; }) &&
         std::count(cell.begin(), cell.end(), ' ') <= 2;
}

std::optional<std::size_t> column_number(const std::string& source, std::size_t columns) {
  const std::optional<std::int64_t> number = parse_int(source);
  if (!number || *number < 1 || *number > static_cast<std::int64_t>(columns)) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

bool looks_like_header(const Cells& first, const Cells& read, const std::map<std::string, std::string>& columns,
                       const ColumnTemplates& templates) {
  for (const std::string& source : read)
    if (!column_number(source, first.size()) && std::find(first.begin(), first.end(), source) != first.end())
      return true;
  const auto is_mentioned = [&](const std::string& cell) {
    return names_something(cell) && templates.variables().contains(cell);
  };
  if (std::any_of(first.begin(), first.end(), is_mentioned)) return true;
  for (const auto& [known, source] : columns)
    if (column_number(source, first.size())) return false;
  return are_names(first);
}

Cells numbered_columns(const std::string& path, const Cells& first, bool guessed, const char* if_not) {
  const auto has_blank = [](const std::string& cell) { return cell.find(' ') != std::string::npos; };
  if (guessed && are_names(first) && std::none_of(first.begin(), first.end(), has_blank))
    log::warning("{}: the first line, {}, is read as a record; {}", path, list_names(first), if_not);
  Cells names;
  for (std::size_t i = 1; i <= first.size(); ++i) names.push_back(std::to_string(i));
  if (guessed) log::info("{}: no header line; its columns are 1 to {}", path, names.size());
  return names;
}

}  // namespace hone::data
