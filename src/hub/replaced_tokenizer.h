// Tokenizers that transformers makes anew, whatever their files say.
#pragma once

#include <string>

#include "hone/model.h"
#include "hone/text.h"

namespace hone::hub {

// A warning where AutoTokenizer of transformers 5 will split texts otherwise than this tokenizer does, as it takes a
// class of its own for the model's type; else "".
std::string replaced_tokenizer(const Model& model, const Tokenizer& tokenizer);

}  // namespace hone::hub
