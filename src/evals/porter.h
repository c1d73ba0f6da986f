// Stems of English words, by which ROUGE may compare them.
#pragma once

#include <string>
#include <string_view>

namespace hone::evals {

// By Porter's rules (An algorithm for suffix stripping, 1980) with the changes that NLTK makes to them, which
// rouge_score takes. REQUIRES: lower case.
std::string porter_stem(std::string_view word);

}  // namespace hone::evals
