// A format's own reader gives the values; what they may be is the same for all of them.
#include "cli/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/source.h"
#include "hone/error.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/json_array.h"
#include "io/lines.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
using Each = std::function<void(const ordered_json&, const data::Place&)>;

void read_text(const std::string& path, const Each& each) {
  io::LineReader lines(path);
  std::string_view line;
  while (lines.next(line)) each(std::string(line), {path, lines.line()});
}

void read_jsonl(const std::string& path, const Each& each) {
  io::LineReader lines(path);
  std::string_view line;
  while (lines.next(line))
    if (!trim(line).empty())
      each(io::parse_ordered_json_line(line, path, lines.line(), {.bytes = io::kMaxLine}), {path, lines.line()});
}

void read_json(const std::string& path, const Each& each) {
  io::JsonArrayReader elements(path);
  ordered_json element;
  while (elements.next(element)) each(element, {path, elements.line()});
}

void read_table(const std::string& path, char separator, const Each& each) {
  io::CsvReader rows(path, separator);
  std::vector<std::string> names, cells;
  if (!rows.next(names)) return;
  auto column = std::find(names.begin(), names.end(), "prompt");
  if (column == names.end()) column = std::find(names.begin(), names.end(), "text");
  if (column == names.end())
    throw Error(ErrorKind::data, fmt::format("{}: no column \"prompt\" or \"text\"; found {}", path, list_names(names)))
        .hint("the first line names the columns");
  while (rows.next(cells)) {
    if (cells.size() != names.size())
      throw Error(ErrorKind::data,
                  fmt::format("{}: got {} fields, expected {}", rows.where(), cells.size(), names.size()));
    each(std::move(cells[static_cast<std::size_t>(column - names.begin())]), {path, rows.line()});
  }
}

}  // namespace

void read_prompt_file(const std::string& path, const Each& each) {
  const std::string kind = data::kind_of(path);
  if (kind == "text") return read_text(path, each);
  if (kind == "jsonl") return read_jsonl(path, each);
  if (kind == "json") return read_json(path, each);
  if (kind == "csv" || kind == "tsv") return read_table(path, kind == "csv" ? ',' : '\t', each);
  throw Error(ErrorKind::data,
              fmt::format("{}: prompts in {}; expected .jsonl, .json, .csv, .tsv or .txt", path, hone::quoted(kind)));
}

}  // namespace hone::cli
