#include "text/tokenizer/language.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::text {

bool puts_eos(const Tokenizer& tokenizer) {
  const std::vector<std::int32_t> around = tokenizer.encode("", /*special=*/true).ids;
  return tokenizer.eos_id && std::find(around.begin(), around.end(), *tokenizer.eos_id) != around.end();
}

std::optional<LanguageMark> language_mark(const Tokenizer& tokenizer, const std::string& language,
                                          const std::string& option) {
  if (language.empty()) return std::nullopt;
  return LanguageMark(tokenizer, language, option);
}

LanguageMark::LanguageMark(const Tokenizer& tokenizer, const std::string& language, const std::string& option) {
  const auto id = tokenizer.id_of(language);
  if (!id)
    throw Error(ErrorKind::config, fmt::format("{}: the tokenizer has no token {}; expected a language's, as en_XX or "
                                               "eng_Latn",
                                               option, hone::quoted(language)));
  const std::vector<std::int32_t> around = tokenizer.encode("", /*special=*/true).ids;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < around.size(); ++i)
    if (around[i] != tokenizer.eos_id && around[i] != tokenizer.bos_id) places.push_back(i);
  if (places.size() != 1)
    throw Error(ErrorKind::config,
                fmt::format("{}: the tokenizer puts {} around a text; expected one token of a language, with or "
                            "without its end-of-sequence token",
                            option, around.empty() ? "nothing" : "other tokens"))
        .hint("a tokenizer.json that transformers saved with a src_lang has one in its post_processor");
  id_ = *id, own_ = around[places[0]];
  is_first_ = places[0] == 0, behind_ = around.size() - 1 - places[0];
  const std::vector<std::int32_t> text = tokenizer.encode("a", /*special=*/true).ids;
  if (text.size() <= behind_ || (is_first_ ? text.front() : text[text.size() - 1 - behind_]) != own_)
    throw Error(ErrorKind::config,
                fmt::format("{}: the tokenizer puts the token of a language between others before a text; expected it "
                            "at the beginning, or behind the text",
                            option));
}

void LanguageMark::put(std::vector<std::int32_t>& ids) const {
  HONE_ASSERT(ids.size() > behind_);
  std::int32_t& mark = is_first_ ? ids.front() : ids[ids.size() - 1 - behind_];
  HONE_ASSERT(mark == own_);
  mark = id_;
}

}  // namespace hone::text
