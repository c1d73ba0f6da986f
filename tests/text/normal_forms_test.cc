// Normal forms: the quick check never lies, and hand-checked cases of composition and order.
#include "text/unicode/normal_forms.h"

#include <gtest/gtest.h>

namespace hone::text {
namespace {

Aligned aligned(const std::string& text) {
  Work work;
  work.start(text);
  Aligned out;
  if (!work.pieces.empty()) work.copy_to(out, work.pieces[0]);
  return out;
}
std::string normalized(NormalForm form, const std::string& text) {
  Aligned a = aligned(text);
  normalize(form, a);
  EXPECT_EQ(a.text.size(), a.origins.size());
  return a.text;
}

TEST(NormalForms, OfKnownCases) {
  EXPECT_EQ(normalized(NormalForm::nfc, "e\u0301"), "\u00e9");
  EXPECT_EQ(normalized(NormalForm::nfc, "a\u0323\u0302"), "\u1ead");
  EXPECT_EQ(normalized(NormalForm::nfc, "a\u0302\u0323"), "\u1ead");       // put in order first
  EXPECT_EQ(normalized(NormalForm::nfc, "\u1112\u1161\u11ab"), "\ud55c");  // Hangul
  EXPECT_EQ(normalized(NormalForm::nfd, "\ud55c"), "\u1112\u1161\u11ab");
  EXPECT_EQ(normalized(NormalForm::nfc, "\u0958"), "\u0915\u093c");  // excluded from composition
  EXPECT_EQ(normalized(NormalForm::nfkc, "\ufb01\u2460\u338f"), "fi1kg");
  EXPECT_EQ(normalized(NormalForm::nfkd, "\u1f82"), "\u03b1\u0313\u0300\u0345");
  EXPECT_EQ(normalized(NormalForm::nfc, "\u1f82"), "\u1f82");
  EXPECT_EQ(normalized(NormalForm::nfc, "a\u0301\u0301"), "\u00e1\u0301");  // the second is blocked
}

// With a character before it that composes with much, and one behind it.
TEST(NormalForms, QuickCheckNeverLies) {
  for (char32_t c = 1; c <= kMaxCodePoint; c += c < 0x3100 ? 1 : 7) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text = "a";
    append_utf8(text, c);
    text += "\u0301";
    std::string alone;
    append_utf8(alone, c);
    for (const NormalForm form : {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc, NormalForm::nfkd}) {
      const std::string once = normalized(form, text);
      ASSERT_EQ(normalized(form, once), once) << static_cast<std::uint32_t>(c);  // the marks force the long way
      if (is_normal(form, alone)) {
        ASSERT_EQ(once.substr(1, alone.size()) == alone || form == NormalForm::nfc || form == NormalForm::nfkc, true)
            << static_cast<std::uint32_t>(c);
      }
    }
  }
}

}  // namespace
}  // namespace hone::text
