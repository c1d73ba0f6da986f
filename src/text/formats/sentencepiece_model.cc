// Reading SentencePiece's protocol buffer, and what is refused of it.
#include "text/formats/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/strings.h"
#include "text/formats/base64.h"
#include "text/formats/protobuf.h"
#include "text/parts/component.h"
#include "text/parts/normalizers.h"
#include "text/parts/vocabulary.h"

namespace hone::text {
namespace {

constexpr std::size_t kLongestPiece = 1024;  // bytes; merges are looked for at every place of a piece

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

Spm read_fields(std::string_view bytes, const std::string& where) {
  Spm spm;
  each_field(bytes, where, [&](const ProtoField& f) {
    if (f.number == 1) spm.pieces.push_back(read_piece(f.bytes, where));
    if (f.number == 2)
      each_field(f.bytes, where, [&](const ProtoField& t) {
        if (t.number == 3) spm.kind = t.value;
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

void check_pieces(Spm& spm, const std::string& where) {
  Vocabulary seen;
  if (spm.pieces.size() >= static_cast<std::size_t>(kMaxId)) fail_at(where, "too many pieces");
  for (std::size_t i = 0; i < spm.pieces.size(); ++i) {
    const SpmPiece& piece = spm.pieces[i];
    if (!is_utf8(piece.text) || piece.text.empty() || piece.text.size() > kLongestPiece)
      fail_at(where, fmt::format("piece {} is empty, not UTF-8 or longer than {} bytes", i, kLongestPiece));
    if (!std::isfinite(piece.score)) fail_at(where, fmt::format("the score of piece {} is not finite", i));
    if (!seen.add(piece.text, static_cast<std::int32_t>(i)))
      fail_at(where, fmt::format("the piece {} is there twice", hone::quoted(piece.text)));
    if (piece.type == SpmPiece::kUnused)
      fail_at(where, fmt::format("piece {} is marked as unused, which a tokenizer.json cannot say", i));
    if (piece.type == SpmPiece::kUnknown && spm.unk_id >= 0)
      fail_at(where, fmt::format("pieces {} and {} are both for what is unknown", spm.unk_id, i));
    if (piece.type == SpmPiece::kUnknown) spm.unk_id = static_cast<std::int32_t>(i), spm.unk = piece.text;
  }
  if (spm.unk_id < 0) fail_at(where, "no piece for what is unknown");
}

// SentencePiece finds user-defined pieces before it normalizes a text, a tokenizer.json afterwards.
void check_user_pieces(const Spm& spm, const std::string& where) {
  std::vector<std::string_view> pieces;
  for (const SpmPiece& piece : spm.pieces)
    if (piece.type == SpmPiece::kUser) pieces.push_back(piece.text);
  std::vector<std::string> become = mapped(spm, pieces, where);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    // Marks that become blanks are marks again in the end, unless several blanks become one.
    if (!spm.squeezes) become[i] = replace_all(std::move(become[i]), " ", "\u2581");
    if (become[i] != pieces[i])
      fail_at(where, fmt::format("the user-defined piece {} is not as the model's own normalization writes it, {}: no "
                                 "tokenizer.json can find it",
                                 hone::quoted(pieces[i]), hone::quoted(become[i])));
  }
}

}  // namespace

Spm read_spm(std::string_view bytes, const std::string& where) {
  Spm spm = read_fields(bytes, where);
  if (spm.kind != Spm::kUnigram && spm.kind != Spm::kBpe && spm.kind != Spm::kChar)
    fail_at(where, fmt::format("got model type {}, expected 1 (Unigram), 2 (BPE) or 4 (characters)", spm.kind));
  if (spm.suffix || !spm.escapes) fail_at(where, "blanks at the end of words or not as U+2581 are not supported");
  check_pieces(spm, where);
  check_user_pieces(spm, where);
  return spm;
}

std::vector<std::string> mapped(const Spm& spm, const std::vector<std::string_view>& texts, const std::string& where) {
  std::vector<std::string> out(texts.begin(), texts.end());
  if (spm.charsmap.empty() || texts.empty()) return out;
  const Normalizers steps = make_normalizers(
      {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(spm.charsmap)}}, where + ": precompiled_charsmap");
  RegexScratch scratch;
  for (std::string& text : out) {
    Aligned aligned;
    aligned.append(text, Origin{});
    normalize(steps, aligned, scratch);
    text = aligned.text;
  }
  return out;
}

}  // namespace hone::text
