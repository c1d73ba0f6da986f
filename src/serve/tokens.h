// Texts as tokens and back, as vLLM has it at /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/text.h"
#include "serve/fields.h"
#include "serve/front.h"

namespace hone::serve {

// Answered at once, in the server's thread. REQUIRES: what is served outlives the routes.
struct Tokenized {
  std::string name = {};        // the model's
  std::int64_t max_length = 0;  // tokens that it takes
  std::shared_ptr<const Tokenizer> tokenizer = {};
  bool goes_on = false;  // texts are read as prompts, which the model goes on with: without a token that ends them
  // The tokens of a chat, whose fields it reads; empty: there is no chat template. Throws Refused.
  std::function<std::vector<std::int32_t>(Fields& fields)> chat = {};
};
std::vector<Front::Route> token_routes(const Tokenized& tokenized);
std::vector<Front::Route> token_routes(const Served& served);

}  // namespace hone::serve
