// What a GGUF file says of a model besides its numbers: its name, where it comes from, how its answers are drawn.
#pragma once

#include <string>

#include "io/gguf.h"

namespace hone::gguf {

struct General {
  std::string arch;
  std::string name;        // "org/my-model" or "my-model"
  std::string card;        // README.md, whose front matter counts; "": none
  std::string generation;  // generation_config.json; "": none
  std::string size_label;
  std::uint32_t file_type = 0;
};
// kGgufMaker comes first. Error(config): a text that should be YAML or JSON is not.
void general_keys(io::GgufKeys& keys, const General& general);

}  // namespace hone::gguf
