// CSV (RFC 4180) and TSV, streamed row by row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/lines.h"

namespace hone::io {

// CSV: a field that begins with a quote ends at the next single quote, across lines, whose ends it keeps; "" inside is
// one quote.
// TSV (separator '\t'): the same within one line; a quote that no other one closes at the end of a field of that line
// is a plain character, as files written without any quoting need. Empty lines are skipped. One thread at a time.
class CsvReader {
 public:
  explicit CsvReader(const std::filesystem::path& path, char separator = ',', std::function<void()> waiting = {});
  bool next(std::vector<std::string>& fields);  // false: no more; throws Error(data) with path:line
  std::int64_t line() const { return line_; }   // where the row last returned begins, from 1
  std::string where() const;                    // "path:line"

 private:
  bool quoted_field(std::string_view& rest, std::string& field);
  LineReader lines_;
  char separator_;
  std::string current_;  // the line being taken apart; longer lines are appended inside quotes
  std::int64_t line_ = 0;
};

}  // namespace hone::io
