// Unicode normal forms NFC, NFD, NFKC, NFKD that keep track of where each character came from.
#pragma once

#include <span>
#include <string_view>

#include "text/parts/aligned.h"
#include "text/unicode/normal_tables.h"

namespace hone::text {

// A character of the result and how it relates to the source: 0 stands for one source character, 1 was put in
// after it, -n stands for one and swallows the n that follow.
struct Change {
  char32_t c;
  int consumed;
};
// The text becomes these characters, each with the origin of what it stands for.
void carry_out(std::span<const Change> changes, Aligned& text);

// Normalises in place. As Hugging Face's library: by the tables of Unicode 9, so that newer characters stay as they
// are.
void normalize(NormalForm form, Aligned& text);
// True when it is certain that the form leaves the text as it is; one table look-up per character. Thread-safe.
bool is_normal(NormalForm form, std::string_view text);

}  // namespace hone::text
