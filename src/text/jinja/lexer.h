// A template's text as tokens, with jinja's rules of white space.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hone::jinja {

struct Token {
  enum class Type : std::uint8_t {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    sign,  // text is the operator: "+", "//", "|", ...
    end
  };
  Type type;
  int line;
  std::string text;  // of data, names, strings (without quotes and escapes) and signs
  std::int64_t integer = 0;
  double real = 0;
};

// What becomes of the white space around blocks: trim_blocks and lstrip_blocks are on and the line end at the very end
// goes, as transformers sets jinja up for chat templates; or it stays as it is written.
enum class Spacing { of_chat_templates, as_written };

// REQUIRES: UTF-8. Throws a Fault with its line.
std::vector<Token> tokens_of(std::string_view source, Spacing spacing);

}  // namespace hone::jinja
