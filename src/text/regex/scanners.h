// Linear, hand-written forms of the regular expressions that most byte-level tokenizers cut words by.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/parts/aligned.h"

namespace hone::text {

// cl100k cuts as llama3: their patterns are written differently in some files only.
enum class Scanner { gpt2, llama3, qwen2, o200k };

// The pattern that a scanner stands for.
std::string_view scanner_pattern(Scanner scanner);
std::optional<Scanner> find_scanner(std::string_view pattern);

// Cuts text[begin, end) exactly as the pattern does, behaviour "isolated"; the patterns match every character.
// REQUIRES: well-formed UTF-8.
void scan_words(Scanner scanner, std::string_view text, const Piece& piece, std::vector<Piece>& out);

void scan_o200k(std::string_view text, const Piece& piece, std::vector<Piece>& out);

// Parts of the patterns that all have. 's 't 're 've 'm 'll 'd at an apostrophe: its end, or 0.
std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case);
// \s*[\r\n]+|\s+(?!\S)|\s+ on white space at `at`.
std::size_t blanks_end(std::string_view text, std::size_t at);

}  // namespace hone::text
