// Takes rows apart line by line; only a quoted CSV field goes on in the next line.
#include "io/csv.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace hone::io {
namespace {

constexpr std::uint64_t kMaxRow = kMaxLine;

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, char separator, std::function<void()> waiting)
    : lines_(path, kMaxLine, std::move(waiting)), separator_(separator) {}

std::string CsvReader::where() const { return fmt::format("{}:{}", lines_.bytes().path().string(), line_); }

// Takes a quoted field from the front of `rest`, which then begins with a separator or is empty. In CSV it may take
// more lines. false: a TSV field whose quote is only a character; nothing is taken.
bool CsvReader::quoted_field(std::string_view& rest, std::string& field) {
  std::size_t at = 1;
  for (;;) {
    const std::size_t quote = rest.find('"', at);
    if (quote == std::string_view::npos) {
      if (separator_ == '\t') return false;
      field.append(rest.substr(at)).append(lines_.ending());
      std::string_view line;
      if (field.size() > kMaxRow || !lines_.next(line))
        throw Error(ErrorKind::data, where() + ": a quoted field of this row is never closed");
      current_ = line;
      rest = current_;
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

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (line.empty());
  line_ = lines_.line();
  current_ = line;
  std::string_view rest = current_;
  for (;;) {
    std::string field;
    if (!rest.empty() && rest[0] == '"' && quoted_field(rest, field)) {
      fields.push_back(std::move(field));
    } else {
      const std::size_t end = std::min(rest.find(separator_), rest.size());
      fields.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (rest.empty()) return true;
    rest.remove_prefix(1);  // the separator; a field follows, perhaps an empty one
  }
}

}  // namespace hone::io
