// ByteLevel, Split and Sequence; others have files of their own.
#include "text/parts/pre_tokenizers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/split_parts.h"
#include "text/regex/pattern.h"

namespace hone::text {
namespace {

class ScannerSplit final : public PreTokenizer {
 public:
  explicit ScannerSplit(Scanner scanner) : scanner_(scanner) {}
  void apply(Work& work, RegexScratch&) const override {
    work.split([&](const Piece& piece, std::vector<Piece>& out) { scan_words(scanner_, work.text(), piece, out); });
  }

 private:
  Scanner scanner_;
};

class PatternSplit final : public PreTokenizer {
 public:
  PatternSplit(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Work& work, RegexScratch& scratch) const override {
    std::vector<Part> parts;
    work.split([&](const Piece& piece, std::vector<Piece>& out) {
      parts.clear();
      std::uint32_t done = piece.begin;
      pattern_.each_match(work.text(piece), scratch, [&](std::size_t begin, std::size_t end) {
        add_match(parts, done, piece.begin + static_cast<std::uint32_t>(begin),
                  piece.begin + static_cast<std::uint32_t>(end));
      });
      if (done != piece.end) parts.push_back({done, piece.end, false});
      for (Part& p : parts) p.match = p.match != invert_;
      cut(parts, behavior_, out);
    });
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void apply(Work& work, RegexScratch&) const override {
    const auto lacks = [&](const Piece& piece) { return piece.id < 0 && work.text()[piece.begin] != ' '; };
    if (std::none_of(work.pieces.begin(), work.pieces.end(), lacks)) return;
    work.rewrite([&](const Piece& piece, Aligned& to) {
      if (lacks(piece)) to.append(" ", work.origin(piece.begin, piece.begin + 1));
      work.copy_to(to, piece);
    });
  }
};

class SpellBytes final : public PreTokenizer {
 public:
  void apply(Work& work, RegexScratch&) const override { spell_bytes(work); }
};

constexpr std::string_view kPreTokenizerTypes =
    "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Digits, Punctuation, "
    "CharDelimiterSplit, FixedLength, UnicodeScripts, Sequence";
using Steps = std::vector<std::unique_ptr<PreTokenizer>>;

void add_byte_level(Steps& to, const Json& config, const std::string& where) {
  if (get_bool(config, "add_prefix_space", where)) to.push_back(std::make_unique<PrefixSpace>());
  get_bool(config, "trim_offsets", where);  // only its presence matters here: the post-processor trims
  if (get_bool(config, "use_regex", where, true)) to.push_back(std::make_unique<ScannerSplit>(Scanner::gpt2));
  to.push_back(std::make_unique<SpellBytes>());
}

std::unique_ptr<PreTokenizer> make_split(const Json& config, const std::string& where) {
  Pattern pattern(member(config, "pattern"), where + ".pattern");
  const Behavior behavior = get_behavior(config, where);
  const bool invert = get_bool(config, "invert", where);
  // A scanner's pattern leaves nothing between its matches, so it is the same as "removed, inverted".
  const bool all_kept =
      behavior == (invert ? Behavior::removed : Behavior::isolated) || (invert && behavior == Behavior::isolated);
  if (pattern.scanner() && all_kept) return std::make_unique<ScannerSplit>(*pattern.scanner());
  return std::make_unique<PatternSplit>(std::move(pattern), behavior, invert);
}

void add(Steps& to, const Json& config, const std::string& where) {
  const std::string type = type_of(config, where);
  if (type == "Sequence") {
    const Json& list = get_list(config, "pretokenizers", where);
    for (std::size_t i = 0; i < list.size(); ++i) add(to, list[i], item_at(where, "pretokenizers", i));
  } else if (type == "ByteLevel") {
    add_byte_level(to, config, where);
  } else if (type == "Split") {
    to.push_back(make_split(config, where));
  } else if (type == "Metaspace") {
    to.push_back(make_metaspace(config, where));
  } else if (auto made = make_class_pre_tokenizer(type, config, where)) {
    to.push_back(std::move(made));
  } else {
    fail_type(where, type, kPreTokenizerTypes);
  }
}

}  // namespace

void spell_bytes(Work& work) {
  work.rewrite([&](const Piece& piece, Aligned& to) {
    for (std::uint32_t at = piece.begin; at < piece.end; ++at)
      to.append(byte_characters()[static_cast<unsigned char>(work.text()[at])], work.origin(at, at + 1));
  });
}

PreTokenizers make_pre_tokenizers(const Json& config, const std::string& where) {
  PreTokenizers made;
  if (!config.is_null()) add(made.steps, config, where);
  if (!made.steps.empty() && dynamic_cast<const SpellBytes*>(made.steps.back().get())) {
    made.steps.pop_back();
    made.spells_bytes = true;
  }
  return made;
}

}  // namespace hone::text
