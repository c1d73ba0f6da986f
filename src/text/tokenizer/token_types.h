// Whether the tokens of a pair of texts have types: transformers' classes leave them out unless the folder, or the
// class, names them among what a model is given.
#pragma once

#include <string>

#include "hone/text.h"

namespace hone::text {

// By model_input_names of tokenizer_config.json, else by its tokenizer_class, else by the model's type ("": not known)
// as transformers' AutoTokenizer takes a class for it; where nothing says so they have.
bool says_token_types(const std::string& tokenizer_config, const std::string& model_type);

// Of a tokenizer from a folder, as said there; of others they have.
bool gives_token_types(const Tokenizer& tokenizer);

}  // namespace hone::text
