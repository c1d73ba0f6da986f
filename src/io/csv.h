// CSV (RFC 4180) and TSV, streamed row by row.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/lines.h"

namespace hone::io {

// CSV: a field that begins with a quote ends at the next single quote, across lines, whose ends it keeps; "" inside is
// one quote.
// TSV (separator '\t'): the same, but a quote that no other one closes at the end of a field is a plain character, as
// files written without any quoting need. Beyond its own line a field goes on where the lines up to the closing quote
// have no tab, and so are no rows of a table with several columns, and the row then has as many fields as the first.
// Empty lines are skipped. One thread at a time.
class CsvReader {
 public:
  explicit CsvReader(const std::filesystem::path& path, char separator = ',', std::function<void()> waiting = {});
  bool next(std::vector<std::string>& fields);  // false: no more; throws Error(data) with path:line
  std::int64_t line() const { return line_; }   // where the row last returned begins, from 1
  std::string where() const;                    // "path:line"

 private:
  struct Line {
    std::string text, ending;
    std::int64_t number;
  };
  bool next_line(std::string_view& line);
  void check_line_ends(std::string_view first);
  const Line* ahead(std::size_t count);  // the line that comes after that many; nullptr: there is none
  bool closes_ahead(std::size_t fields_before);
  bool quoted_field(std::string_view& rest, std::string& field, std::size_t fields_before);
  LineReader lines_;
  char separator_;
  std::deque<Line> ahead_;
  std::size_t width_ = 0;  // fields of the first row
  std::string ending_;     // of the line being taken apart
  std::string current_;  // the line being taken apart; longer lines are appended inside quotes
  std::int64_t line_ = 0, last_ = 0;  // of the row, and of the line being taken apart
};

}  // namespace hone::io
