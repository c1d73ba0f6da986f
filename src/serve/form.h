// The form that a request asks for its answer, as OpenAI's API and vLLM have it.
#pragma once

#include "hone/generate.h"
#include "serve/fields.h"

namespace hone::serve {

// Reads response_format and structured_outputs into the configuration. Throws Refused.
void read_form(Fields& fields, GenerateConfig& config);
// That answers to these prompts can be held to it. Throws Refused.
struct AskedForm {
  const GenerateConfig& config;
  const std::vector<std::vector<std::int32_t>>& prompts;
  bool has_tools = false;
};
void check_form(const AskedForm& asked, const Model& model, const Tokenizer& tokenizer);

}  // namespace hone::serve
