// The form that a request asks for its answer, as OpenAI's API and vLLM have it.
#pragma once

#include <string>

#include "hone/generate.h"
#include "serve/fields.h"
#include "serve/form_maker.h"
#include "serve/served.h"

namespace hone::serve {

// Reads response_format and structured_outputs into the configuration. Returns the field that asked for a form; "":
// none did. Throws Refused.
std::string read_form(Fields& fields, GenerateConfig& config);
// What makes the form that a field asked for; empty: none did. Throws Refused: not of answers that may call tools.
FormMaker form_maker(const std::string& asked_by, bool has_tools, const Served& served);

}  // namespace hone::serve
