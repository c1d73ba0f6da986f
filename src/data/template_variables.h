// Variables of the chat template that a recipe gives to conversations which do not say otherwise.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "hone/config.h"
#include "hone/source.h"

namespace hone::data {

// As a JSON object; "": there are none.
std::string variables_text(const std::map<std::string, config::Open>& variables);
// Of `own` all, and of `others` those that it does not name; each is such an object, or "".
std::string with_others(const std::string& own, const std::string& others);
// Throws Error(usage) that begins with `option` for what is no JSON of an object; "" is none.
void check_variables(const std::string& variables, const std::string& option);

// The source, whose conversations are given these. "": as it is.
std::unique_ptr<Source> with_variables(std::unique_ptr<Source> source, const std::string& variables);

}  // namespace hone::data
