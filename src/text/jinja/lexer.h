// A template's text as tokens, with jinja's rules of white space: trim_blocks and lstrip_blocks are on.
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

// REQUIRES: UTF-8. Throws a Fault with its line.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace hone::jinja
