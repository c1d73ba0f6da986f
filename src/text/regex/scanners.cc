// One pass over the text per scanner; each function below is one alternative of the pattern.
#include "text/regex/scanners.h"

#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

constexpr std::string_view kPatterns[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::uint8_t kLetterNumberSpace = kLetter | kNumber | kSpace;

// A text with its end and the class table; positions are bytes.
struct ByteReader {
  const char* text;
  std::size_t end;
  const std::uint8_t* classes;

  // Class of the character at `at` (letter, number, space or 0) and where the next one begins.
  std::uint8_t read(std::size_t at, std::size_t& next) const {
    next = at;
    return classes[next_code_point({text, end}, next)] & kLetterNumberSpace;
  }
  std::uint8_t kind(std::size_t at) const {
    std::size_t next;
    return at < end ? read(at, next) : 0xFF;
  }
  // The end of the run of characters of this kind that begins at `at`.
  std::size_t run(std::size_t at, std::uint8_t kind) const {
    for (std::size_t next; at < end && read(at, next) == kind;) at = next;
    return at;
  }
  char byte(std::size_t at) const { return at < end ? text[at] : '\0'; }
  bool newline(std::size_t at) const { return at < end && (text[at] == '\n' || text[at] == '\r'); }
};

// 's 't 're 've 'm 'll 'd after the apostrophe at `at`, else 0. Without case, s is also U+017F.
std::size_t contraction(const ByteReader& r, std::size_t at, bool any_case) {
  const auto letter = [&](std::size_t i) {
    const char c = r.byte(at + i);
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char a = letter(1), b = letter(2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
  if (any_case && a == '\xC5' && r.byte(at + 2) == '\xBF') return at + 3;
  return 0;
}

// \s+(?!\S)|\s+ on the white space at `at`: all but the last character if something follows.
std::size_t spaces(const ByteReader& r, std::size_t at) {
  std::size_t last = at, next = at;
  for (std::size_t i = at; i < r.end && r.read(i, next) == kSpace; i = next) last = i;
  const std::size_t stop = r.run(last, kSpace);
  return stop == r.end || last == at ? stop : last;
}

std::size_t gpt2_word(const ByteReader& r, std::size_t at) {
  std::size_t next;
  const std::uint8_t kind = r.read(at, next);
  if (r.text[at] == '\'') {
    if (const std::size_t stop = contraction(r, at, false)) return stop;
  }
  if (kind != kSpace) return r.run(next, kind);
  if (r.text[at] != ' ' || next >= r.end) return spaces(r, at);
  const std::uint8_t follows = r.kind(next);
  return follows == kSpace ? spaces(r, at) : r.run(next, follows);
}

// \s*[\r\n]+: up to the last line end of the white space at `at`, else 0.
std::size_t lines(const ByteReader& r, std::size_t at) {
  std::size_t found = 0;
  for (std::size_t next = at; at < r.end && r.read(at, next) == kSpace; at = next)
    if (r.newline(at)) found = next;
  return found;
}

template <int kDigits>
std::size_t llama_word(const ByteReader& r, std::size_t at) {
  std::size_t next;
  const std::uint8_t kind = r.read(at, next);
  if (r.text[at] == '\'') {
    if (const std::size_t stop = contraction(r, at, true)) return stop;
  }
  if (kind == kLetter) return r.run(next, kLetter);
  if (kind == kNumber) {
    for (int n = 1; n < kDigits && r.kind(next) == kNumber; ++n) r.read(next, next);
    return next;
  }
  if (!r.newline(at) && r.kind(next) == kLetter) return r.run(next, kLetter);
  if (kind == 0 || (r.text[at] == ' ' && r.kind(next) == 0)) {
    std::size_t stop = r.run(next, 0);
    while (r.newline(stop)) ++stop;
    return stop;
  }
  const std::size_t stop = lines(r, at);
  return stop ? stop : spaces(r, at);
}

template <std::size_t (*kWord)(const ByteReader&, std::size_t)>
void scan(std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  const ByteReader r{text.data(), piece.end, class_table()};
  for (std::size_t at = piece.begin; at < piece.end;) {
    const std::size_t stop = kWord(r, at);
    out.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(stop), -1});
    at = stop;
  }
}

}  // namespace

std::string_view scanner_pattern(Scanner scanner) { return kPatterns[static_cast<int>(scanner)]; }

std::optional<Scanner> find_scanner(std::string_view pattern) {
  for (const Scanner s : {Scanner::gpt2, Scanner::llama3, Scanner::qwen2, Scanner::o200k})
    if (pattern == scanner_pattern(s)) return s;
  return std::nullopt;
}

void scan_words(Scanner scanner, std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  switch (scanner) {
    case Scanner::gpt2:
      return scan<gpt2_word>(text, piece, out);
    case Scanner::llama3:
      return scan<llama_word<3>>(text, piece, out);
    case Scanner::qwen2:
      return scan<llama_word<1>>(text, piece, out);
    case Scanner::o200k:
      return scan_o200k(text, piece, out);
  }
}

std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case) {
  return contraction({text.data(), text.size(), class_table()}, at, any_case);
}

std::size_t blanks_end(std::string_view text, std::size_t at) {
  const ByteReader r{text.data(), text.size(), class_table()};
  const std::size_t stop = lines(r, at);
  return stop ? stop : spaces(r, at);
}

}  // namespace hone::text
