// Pre-tokenizers that look at the class of each character: Whitespace, BertPreTokenizer, Digits, UnicodeScripts and
// others.
#include "text/parts/component.h"
#include "text/parts/pre_tokenizers.h"
#include "text/parts/split_parts.h"

namespace hone::text {
namespace {

// Cuts wherever a character of some class stands.
class ClassSplit final : public PreTokenizer {
 public:
  ClassSplit(std::uint8_t bit, Behavior behavior) : bit_(bit), behavior_(behavior) {}
  void apply(Work& work, RegexScratch&) const override {
    std::vector<Part> parts;
    work.split([&, classes = class_table()](const Piece& piece, std::vector<Piece>& out) {
      parts_by_character(work.text(), piece, [&](char32_t c) { return (classes[c] & bit_) != 0; }, parts);
      cut(parts, behavior_, out);
    });
  }

 private:
  std::uint8_t bit_;
  Behavior behavior_;
};

// \w+|[^\w\s]+ as Rust's regex has it, where the joiners U+200C and U+200D are word characters.
class Whitespace final : public PreTokenizer {
 public:
  void apply(Work& work, RegexScratch&) const override {
    work.split([&, classes = class_table()](const Piece& piece, std::vector<Piece>& out) {
      int previous = 0;
      for (std::size_t at = piece.begin; at < piece.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const char32_t c = next_code_point(work.text(), at);
        const bool word = (classes[c] & kWord) || c == 0x200C || c == 0x200D;
        const int kind = word ? 1 : (classes[c] & kSpace) ? 0 : 2;
        if (kind != 0 && kind == previous)
          out.back().end = static_cast<std::uint32_t>(at);
        else if (kind != 0)
          out.push_back({begin, static_cast<std::uint32_t>(at), -1});
        previous = kind;
      }
    });
  }
};

// White space is dropped, punctuation stands alone.
class BertWords final : public PreTokenizer {
 public:
  void apply(Work& work, RegexScratch&) const override {
    work.split([&, classes = class_table()](const Piece& piece, std::vector<Piece>& out) {
      bool inside = false;
      for (std::size_t at = piece.begin; at < piece.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const std::uint8_t kind = classes[next_code_point(work.text(), at)] & (kSpace | kPunctuationCut);
        if (kind == 0 && inside)
          out.back().end = static_cast<std::uint32_t>(at);
        else if (!(kind & kSpace))
          out.push_back({begin, static_cast<std::uint32_t>(at), -1});
        inside = kind == 0;
      }
    });
  }
};

// Cuts between characters of different scripts; what belongs to every script before the first other is dropped.
class Scripts final : public PreTokenizer {
 public:
  void apply(Work& work, RegexScratch&) const override {
    work.split([&](const Piece& piece, std::vector<Piece>& out) {
      int last = 0;
      for (std::size_t at = piece.begin; at < piece.end;) {
        const auto begin = static_cast<std::uint32_t>(at);
        const int group = script_group(next_code_point(work.text(), at));
        const bool cuts = group != 0 && group != last;
        if (cuts) out.push_back({begin, begin, -1});
        if (group != 0) last = group;
        if (last != 0) out.back().end = static_cast<std::uint32_t>(at);
      }
    });
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::int64_t length) : length_(length) {}
  void apply(Work& work, RegexScratch&) const override {
    work.split([&](const Piece& piece, std::vector<Piece>& out) {
      std::int64_t left = 0;
      for (std::size_t at = piece.begin; at < piece.end; --left) {
        const auto begin = static_cast<std::uint32_t>(at);
        at += utf8_length(work.text()[at]);
        if (left == 0) out.push_back({begin, begin, -1}), left = length_;
        out.back().end = static_cast<std::uint32_t>(at);
      }
    });
  }

 private:
  std::int64_t length_;
};

class CharDelimiter final : public PreTokenizer {
 public:
  explicit CharDelimiter(char32_t delimiter) : delimiter_(delimiter) {}
  void apply(Work& work, RegexScratch&) const override {
    std::vector<Part> parts;
    work.split([&](const Piece& piece, std::vector<Piece>& out) {
      parts_by_character(work.text(), piece, [&](char32_t c) { return c == delimiter_; }, parts);
      cut(parts, Behavior::removed, out);
    });
  }

 private:
  char32_t delimiter_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_class_pre_tokenizer(const std::string& type, const Json& config,
                                                       const std::string& where) {
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<ClassSplit>(kSpace, Behavior::removed);
  if (type == "BertPreTokenizer") return std::make_unique<BertWords>();
  if (type == "UnicodeScripts") return std::make_unique<Scripts>();
  if (type == "CharDelimiterSplit") return std::make_unique<CharDelimiter>(get_char(config, "delimiter", where));
  if (type == "FixedLength")
    return std::make_unique<FixedLength>(
        member(config, "length").is_null() ? 5 : get_int(config, "length", where, 1, INT64_MAX));
  if (type == "Digits") {
    const bool each = get_bool(config, "individual_digits", where);
    return std::make_unique<ClassSplit>(kDigitCut, each ? Behavior::isolated : Behavior::contiguous);
  }
  if (type == "Punctuation")
    return std::make_unique<ClassSplit>(kPunctuationCut, get_behavior(config, where, "Isolated"));
  return nullptr;
}

}  // namespace hone::text
