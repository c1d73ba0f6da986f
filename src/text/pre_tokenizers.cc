// ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation and Sequence.
#include "text/pre_tokenizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/component.h"
#include "text/pattern.h"

namespace hone::text {
namespace {

// A part of a piece that the pattern matched, or what lies between two matches.
struct Part {
  std::uint32_t begin, end;
  bool match;
};

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
constexpr std::array<std::string_view, 5> kBehaviors = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                        "Contiguous"};

Behavior get_behavior(const Json& config, const std::string& where, std::optional<std::string> fallback = {}) {
  const std::string name = get_string(config, "behavior", where, std::move(fallback));
  const auto found = std::find(kBehaviors.begin(), kBehaviors.end(), name);
  if (found == kBehaviors.end())
    fail_at(where + ".behavior",
            fmt::format("got {}, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                        hone::quoted(name)));
  return static_cast<Behavior>(found - kBehaviors.begin());
}

// A match joins the part before it, unless that was a match too.
void merge_with_previous(const std::vector<Part>& parts, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (const Part& p : parts) {
    if (p.match && !previous && out.size() > first)
      out.back().end = p.end;
    else
      out.push_back({p.begin, p.end, -1});
    previous = p.match;
  }
}

void merge_with_next(const std::vector<Part>& parts, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
    if (p->match && !previous && out.size() > first)
      out.back().begin = p->begin;
    else
      out.push_back({p->begin, p->end, -1});
    previous = p->match;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

void join_equals(const std::vector<Part>& parts, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (const Part& p : parts) {
    if (p.match == previous && out.size() > first)
      out.back().end = p.end;
    else
      out.push_back({p.begin, p.end, -1});
    previous = p.match;
  }
}

void cut(const std::vector<Part>& parts, Behavior behavior, std::vector<Piece>& out) {
  switch (behavior) {
    case Behavior::merged_with_previous:
      return merge_with_previous(parts, out);
    case Behavior::merged_with_next:
      return merge_with_next(parts, out);
    case Behavior::contiguous:
      return join_equals(parts, out);
    case Behavior::removed:
    case Behavior::isolated:
      for (const Part& p : parts)
        if (behavior == Behavior::isolated || !p.match) out.push_back({p.begin, p.end, -1});
  }
}

void add_match(std::vector<Part>& parts, std::uint32_t& done, std::uint32_t begin, std::uint32_t end) {
  if (done != begin) parts.push_back({done, begin, false});
  parts.push_back({begin, end, true});
  done = end;
}

// Parts of a piece by a predicate on characters: each character that holds is a match of its own.
template <class Holds>
void parts_by_character(std::string_view text, const Piece& piece, Holds&& holds, std::vector<Part>& parts) {
  parts.clear();
  std::uint32_t done = piece.begin;
  for (std::size_t at = piece.begin; at < piece.end;) {
    const auto begin = static_cast<std::uint32_t>(at);
    if (holds(next_code_point(text, at))) add_match(parts, done, begin, static_cast<std::uint32_t>(at));
  }
  if (done != piece.end) parts.push_back({done, piece.end, false});
}

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

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(const Json& config, const std::string& where) : split_(get_bool(config, "split", where, true)) {
    append_utf8(mark_, get_char(config, "replacement", where));
    const bool prefix = get_bool(config, "add_prefix_space", where, true);
    const std::string scheme = get_string(config, "prepend_scheme", where, prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      fail_at(where + ".prepend_scheme", fmt::format("got {}, expected always, first or never", hone::quoted(scheme)));
    if (!prefix && scheme != "never") fail_at(where, "add_prefix_space is false, but prepend_scheme is not never");
    scheme_ = scheme[0];
  }

  void apply(Work& work, RegexScratch&) const override {
    work.rewrite([&](const Piece& piece, Aligned& to) { mark_spaces(work, piece, to); });
    if (!split_) return;
    std::vector<Part> parts;
    work.split([&](const Piece& piece, std::vector<Piece>& out) {
      parts.clear();
      std::uint32_t done = piece.begin;
      const std::string_view text = work.text(piece);
      for (std::size_t at = text.find(mark_); at != std::string_view::npos; at = text.find(mark_, at + mark_.size())) {
        const auto begin = piece.begin + static_cast<std::uint32_t>(at);
        add_match(parts, done, begin, begin + static_cast<std::uint32_t>(mark_.size()));
      }
      if (done != piece.end) parts.push_back({done, piece.end, false});
      merge_with_next(parts, out);
    });
  }

 private:
  void mark_spaces(const Work& work, const Piece& piece, Aligned& to) const {
    const std::string_view text = work.text();
    const Origin first = work.origin(piece.begin, piece.begin + 1);
    const bool marked = text[piece.begin] == ' ' || work.text(piece).starts_with(mark_);
    if (!marked && (scheme_ == 'a' || (scheme_ == 'f' && first.begin == 0))) to.append(mark_, first);
    std::uint32_t done = piece.begin;
    const auto copy = [&](std::uint32_t end) {
      if (done < end) work.copy_to(to, {done, end, -1});
    };
    for (std::uint32_t at = piece.begin; at < piece.end; ++at) {
      if (text[at] != ' ') continue;
      copy(at);
      to.append(mark_, work.origin(at, at + 1));
      done = at + 1;
    }
    copy(piece.end);
  }

  std::string mark_;
  bool split_;
  char scheme_;  // first letter of always, first, never
};

constexpr std::string_view kTypes =
    "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation, Sequence";
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
    to.push_back(std::make_unique<Metaspace>(config, where));
  } else if (type == "Whitespace") {
    to.push_back(std::make_unique<Whitespace>());
  } else if (type == "WhitespaceSplit") {
    to.push_back(std::make_unique<ClassSplit>(kSpace, Behavior::removed));
  } else if (type == "Digits") {
    const bool each = get_bool(config, "individual_digits", where);
    to.push_back(std::make_unique<ClassSplit>(kDigitCut, each ? Behavior::isolated : Behavior::contiguous));
  } else if (type == "Punctuation") {
    to.push_back(std::make_unique<ClassSplit>(kPunctuationCut, get_behavior(config, where, "Isolated")));
  } else {
    fail_type(where, type, kTypes);
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
