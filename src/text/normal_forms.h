// Unicode normal forms NFC, NFD, NFKC, NFKD that keep track of where each character came from.
#pragma once

#include <string_view>

#include "text/aligned.h"

namespace hone::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Normalises in place. As Hugging Face's library: by the tables of Unicode 9, so that newer characters stay as they
// are.
void normalize(NormalForm form, Aligned& text);
// True when it is certain that the form leaves the text as it is; one table look-up per character. Thread-safe.
bool is_normal(NormalForm form, std::string_view text);

}  // namespace hone::text
