// SentencePiece's table of replacements: a damaged one is refused or applied within the text's limits.
#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/formats/base64.h"
#include "text/parts/component.h"
#include "text/parts/normalizers.h"

HONE_FUZZ(charsmap) {
  using namespace hone;
  const text::Json config = {{"type", "Precompiled"}, {"precompiled_charsmap", text::to_base64(input)}};
  const text::Normalizers steps = text::make_normalizers(config, "fuzz");
  text::RegexScratch scratch;
  text::Aligned text;
  for (const std::string_view part : {"ab A\xC3\xA9", "e\xCC\x81\xE2\x84\xA2 ", "\xEF\xB7\xBA\xF0\x9D\x92\x9C"})
    for (std::size_t i = 0; i < part.size(); ++i) {
      text.text += part[i];
      text.origins.push_back(
          {static_cast<std::uint32_t>(text.text.size() - 1), static_cast<std::uint32_t>(text.text.size())});
    }
  text::normalize(steps, text, scratch);
  fuzz::require(text.origins.size() == text.text.size(), "every byte has an origin");
  fuzz::require(is_utf8(text.text), "the text is UTF-8");
}
