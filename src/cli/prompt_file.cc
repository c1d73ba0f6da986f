// A format's own reader gives the values; what they may be is the same for all of them.
#include "cli/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/files.h"
#include "data/source.h"
#include "hone/error.h"
#include "io/csv.h"
#include "io/json.h"
#include "io/json_array.h"
#include "io/lines.h"
#include "io/pipe.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
using Each = std::function<void(const ordered_json&, const data::Place&)>;

constexpr const char* kStandardInput = "/dev/stdin";

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
      each(io::parse_ordered_json_line(line, path, lines.line(), {.bytes = io::kMaxLine}), {path, lines.line()});
}

void read_json(io::ByteReader bytes, const Each& each) {
  const std::string path = bytes.path().string();
  io::JsonArrayReader elements(std::move(bytes));
  ordered_json element;
  while (elements.next(element)) each(element, {path, elements.line()});
}

void read_table(const std::string& path, char separator, const Each& each) {
  io::CsvReader rows(path, separator, [] {});
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

void read_prompt_file(const std::string& given, const Each& each) {
  const std::string path = data::is_standard_input(given) ? kStandardInput : given;
  const bool by_content = io::is_pipe(path) && !data::has_data_extension(path);
  const std::string named = by_content ? "" : data::kind_of(path);
  if (named == "csv" || named == "tsv") return read_table(path, named == "csv" ? ',' : '\t', each);
  io::ByteReader bytes = open(path);
  const std::string kind = by_content ? data::kind_by_content(bytes) : named;
  if (kind == "text") return read_text(std::move(bytes), each);
  if (kind == "jsonl") return read_jsonl(std::move(bytes), each);
  if (kind == "json") return read_json(std::move(bytes), each);
  throw Error(ErrorKind::data,
              fmt::format("{}: prompts in {}; expected .jsonl, .json, .csv, .tsv or .txt", path, hone::quoted(kind)));
}

}  // namespace hone::cli
