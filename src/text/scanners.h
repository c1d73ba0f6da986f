// Linear, hand-written forms of the regular expressions that most byte-level tokenizers cut words by.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/aligned.h"

namespace hone::text {

enum class Scanner { gpt2, llama3, qwen2 };

// The pattern that a scanner stands for.
std::string_view scanner_pattern(Scanner scanner);
std::optional<Scanner> find_scanner(std::string_view pattern);

// Cuts text[begin, end) exactly as the pattern does, behaviour "isolated"; the patterns match every character.
// REQUIRES: well-formed UTF-8.
void scan_words(Scanner scanner, std::string_view text, const Piece& piece, std::vector<Piece>& out);

}  // namespace hone::text
