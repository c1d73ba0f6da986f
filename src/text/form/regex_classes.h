// Sets of characters in regular expressions: classes, escapes and the dot, as Python's `re` has them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/unicode/char_set.h"

namespace hone::text {

// What decides the meaning of \d, \w, \s and the dot.
struct RegexClasses {
  bool ecma = false, ascii = false, dot_is_all = false;

  CharSet dot() const;
  // \d, \w or \s; as complements, their capitals.
  CharSet shorthand(char letter) const;
};

using FailAt = std::function<void(const std::string& fact)>;  // throws

// The class that begins behind `[` at `at`, which moves behind its `]`.
CharSet read_class(std::string_view pattern, std::size_t& at, const RegexClasses& classes, const FailAt& fail);
// The escape that begins behind `\`.
CharSet read_escape(std::string_view pattern, std::size_t& at, const RegexClasses& classes, bool in_class,
                    const FailAt& fail);

}  // namespace hone::text
