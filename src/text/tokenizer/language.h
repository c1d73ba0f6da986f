// The token that a tokenizer of many languages puts around a text to say in which it is, as "en_XX" of mBART-50.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/text.h"

namespace hone::text {

// A language that is said instead of the one that the tokenizer was saved with. Immutable.
class LanguageMark {
 public:
  // language: its token; option: who asks for it, for errors. Throws Error(config) where the tokenizer has no such
  // token, or puts none of a language around a text.
  LanguageMark(const Tokenizer& tokenizer, const std::string& language, const std::string& option);
  std::int32_t id() const { return id_; }
  // In place of the tokenizer's own. REQUIRES: ids are what encode(special = true) makes of a text, as encode_fitting()
  // may have shortened it.
  void put(std::vector<std::int32_t>& ids) const;

 private:
  std::int32_t id_, own_;
  bool is_first_;       // else it stands behind the text:
  std::size_t behind_;  // so many tokens before the last one
};

// Nothing: language is "".
std::optional<LanguageMark> language_mark(const Tokenizer& tokenizer, const std::string& language,
                                          const std::string& option);

// Whether the tokenizer puts its end-of-sequence token around a text, wherever it stands.
bool puts_eos(const Tokenizer& tokenizer);

}  // namespace hone::text
