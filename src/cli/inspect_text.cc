// The plain form of a report: indented lines, and tables for lists of objects.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/inspect.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBytes = "_bytes";  // how the name of a size ends

std::string label_of(const std::string& name) {
  return name.ends_with(kBytes) ? name.substr(0, name.size() - kBytes.size()) : name;
}

std::string scalar_text(const std::string& name, const ordered_json& value) {
  if (name.ends_with(kBytes) && value.is_number_unsigned()) return human_size(value.get<std::uint64_t>());
  if (value.is_string()) return escape_for_terminal(value.get<std::string>());
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.dump();
}

bool is_table(const ordered_json& value) { return value.is_array() && !value.empty() && value[0].is_object(); }

// Columns of all rows, in the order of first appearance.
std::vector<std::string> columns_of(const ordered_json& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows)
    for (const auto& [name, value] : row.items())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string table_text(const ordered_json& rows, const std::string& indent) {
  const std::vector<std::string> names = columns_of(rows);
  std::vector<std::vector<std::string>> cells(1);
  for (const std::string& name : names) cells[0].push_back(label_of(name));
  for (const auto& row : rows) {
    cells.emplace_back();
    for (const std::string& name : names)
      cells.back().push_back(row.contains(name) ? scalar_text(name, row[name]) : "");
  }
  std::string out;
  for (const auto& line : cells) {
    out += indent;
    for (std::size_t c = 0; c < names.size(); ++c) {
      std::size_t width = 0;
      for (const auto& other : cells) width = std::max(width, display_width(other[c]));
      out += line[c] + (c + 1 < names.size() ? repeat(" ", width - display_width(line[c]) + 2) : "");
    }
    out += "\n";
  }
  return out;
}

void add(const ordered_json& report, const std::string& indent, std::string& out) {
  std::size_t width = 0;
  for (const auto& [name, value] : report.items()) width = std::max(width, label_of(name).size());
  for (const auto& [name, value] : report.items()) {
    if (is_table(value)) {
      out += indent + name + "\n" + table_text(value, indent + "  ");
    } else if (value.is_object()) {
      out += indent + name + "\n";
      add(value, indent + "  ", out);
    } else if (value.is_array() && !value.empty()) {
      out += indent + name + "\n";
      for (const auto& item : value) out += indent + "  " + scalar_text("", item) + "\n";
    } else {
      const std::string text = value.is_array() ? "none" : scalar_text(name, value), label = label_of(name);
      out += indent + label + repeat(" ", width - label.size() + 2) + text + "\n";
    }
  }
}

}  // namespace

std::string plain_text(const ordered_json& report) {
  std::string out;
  add(report, "", out);
  return out;
}

}  // namespace hone::cli
