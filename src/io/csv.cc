// Takes rows apart line by line; only a quoted CSV field goes on in the next line.
#include "io/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace hone::io {
namespace {

constexpr std::uint64_t kMaxRow = kMaxLine;
constexpr std::size_t kMostAhead = 1000;  // lines of a field in TSV

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, char separator, std::function<void()> waiting)
    : lines_(path, kMaxLine, std::move(waiting)), separator_(separator) {}

std::string CsvReader::where() const { return fmt::format("{}:{}", lines_.bytes().path().string(), line_); }

bool CsvReader::next_line(std::string_view& line) {
  if (ahead_.empty()) {
    if (!lines_.next(line)) return false;
    current_ = line;
    ending_ = lines_.ending();
    last_ = lines_.line();
  } else {
    current_ = std::move(ahead_.front().text);
    ending_ = std::move(ahead_.front().ending);
    last_ = ahead_.front().number;
    ahead_.pop_front();
  }
  line = current_;
  return true;
}

const CsvReader::Line* CsvReader::ahead(std::size_t count) {
  while (ahead_.size() <= count) {
    std::string_view line;
    if (!lines_.next(line)) return nullptr;
    ahead_.push_back({std::string(line), std::string(lines_.ending()), lines_.line()});
  }
  return &ahead_[count];
}

// Whether a TSV field that is open at the end of its line is a quoted one (see csv.h).
bool CsvReader::closes_ahead(std::size_t fields_before) {
  constexpr std::size_t none = std::string_view::npos;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kMostAhead && size < kMaxRow; ++i) {
    const Line* line = ahead(i);
    if (line == nullptr) return false;
    const std::string_view text = line->text;
    size += text.size();
    std::size_t quote = text.find('"');
    while (quote != none && quote + 1 < text.size() && text[quote + 1] == '"') quote = text.find('"', quote + 2);
    if (text.find('\t') < quote) return false;
    if (quote == none) continue;
    const std::string_view rest = text.substr(quote + 1);
    const auto fields = fields_before + 1 + static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '\t'));
    return (rest.empty() || rest[0] == '\t') && (width_ == 0 || fields == width_);
  }
  return false;
}

// Takes a quoted field from the front of `rest`, which then begins with a separator or is empty; it may take more
// lines. false: a TSV field whose quote is only a character; nothing is taken.
bool CsvReader::quoted_field(std::string_view& rest, std::string& field, std::size_t fields_before) {
  std::size_t at = 1;
  bool goes_on = separator_ != '\t';
  for (;;) {
    const std::size_t quote = rest.find('"', at);
    if (quote == std::string_view::npos) {
      if (!goes_on && (rest.find(separator_) != std::string_view::npos || !closes_ahead(fields_before))) return false;
      goes_on = true;
      field.append(rest.substr(at)).append(ending_);
      if (field.size() > kMaxRow || !next_line(rest))
        throw Error(ErrorKind::data, where() + ": a quoted field of this row is never closed");
      at = 0;
      continue;
    }
    field.append(rest.substr(at, quote - at));
    at = quote + 1;
    if (at < rest.size() && rest[at] == '"') {
      field.push_back('"');
      ++at;
      continue;
    }
    if (at == rest.size() || rest[at] == separator_) {
      rest.remove_prefix(at);
      return true;
    }
    if (separator_ == '\t') return false;
    throw Error(ErrorKind::data,
                fmt::format("{}: {} after the closing quote of a field, expected {}", where(),
                            hone::quoted(rest.substr(at, 1)), hone::quoted(std::string(1, separator_))));
  }
}

// As old spreadsheets write a table: all of its rows would be one line.
void CsvReader::check_line_ends(std::string_view first) {
  const std::size_t end = first.find('\r');
  if (end == std::string_view::npos || end + 1 == first.size() || ahead(0) != nullptr) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: its lines end with a carriage return alone (\\r), so that the whole file is one line; "
                          "expected \\n or \\r\\n",
                          lines_.bytes().path().string()))
      .hint("tr '\\r' '\\n' < FILE > OTHER makes them so");
}

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  std::string_view rest;
  do {
    if (!next_line(rest)) return false;
  } while (rest.empty());
  line_ = last_;
  if (width_ == 0) check_line_ends(rest);
  for (;;) {
    std::string field;
    if (!rest.empty() && rest[0] == '"' && quoted_field(rest, field, fields.size())) {
      fields.push_back(std::move(field));
    } else {
      const std::size_t end = std::min(rest.find(separator_), rest.size());
      fields.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (rest.empty()) break;
    rest.remove_prefix(1);  // the separator; a field follows, perhaps an empty one
  }
  if (width_ == 0) width_ = fields.size();
  return true;
}

}  // namespace hone::io
