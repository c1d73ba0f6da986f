// Cutting the model's lists out of tokenizer.json, so that no tree of 300 000 nodes is built for them.
#include "text/tokenizer/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "io/json.h"
#include "text/formats/json_cursor.h"
#include "text/parts/component.h"

namespace hone::text {
namespace {

constexpr io::JsonLimits kFileLimits{512'000'000, 100, ErrorKind::config};

// null, with as many line ends as what it stands for: messages about what comes after name the right line.
void append_hole(std::string& to, std::string_view lines) {
  to += "null";
  to.append(static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')), '\n');
}

}  // namespace

Span find_member(std::string_view text, std::string_view name, const std::string& what) {
  JsonCursor cursor(text, what);
  Span found;
  if (cursor.peek() != '{') return found;
  cursor.each_member([&](std::string_view key) {
    const bool wanted = key == name && found.begin == std::string_view::npos;
    const std::string_view value = cursor.skip();
    if (wanted) found = {cursor.at() - value.size(), cursor.at()};
  });
  return found;
}

TokenizerFile read_tokenizer_file(std::string_view text, const std::string& what) {
  if (text.size() > kFileLimits.bytes)
    fail_at(what, fmt::format("{}, expected at most {}", human_size(text.size()), human_size(kFileLimits.bytes)));
  if (const auto bad = first_bad_utf8(text)) fail_at(what, fmt::format("not UTF-8 at byte {}", *bad));
  TokenizerFile file;
  std::string rest;
  const Span model = find_member(text, "model", what);
  std::size_t done = 0;
  if (model.begin != std::string_view::npos && text[model.begin] == '{') {
    JsonCursor cursor(text.substr(0, model.end), what, model.begin);
    cursor.each_member([&](std::string_view key) {
      std::string_view* part = key == "vocab" ? &file.vocab : key == "merges" ? &file.merges : nullptr;
      const std::string_view value = cursor.skip();
      if (!part || part->data() || (value[0] != '{' && value[0] != '[')) return;
      *part = value;
      rest.append(text, done, cursor.at() - value.size() - done);
      append_hole(rest, value);
      done = cursor.at();
    });
  }
  rest.append(text, done);
  file.json = io::parse_json(rest, what, kFileLimits);
  return file;
}

}  // namespace hone::text
