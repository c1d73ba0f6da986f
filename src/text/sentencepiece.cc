// SentencePiece models: what their normaliser and their model do, in the words of tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/strings.h"
#include "text/base64.h"
#include "text/component.h"
#include "text/conversion.h"
#include "text/protobuf.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace hone::text {
namespace {

constexpr std::string_view kMark = "\u2581";
constexpr std::size_t kLongestPiece = 1024;  // bytes; merges are looked for at every place of a piece

enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };

struct SpmPiece {
  std::string_view text;
  float score = 0;
  int type = kNormal;
};

struct Spm {
  std::vector<SpmPiece> pieces;
  std::uint64_t model_type = 1;
  bool suffix = false, byte_fallback = false, dummy_prefix = true, squeezes = true, escapes = true;
  std::string_view charsmap;
  std::int32_t unk_id = -1;
  std::string unk, bos = "<s>", eos = "</s>", pad = "<pad>";
};

template <class Each>
void each_field(std::string_view bytes, const std::string& where, Each&& each) {
  ProtoReader reader(bytes);
  while (const auto field = reader.next()) each(*field);
  if (reader.failed()) fail_at(where, "not a SentencePiece model: its bytes are damaged");
}

SpmPiece read_piece(std::string_view bytes, const std::string& where) {
  SpmPiece piece;
  each_field(bytes, where, [&](const ProtoField& f) {
    if (f.number == 1) piece.text = f.bytes;
    if (f.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(f.value));
    if (f.number == 3) piece.type = static_cast<int>(std::min<std::uint64_t>(f.value, 100));
  });
  return piece;
}

Spm read_spm(std::string_view bytes, const std::string& where) {
  Spm spm;
  each_field(bytes, where, [&](const ProtoField& f) {
    if (f.number == 1) spm.pieces.push_back(read_piece(f.bytes, where));
    if (f.number == 2)
      each_field(f.bytes, where, [&](const ProtoField& t) {
        if (t.number == 3) spm.model_type = t.value;
        if (t.number == 24) spm.suffix = t.value;
        if (t.number == 35) spm.byte_fallback = t.value;
        if (t.number == 46) spm.bos = t.bytes;
        if (t.number == 47) spm.eos = t.bytes;
        if (t.number == 48) spm.pad = t.bytes;
      });
    if (f.number == 3)
      each_field(f.bytes, where, [&](const ProtoField& n) {
        if (n.number == 2) spm.charsmap = n.bytes;
        if (n.number == 3) spm.dummy_prefix = n.value;
        if (n.number == 4) spm.squeezes = n.value;
        if (n.number == 5) spm.escapes = n.value;
      });
  });
  return spm;
}

void check(Spm& spm, const std::string& where) {
  if (spm.model_type != 1 && spm.model_type != 2)
    fail_at(where, fmt::format("got model type {}, expected 1 (Unigram) or 2 (BPE)", spm.model_type));
  if (spm.suffix || !spm.escapes) fail_at(where, "blanks at the end of words or not as U+2581 are not supported");
  if (spm.pieces.size() >= static_cast<std::size_t>(kMaxId)) fail_at(where, "too many pieces");
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    const SpmPiece& piece = spm.pieces[i];
    if (!is_utf8(piece.text) || piece.text.empty() || piece.text.size() > kLongestPiece)
      fail_at(where, fmt::format("piece {} is empty, not UTF-8 or longer than {} bytes", i, kLongestPiece));
    if (!std::isfinite(piece.score)) fail_at(where, fmt::format("the score of piece {} is not finite", i));
    if (piece.type == kUnknown) spm.unk_id = static_cast<std::int32_t>(i), spm.unk = piece.text;
  }
  if (spm.unk_id < 0) fail_at(where, "no piece for what is unknown");
}

struct Merge {
  float score;
  std::int32_t left, right;
  std::size_t left_size, right_size;  // characters
};

// Every cut of a piece into two pieces is a merge; higher scores come first, then longer parts, as transformers has it.
std::vector<Merge> find_merges(const Spm& spm, const Vocabulary& vocabulary) {
  std::vector<Merge> merges;
  for (const SpmPiece& piece : spm.pieces) {
    const std::size_t first = merges.size();
    std::size_t characters = 0, left_size = 0;
    for (const char c : piece.text) characters += !is_continuation(c);
    for (std::size_t at = utf8_length(piece.text[0]); at < piece.text.size(); at += utf8_length(piece.text[at])) {
      ++left_size;
      const std::int32_t left = vocabulary.find(piece.text.substr(0, at)),
                         right = vocabulary.find(piece.text.substr(at));
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

std::string bpe_text(const Spm& spm, const std::string& where) {
  Vocabulary vocabulary;
  std::string text = R"({"type":"BPE","dropout":null,"unk_token":)";
  append_json_string(text, spm.unk);
  text += fmt::format(
      R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":{},"ignore_merges":false,"vocab":{{)",
      spm.byte_fallback);
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    if (!vocabulary.add(spm.pieces[i].text, static_cast<std::int32_t>(i)))
      fail_at(where, fmt::format("the piece {} is there twice", quoted(spm.pieces[i].text)));
    if (i > 0) text += ',';
    append_json_string(text, spm.pieces[i].text);
    text += fmt::format(":{}", i);
  }
  text += R"(},"merges":[)";
  bool first = true;
  for (const Merge& m : find_merges(spm, vocabulary)) {
    text += first ? "[" : ",[";
    first = false;
    append_json_string(text, vocabulary.token(m.left));
    text += ',';
    append_json_string(text, vocabulary.token(m.right));
    text += ']';
  }
  return text + "]}";
}

std::string unigram_text(const Spm& spm) {
  std::string text =
      fmt::format(R"({{"type":"Unigram","unk_id":{},"byte_fallback":{},"vocab":[)", spm.unk_id, spm.byte_fallback);
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    if (i > 0) text += ',';
    text += '[';
    append_json_string(text, spm.pieces[i].text);
    text += fmt::format(",{}]", static_cast<double>(spm.pieces[i].score));
  }
  return text + "]}";
}

OrderedJson replace(const char* kind, std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

OrderedJson sequence(const char* name, std::vector<OrderedJson> items) {
  return {{"type", "Sequence"}, {name, std::move(items)}};
}

void describe(const Spm& spm, TokenizerParts& parts) {
  std::vector<OrderedJson> steps;
  if (!spm.charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(spm.charsmap)}});
  if (spm.squeezes) {
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    steps.push_back(replace("Regex", " {2,}", " "));
  }
  if (spm.dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  steps.push_back(replace("String", " ", kMark));
  parts.normalizer = sequence("normalizers", std::move(steps));
  // Words of Unigram begin with the mark; BPE is cut where no merge reaches across anyway.
  if (spm.model_type == 1)
    parts.pre_tokenizer = {
        {"type", "Split"}, {"pattern", {{"String", kMark}}}, {"behavior", "MergedWithNext"}, {"invert", false}};
  std::vector<OrderedJson> back = {replace("String", kMark, " ")};
  if (spm.byte_fallback) back.push_back({{"type", "ByteFallback"}});
  back.push_back({{"type", "Fuse"}});
  if (spm.dummy_prefix) back.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  parts.decoder = sequence("decoders", std::move(back));
}

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  ProtoReader reader(bytes);
  const auto first = reader.next();
  return first && first->number == 1 && !first->bytes.empty();
}

Files sentencepiece_files(std::string_view bytes, const std::string& where) {
  Spm spm = read_spm(bytes, where);
  check(spm, where);
  TokenizerParts parts;
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    const SpmPiece& piece = spm.pieces[i];
    if (piece.type == kUnknown || piece.type == kControl || piece.type == kUser)
      parts.added.push_back({static_cast<std::int32_t>(i), std::string(piece.text), piece.type != kUser});
    if (piece.type != kControl) continue;
    if (piece.text == spm.bos) config["bos_token"] = spm.bos;
    if (piece.text == spm.eos) config["eos_token"] = spm.eos;
    if (piece.text == spm.pad) config["pad_token"] = spm.pad;
  }
  config["unk_token"] = spm.unk;
  config["clean_up_tokenization_spaces"] = false;
  describe(spm, parts);
  const std::string model = spm.model_type == 2 ? bpe_text(spm, where) : unigram_text(spm);
  return {{"tokenizer.json", tokenizer_json_text(parts, model)}, {"tokenizer_config.json", config.dump(2)}};
}

}  // namespace hone::text
