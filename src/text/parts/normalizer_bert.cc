// BertNormalizer: cleaning, blanks around Chinese characters, accents, case. Nmt: the cleaning of translation models.
#include "text/parts/component.h"
#include "text/parts/normalizers.h"
#include "text/unicode/normal_forms.h"

namespace hone::text {
namespace {

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class Bert final : public Normalizer {
 public:
  Bert(const Json& config, const std::string& where)
      : clean_(get_bool(config, "clean_text", where)),
        chinese_(get_bool(config, "handle_chinese_chars", where)),
        lower_(get_bool(config, "lowercase", where)),
        accents_(get_bool(config, "strip_accents", where, lower_)) {}

  void apply(Aligned& text, RegexScratch&) const override {
    bool ascii = true;
    for (const char c : text.text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
    if (ascii) return apply_to_ascii(text);
    const std::uint8_t* bits = bert_table();
    each_character(text, [&](char32_t c, Origin origin, Aligned& out) {
      if (clean_ && (bits[c] & kBertDropped)) return;
      if (clean_ && (bits[c] & kBertBlank)) c = ' ';
      const bool apart = chinese_ && is_chinese(c);
      if (apart) out.append(U' ', origin);
      out.append(c, origin);
      if (apart) out.append(U' ', origin);
    });
    if (accents_) {
      normalize(NormalForm::nfd, text);
      each_character(text, [&](char32_t c, Origin origin, Aligned& out) {
        if (!(bits[c] & kBertMark)) out.append(c, origin);
      });
    }
    if (lower_) lower_case(text);
  }

 private:
  void apply_to_ascii(Aligned& text) const {
    const std::uint8_t* bits = bert_table();
    std::size_t kept = 0;
    for (std::size_t at = 0; at < text.text.size(); ++at) {
      char c = text.text[at];
      const std::uint8_t kind = clean_ ? bits[static_cast<unsigned char>(c)] : 0;
      if (kind & kBertDropped) continue;
      if (kind & kBertBlank) c = ' ';
      if (lower_ && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
      text.text[kept] = c;
      text.origins[kept++] = text.origins[at];
    }
    text.text.resize(kept);
    text.origins.resize(kept);
  }

  bool clean_, chinese_, lower_, accents_;
};

class Nmt final : public Normalizer {
 public:
  void apply(Aligned& text, RegexScratch&) const override {
    each_character(text, [](char32_t c, Origin origin, Aligned& out) {
      const bool dropped =
          (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
      const bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      if (!dropped) out.append(blank ? U' ' : c, origin);
    });
  }
};

}  // namespace

std::unique_ptr<Normalizer> make_bert_normalizer(const Json& config, const std::string& where) {
  return std::make_unique<Bert>(config, where);
}
std::unique_ptr<Normalizer> make_nmt_normalizer() { return std::make_unique<Nmt>(); }

}  // namespace hone::text
