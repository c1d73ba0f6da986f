// Chat templates by name, for tokenizers that have none or another one: written for hone, as small as the form allows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone::text {

struct NamedTemplate {
  std::string_view name;
  std::string source;
  std::vector<std::string_view> tokens;  // that the tokenizer must have, each as one token
};

// In the order of their names. Contents are written without white space around them, so that a turn's first token is
// cut where the prompt ends. They raise an exception where they have no place for something: tools, calls, contents
// that are no text.
const std::vector<NamedTemplate>& named_templates();

std::vector<std::string> template_names();
const NamedTemplate* find_template(std::string_view name);  // nullptr: no such name

}  // namespace hone::text
