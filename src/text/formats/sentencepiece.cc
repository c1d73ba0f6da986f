// SentencePiece models: what their normaliser and their model do, in the words of tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <tuple>

#include "text/formats/base64.h"
#include "text/formats/conversion.h"
#include "text/formats/protobuf.h"
#include "text/formats/sentencepiece_model.h"
#include "text/parts/bpe_merge.h"
#include "text/parts/component.h"
#include "text/parts/vocabulary.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

constexpr std::string_view kMark = "\u2581";

struct Merge {
  float score;
  std::int32_t left, right;
  std::size_t left_size, right_size;  // characters
};

// Every cut of a piece into two pieces is a merge; higher scores come first, then longer parts, as transformers has it.
// Only normal pieces: user-defined ones are never merged with others, and bytes and control pieces are no text.
std::vector<Merge> find_merges(const Spm& spm, const Vocabulary& vocabulary) {
  std::vector<Merge> merges;
  const auto part = [&](std::string_view text) {
    const std::int32_t id = vocabulary.find(text);
    return id >= 0 && spm.pieces[static_cast<std::size_t>(id)].type == SpmPiece::kNormal ? id : -1;
  };
  for (const SpmPiece& piece : spm.pieces) {
    if (piece.type != SpmPiece::kNormal) continue;
    const std::size_t first = merges.size();
    std::size_t characters = 0, left_size = 0;
    for (const char c : piece.text) characters += !is_continuation(c);
    for (std::size_t at = utf8_length(piece.text[0]); at < piece.text.size(); at += utf8_length(piece.text[at])) {
      ++left_size;
      const std::int32_t left = part(piece.text.substr(0, at)), right = part(piece.text.substr(at));
      if (left >= 0 && right >= 0) merges.push_back({piece.score, left, right, left_size, characters - left_size});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) { return std::tuple(a.left, a.right) < std::tuple(b.left, b.right); });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(a.score, a.left_size, a.right_size) > std::tuple(b.score, b.left_size, b.right_size);
  });
  return merges;
}

// The first normal piece that its own characters do not merge to; -1: none.
std::int64_t find_unmerged(const Spm& spm, const Vocabulary& vocabulary, const std::vector<Merge>& merges) {
  MergeTable table;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& m = merges[rank];
    const std::string whole = std::string(vocabulary.token(m.left)) + std::string(vocabulary.token(m.right));
    table.set(m.left, m.right, static_cast<std::uint32_t>(rank), vocabulary.find(whole));
  }
  Merger merger;
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    const std::string_view text = spm.pieces[i].text;
    if (spm.pieces[i].type != SpmPiece::kNormal || utf8_length(text[0]) == text.size()) continue;
    std::vector<Symbol> symbols;
    for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
      const std::string_view one = text.substr(at, utf8_length(text[at]));
      symbols.push_back({vocabulary.find(one), static_cast<std::uint32_t>(one.size())});
    }
    merger.merge(table, symbols);
    if (symbols.size() != 1) return static_cast<std::int64_t>(i);
  }
  return -1;
}

// Whether a user-defined piece has several characters: BPE then gives words that are pieces without merging.
bool has_long_user_piece(const Spm& spm) {
  return std::any_of(spm.pieces.begin(), spm.pieces.end(), [](const SpmPiece& piece) {
    return piece.type == SpmPiece::kUser && utf8_length(piece.text[0]) != piece.text.size();
  });
}

// A model of characters is one without merges.
std::string bpe_text(const Spm& spm, const std::string& where) {
  Vocabulary vocabulary;
  const bool whole_words = has_long_user_piece(spm);
  std::string text = R"({"type":"BPE","dropout":null,"unk_token":)";
  append_json_string(text, spm.unk);
  text += fmt::format(
      R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":{},"ignore_merges":{},"vocab":{{)",
      spm.byte_fallback, whole_words);
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    vocabulary.add(spm.pieces[i].text, static_cast<std::int32_t>(i));
    if (i > 0) text += ',';
    append_json_string(text, spm.pieces[i].text);
    text += fmt::format(":{}", i);
  }
  text += R"(},"merges":[)";
  const std::vector<Merge> merges = spm.kind == Spm::kChar ? std::vector<Merge>() : find_merges(spm, vocabulary);
  if (const std::int64_t i = whole_words ? find_unmerged(spm, vocabulary, merges) : -1; i >= 0)
    fail_at(where,
            fmt::format("piece {} is not what its characters merge to; no tokenizer.json with user-defined pieces "
                        "can say so",
                        i));
  bool first = true;
  for (const Merge& m : merges) {
    text += first ? "[" : ",[";
    first = false;
    append_json_string(text, vocabulary.token(m.left));
    text += ',';
    append_json_string(text, vocabulary.token(m.right));
    text += ']';
  }
  return text + "]}";
}

// What SentencePiece gives a user-defined piece of `size` bytes instead of its score, so that it is always chosen. As a
// float like the other scores: their sums in fp64 are exact, and what is equal stays equal.
double user_score(const Spm& spm, std::size_t size) {
  float highest = FLT_MIN;
  for (const SpmPiece& piece : spm.pieces)
    if (piece.type == SpmPiece::kNormal) highest = std::max(highest, piece.score);
  return static_cast<double>(static_cast<float>(size) * highest) - static_cast<double>(0.1F);
}

std::string unigram_text(const Spm& spm) {
  std::string text =
      fmt::format(R"({{"type":"Unigram","unk_id":{},"byte_fallback":{},"vocab":[)", spm.unk_id, spm.byte_fallback);
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    const SpmPiece& piece = spm.pieces[i];
    if (i > 0) text += ',';
    text += '[';
    append_json_string(text, piece.text);
    const double score =
        piece.type == SpmPiece::kUser ? user_score(spm, piece.text.size()) : static_cast<double>(piece.score);
    text += fmt::format(",{}]", score);
  }
  return text + "]}";
}

OrderedJson replace(const char* kind, std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

OrderedJson sequence(const char* name, std::vector<OrderedJson> items) {
  return {{"type", "Sequence"}, {name, std::move(items)}};
}

OrderedJson normalizer_of(const Spm& spm, const std::string& where) {
  std::vector<OrderedJson> steps;
  const auto put_prefix = [&](std::string_view prefix) {
    if (spm.dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", prefix}});
  };
  // A text of which normalization leaves nothing has the prefix all the same, unless blanks at its end are taken away.
  if (!spm.squeezes) put_prefix(" ");
  if (!spm.charsmap.empty()) {
    // The library's Precompiled takes CR LF for one character: one blank where SentencePiece has two.
    const std::vector<std::string> ends = mapped(spm, {"\r", "\n", "\r\n"}, where);
    if (ends[0] == ends[1] && ends[2] != ends[0] + ends[1]) steps.push_back(replace("String", "\r\n", "\n\n"));
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(spm.charsmap)}});
  }
  if (spm.squeezes) {
    steps.push_back(replace("Regex", "\\A +", ""));
    steps.push_back(replace("Regex", " {2,}", " "));
    put_prefix(kMark);
  }
  steps.push_back(replace("String", " ", kMark));
  if (spm.squeezes) steps.push_back(replace("Regex", std::string(kMark) + "+\\z", ""));
  return sequence("normalizers", std::move(steps));
}

// Whether words, cut before each mark, can be looked at one by one: no piece reaches across, and none is unknown.
bool is_cut_at_marks(const Spm& spm) {
  bool has_mark = false;
  for (const SpmPiece& piece : spm.pieces) {
    if (piece.type != SpmPiece::kNormal && piece.type != SpmPiece::kUser) continue;
    has_mark = has_mark || piece.text == kMark;
    if (piece.text.substr(1).find(kMark) != std::string_view::npos) return false;
  }
  return has_mark;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Finds the longest user-defined piece at each place.
std::string user_pattern(const Spm& spm) {
  std::vector<std::string_view> pieces;
  for (const SpmPiece& piece : spm.pieces)
    if (piece.type == SpmPiece::kUser) pieces.push_back(piece.text);
  std::stable_sort(pieces.begin(), pieces.end(), [](auto a, auto b) { return a.size() > b.size(); });
  std::string pattern;
  for (const std::string_view piece : pieces) pattern += (pattern.empty() ? "" : "|") + escaped(piece);
  return pattern;
}

OrderedJson split(const char* kind, std::string_view pattern, const char* behavior) {
  return {{"type", "Split"}, {"pattern", {{kind, pattern}}}, {"behavior", behavior}, {"invert", false}};
}

// Whether a text like "<0x41>" could come out as that byte: where words are looked up whole, unless they are cut behind
// the "<". That changes nothing else if no piece reaches across.
bool cuts_byte_names(const Spm& spm) {
  if (!spm.byte_fallback || (spm.kind != Spm::kUnigram && !has_long_user_piece(spm))) return false;
  return std::none_of(spm.pieces.begin(), spm.pieces.end(), [](const SpmPiece& piece) {
    const bool is_text = piece.type == SpmPiece::kNormal || piece.type == SpmPiece::kUser;
    return is_text && piece.text.find("<0") != std::string_view::npos;
  });
}

// Unigram finds user-defined pieces by their scores; the others merge what lies between them only.
OrderedJson pre_tokenizer_of(const Spm& spm) {
  std::vector<OrderedJson> steps;
  const std::string pattern = user_pattern(spm);
  if (spm.kind == Spm::kUnigram && is_cut_at_marks(spm)) steps.push_back(split("String", kMark, "MergedWithNext"));
  if (spm.kind != Spm::kUnigram && !pattern.empty()) steps.push_back(split("Regex", pattern, "Isolated"));
  if (cuts_byte_names(spm)) steps.push_back(split("Regex", "<(?=0x[0-9A-F]{2}>)", "MergedWithPrevious"));
  if (steps.empty()) return nullptr;
  return steps.size() == 1 ? steps[0] : sequence("pretokenizers", std::move(steps));
}

OrderedJson decoder_of(const Spm& spm) {
  std::vector<OrderedJson> back = {replace("String", kMark, " ")};
  if (spm.byte_fallback) back.push_back({{"type", "ByteFallback"}});
  back.push_back({{"type", "Fuse"}});
  // Where runs of blanks became one, sentencepiece leaves out all that a text begins with, as of a `▁` written by hand.
  if (const int blanks = spm.squeezes ? INT32_MAX : spm.dummy_prefix ? 1 : 0)
    back.push_back({{"type", "Strip"}, {"content", " "}, {"start", blanks}, {"stop", 0}});
  return sequence("decoders", std::move(back));
}

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  ProtoReader reader(bytes);
  const auto first = reader.next();
  return first && first->number == 1 && !first->bytes.empty();
}

Files sentencepiece_files(std::string_view bytes, const std::string& where) {
  const Spm spm = read_spm(bytes, where);
  TokenizerParts parts;
  parts.normalizer = normalizer_of(spm, where);
  parts.pre_tokenizer = pre_tokenizer_of(spm);
  parts.decoder = decoder_of(spm);
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    const SpmPiece& piece = spm.pieces[i];
    if (piece.type == SpmPiece::kUnknown || piece.type == SpmPiece::kControl)
      parts.added.push_back({static_cast<std::int32_t>(i), std::string(piece.text), true});
    if (piece.type != SpmPiece::kControl) continue;
    if (piece.text == spm.bos) config["bos_token"] = spm.bos;
    if (piece.text == spm.eos) config["eos_token"] = spm.eos;
    if (piece.text == spm.pad) config["pad_token"] = spm.pad;
  }
  config["unk_token"] = spm.unk;
  config["clean_up_tokenization_spaces"] = false;
  const std::string model = spm.kind == Spm::kUnigram ? unigram_text(spm) : bpe_text(spm, where);
  return {{"tokenizer.json", tokenizer_json_text(parts, model)}, {"tokenizer_config.json", config.dump(2)}};
}

}  // namespace hone::text
