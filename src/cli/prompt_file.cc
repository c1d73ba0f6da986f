// A format's own reader gives the values; what they may be is the same for all of them.
#include "cli/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cli/chat_prompts.h"
#include "data/fields.h"
#include "data/files.h"
#include "data/indexed_line.h"
#include "data/source.h"
#include "data/table_header.h"
#include "data/templates.h"
#include "hone/error.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/json_array.h"
#include "io/lines.h"
#include "io/parquet.h"
#include "io/pipe.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
using Each = std::function<void(const ordered_json&, const data::Place&)>;
using Columns = std::map<std::string, std::string>;
using Cells = std::vector<std::string>;

constexpr const char* kStandardInput = "/dev/stdin";
constexpr io::JsonLimits kLine{.bytes = io::kMaxLine, .keeps_integers = true};

// A pipe is waited for: until it ends there is nothing to answer.
io::ByteReader open(const std::string& path) { return io::ByteReader(path, [] {}); }

void read_text(io::ByteReader bytes, const Each& each) {
  const std::string path = bytes.path().string();
  io::LineReader lines(std::move(bytes));
  std::string_view line;
  while (lines.next(line)) each(std::string(line), {path, lines.line()});
}

void read_jsonl(io::ByteReader bytes, const Each& each) {
  const std::string path = bytes.path().string();
  io::LineReader lines(std::move(bytes));
  std::string_view line;
  while (lines.next(line))
    if (!trim(line).empty())
      each(io::parse_ordered_json_line(line, path, lines.line(), kLine), {path, lines.line()});
}

void read_json(io::ByteReader bytes, const Each& each) {
  const std::string path = bytes.path().string();
  io::JsonArrayReader elements(std::move(bytes));
  ordered_json element;
  while (elements.next(element)) {
    const std::int64_t line = elements.line();
    each(element, {path, elements.shares_line() ? data::indexed_line(line, elements.index()) : line});
  }
}

// The names of a table's columns, and of those that say what is asked the first, which may be empty.
struct TableColumns {
  Cells names;
  std::string asked;
  bool is_header = true;  // the first line is no record
};

// Under the number that it is asked for by, in a table with names.
void name_by_number(Cells& names, const Columns& columns, const data::ColumnTemplates& templates) {
  for (const auto& [known, source] : columns) {
    const std::optional<std::size_t> number = data::column_number(source, names.size());
    if (!number || std::count(names.begin(), names.end(), source) > 0) continue;
    std::string& name = names[*number - 1];
    if (templates.variables().contains(name))
      throw Error(ErrorKind::usage, fmt::format("--columns: {} by its number {} and by its name; expected one of them",
                                                hone::quoted(name), source));
    name = source;
  }
}

// Whether the first line names them, as `hone train` finds out.
bool names_columns(const Cells& first, const Columns& columns, const data::ColumnTemplates& templates) {
  Cells read = {"prompt", "messages", "conversations", "question", "context", "tokens", "completion", "completions"};
  for (const RecordKind kind : {RecordKind::labelled, RecordKind::ranked})
    for (const std::string& known : data::table_fields(kind)) read.push_back(known);
  for (std::string& known : read)
    if (const auto other = columns.find(known); other != columns.end()) known = other->second;
  return data::looks_like_header(first, read, columns, templates);
}

TableColumns read_table_columns(const Cells& first, const std::string& path, const std::optional<Columns>& renamed) {
  TableColumns columns{.names = first, .asked = {}};
  const auto has = [&](const std::string& name) {
    return std::count(columns.names.begin(), columns.names.end(), name);
  };
  if (renamed) {
    const data::ColumnTemplates templates(*renamed);
    columns.is_header = names_columns(first, *renamed, templates);
    if (columns.is_header) name_by_number(columns.names, *renamed, templates);
    else columns.names = data::numbered_columns(path, first, true, "--columns by its names if it names the columns");
  }
  for (const char* known : {"prompt", "text", "messages", "conversations"}) {
    const auto other = renamed ? renamed->find(known) : Columns::const_iterator();
    const std::string name = !renamed || other == renamed->end() ? known : other->second;
    if (columns.asked.empty() && has(name) > 0) columns.asked = name;
  }
  if (columns.asked.empty() && !renamed)
    throw Error(ErrorKind::data,
                fmt::format("{}: no column \"prompt\" or \"text\"; found {}", path, list_names(columns.names)))
        .hint("the first line names the columns");
  for (const std::string& name : columns.names)
    if (!name.empty() && has(name) > 1)
      throw Error(ErrorKind::data, fmt::format("{}: two columns are called {}", path, hone::quoted(name)));
  return columns;
}

// Fields that are no texts are JSON in their cell.
ordered_json cell_value(const std::string& name, const std::string& cell, const data::Place& place) {
  for (const char* json : {"messages", "conversations", "tools", "documents", "chat_template_kwargs"})
    if (name == json)
      return during("reading field " + hone::quoted(name),
                    [&] { return io::parse_ordered_json_line(cell, place.path, place.line, kLine); });
  return cell;
}

// A row is an object of its cells; an empty one says nothing, as null does where there is one.
void read_table(const std::string& path, char separator, const Each& each, const std::optional<Columns>& renamed) {
  io::CsvReader rows(path, separator, [] {});
  Cells cells;
  if (!rows.next(cells)) return;
  const auto [names, asked, is_header] = read_table_columns(cells, path, renamed);
  if (is_header && !rows.next(cells)) return;
  do {
    if (cells.size() != names.size())
      throw Error(ErrorKind::data,
                  fmt::format("{}: got {} fields, expected {}", rows.where(), cells.size(), names.size()));
    const data::Place place{path, rows.line()};
    ordered_json row = ordered_json::object();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!cells[i].empty()) row[names[i]] = cell_value(names[i], cells[i], place);
    if (!ChatPrompts::asks(row) && !asked.empty() && !row.contains(asked)) row[asked] = "";
    each(row, place);
  } while (rows.next(cells));
}

// Texts of any depth, but for those of pictures.
bool is_text(const ordered_json& value) {
  if (value.is_string()) return is_utf8(value.get_ref<const std::string&>());
  if (!value.is_structured() || (value.is_object() && value.contains("bytes"))) return true;
  return std::all_of(value.begin(), value.end(), is_text);
}

void read_parquet(const std::string& path, const Each& each) {
  io::ParquetReader rows(path);
  ordered_json row;
  while (rows.next(row)) {
    const data::Place place{path, rows.row()};
    for (const auto& [name, value] : row.items())
      if (!is_text(value))
        throw Error(ErrorKind::data, fmt::format("{}: field {}: invalid UTF-8", place.text(), hone::quoted(name)));
    each(row, place);
  }
}

}  // namespace

void read_prompt_file(const std::string& given, const Each& each, const std::optional<Columns>& columns) {
  const std::string path = data::is_standard_input(given) ? kStandardInput : given;
  const bool by_content = io::is_pipe(path) && !data::has_data_extension(path);
  const std::string named = by_content ? "" : data::kind_of(path);
  if (named == "csv" || named == "tsv") return read_table(path, named == "csv" ? ',' : '\t', each, columns);
  if (named == "parquet") return read_parquet(path, each);
  io::ByteReader bytes = open(path);
  const std::string kind = by_content ? data::kind_by_content(bytes) : named;
  if (kind == "text") return read_text(std::move(bytes), each);
  if (kind == "jsonl") return read_jsonl(std::move(bytes), each);
  if (kind == "json") return read_json(std::move(bytes), each);
  throw Error(ErrorKind::data,
              fmt::format("{}: texts in {}; expected .jsonl, .json, .csv, .tsv, .txt, or .parquet as a file", path,
                          hone::quoted(kind)));
}

}  // namespace hone::cli
