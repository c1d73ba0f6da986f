// NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents, ByteLevel and Sequence; others have files of
// their own.
#include "text/parts/normalizers.h"

#include "text/parts/component.h"
#include "text/regex/pattern.h"
#include "text/unicode/normal_forms.h"

namespace hone::text {
namespace {

class FormStep final : public Normalizer {
 public:
  explicit FormStep(NormalForm form) : form_(form) {}
  void apply(Aligned& text, RegexScratch&) const override { normalize(form_, text); }
  bool leaves(std::string_view text) const override { return is_normal(form_, text); }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(Aligned& text, RegexScratch&) const override { lower_case(text); }
};

class StripAccents final : public Normalizer {
 public:
  void apply(Aligned& text, RegexScratch&) const override {
    each_character(text, [classes = class_table()](char32_t c, Origin origin, Aligned& out) {
      if (!(classes[c] & kCombiningMark)) out.append(c, origin);
    });
  }
};

class ByteLevelStep final : public Normalizer {
 public:
  void apply(Aligned& text, RegexScratch&) const override {
    Aligned out;
    out.base = text.base;
    out.limit = text.limit;
    for (std::size_t i = 0; i < text.text.size(); ++i)
      out.append(byte_characters()[static_cast<unsigned char>(text.text[i])], text.origins[i]);
    text = std::move(out);
  }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(Aligned& text, RegexScratch&) const override {
    if (text.text.empty()) return;
    text.text.insert(0, prefix_);
    text.origins.insert(text.origins.begin(), prefix_.size(), text.origins.front());
  }

 private:
  std::string prefix_;
};

class ReplaceStep final : public Normalizer {
 public:
  ReplaceStep(const Json& config, const std::string& where)
      : pattern_(member(config, "pattern"), where + ".pattern"), content_(get_string(config, "content", where)) {}
  void apply(Aligned& text, RegexScratch& scratch) const override {
    Aligned out;
    out.base = text.base;
    out.limit = text.limit;
    std::size_t done = 0;
    pattern_.each_match(text.text, scratch, [&](std::size_t begin, std::size_t end) {
      out.append(text, done, begin);
      out.append(content_, text.origin_before(end));
      out.check_size();
      done = end;
    });
    if (done == 0 && out.text.empty()) return;
    out.append(text, done, text.text.size());
    text = std::move(out);
  }
  bool leaves(std::string_view) const override { return false; }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripStep final : public Normalizer {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  void apply(Aligned& text, RegexScratch&) const override {
    const std::uint8_t* classes = class_table();
    std::size_t begin = 0, end = text.text.size();
    for (std::size_t at = 0; left_ && at < end && (classes[next_code_point(text.text, at)] & kSpace);) begin = at;
    while (right_ && end > begin && (classes[code_point_before(text.text, end)] & kSpace)) {
      do --end;
      while (is_continuation(text.text[end]));
    }
    text.text = text.text.substr(begin, end - begin);
    text.origins = {text.origins.begin() + static_cast<std::ptrdiff_t>(begin),
                    text.origins.begin() + static_cast<std::ptrdiff_t>(end)};
  }

 private:
  bool left_, right_;
};

constexpr std::string_view kNormalizerTypes =
    "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents, ByteLevel, BertNormalizer, Nmt, "
    "Precompiled, Sequence";

std::unique_ptr<Normalizer> make_step(const std::string& type, const Json& config, const std::string& where) {
  if (type == "NFC") return std::make_unique<FormStep>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<FormStep>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<FormStep>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<FormStep>(NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelStep>();
  if (type == "BertNormalizer") return make_bert_normalizer(config, where);
  if (type == "Nmt") return make_nmt_normalizer();
  if (type == "Precompiled") return make_precompiled_normalizer(config, where);
  if (type == "Prepend") return std::make_unique<Prepend>(get_string(config, "prepend", where));
  if (type == "Replace") return std::make_unique<ReplaceStep>(config, where);
  if (type == "Strip")
    return std::make_unique<StripStep>(get_bool(config, "strip_left", where), get_bool(config, "strip_right", where));
  fail_type(where, type, kNormalizerTypes);
}

void add(Normalizers& to, const Json& config, const std::string& where) {
  const std::string type = type_of(config, where);
  if (type != "Sequence") return to.push_back(make_step(type, config, where));
  const Json& list = get_list(config, "normalizers", where);
  for (std::size_t i = 0; i < list.size(); ++i) add(to, list[i], item_at(where, "normalizers", i));
}

}  // namespace

Normalizers make_normalizers(const Json& config, const std::string& where) {
  Normalizers steps;
  if (!config.is_null()) add(steps, config, where);
  return steps;
}

void lower_case(Aligned& text) {
  each_character(text, [](char32_t c, Origin origin, Aligned& out) {
    char32_t second;
    out.append(lower_case(c, second), origin);
    if (second) out.append(second, origin);
  });
}

void normalize(const Normalizers& steps, Aligned& text, RegexScratch& scratch) {
  for (const auto& step : steps) {
    if (!step->leaves(text.text)) step->apply(text, scratch);
    text.check_size();
  }
}

}  // namespace hone::text
