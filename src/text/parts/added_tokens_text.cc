// Writing added tokens into the text of a tokenizer.json, in the manner of the text.
#include <fmt/format.h>

#include <set>

#include "text/formats/conversion.h"
#include "text/formats/json_cursor.h"
#include "text/parts/added_tokens.h"
#include "text/parts/component.h"
#include "text/tokenizer/tokenizer_file.h"

namespace hone::text {
namespace {

std::string entry_text(const AddedToken& t, bool lines) {
  const std::string_view next = lines ? ",\n      " : ",", colon = lines ? ": " : ":";
  std::string text = fmt::format("{{{}\"id\"{}{}{}\"content\"{}", lines ? "\n      " : "", colon, t.id, next, colon);
  append_json_string(text, t.content);
  const std::pair<const char*, bool> flags[] = {{"single_word", t.single_word},
                                                {"lstrip", t.left_strip},
                                                {"rstrip", t.right_strip},
                                                {"normalized", t.normalized},
                                                {"special", t.special}};
  for (const auto& [name, value] : flags) text += fmt::format("{}\"{}\"{}{}", next, name, colon, value);
  return text + (lines ? "\n    }" : "}");
}

}  // namespace

std::string with_added_tokens(std::string_view json, const std::vector<AddedToken>& tokens) {
  const std::string what = "tokenizer.json";
  const bool lines = json.substr(0, 200).find('\n') != std::string_view::npos;
  std::string text(json);
  Span span = find_member(text, "added_tokens", what);
  if (span.begin == std::string_view::npos || text[span.begin] != '[') {
    if (span.begin != std::string_view::npos)  // null
      text.replace(span.begin, span.end - span.begin, "[]");
    else
      text.insert(text.find('{') + 1, lines ? "\n  \"added_tokens\": []," : "\"added_tokens\":[],");
    span = find_member(text, "added_tokens", what);
  }
  std::set<std::string> known;
  JsonCursor cursor(text, what, span.begin);
  cursor.each_element([&](std::size_t) {
    cursor.each_member([&](std::string_view key) {
      if (key == "content" && cursor.peek() == '"')
        known.emplace(cursor.string());
      else
        cursor.skip();
    });
  });
  const std::size_t last = text.find_last_not_of(" \n\r\t", span.end - 2);  // of the last entry, or '['
  std::string added;
  for (const AddedToken& t : tokens) {
    if (known.contains(t.content)) continue;
    if (!added.empty() || text[last] != '[') added += ',';
    added += (lines ? "\n    " : "") + entry_text(t, lines);
  }
  if (added.empty()) return std::string(json);
  if (lines && text[last] == '[') added += "\n  ";
  return text.insert(last + 1, added);
}

}  // namespace hone::text
