// The text under work: what it has become so far, which input bytes each byte came from, and how it is cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/error.h"
#include "text/unicode/unicode.h"

namespace hone::text {

// Bytes [begin, end) of the input.
struct Origin {
  std::uint32_t begin = 0, end = 0;
};

// A text that knows where it came from. All bytes of a character share their origin; origins never go backwards.
struct Aligned {
  std::string text;
  std::vector<Origin> origins;    // one per byte
  std::uint32_t base = 0;         // where this part begins in the input: the origin of what is put before everything
  std::size_t limit = 4'000'000;  // bytes that `text` may grow to: a tokenizer file may be out for our memory

  void check_size() const;  // throws Error(data)

  void append(std::string_view bytes, Origin origin) {
    text += bytes;
    origins.insert(origins.end(), bytes.size(), origin);
  }
  void append(char32_t c, Origin origin) {
    const std::size_t before = text.size();
    append_utf8(text, c);
    origins.insert(origins.end(), text.size() - before, origin);
  }
  void append(const Aligned& from, std::size_t begin, std::size_t end) {
    text.append(from.text, begin, end - begin);
    origins.insert(origins.end(), from.origins.begin() + begin, from.origins.begin() + end);
  }
  // The origin of something inserted at byte `at`: that of the character before.
  Origin origin_before(std::size_t at) const { return at == 0 ? Origin{base, base} : origins[at - 1]; }
};

// A part of the text under work; id >= 0: an added token, not to be cut or changed any more.
struct Piece {
  std::uint32_t begin = 0, end = 0;
  std::int32_t id = -1;
};

// What normalizers and pre-tokenizers hand on. As long as nothing was rewritten, `text` is the input itself.
class Work {
 public:
  std::vector<Piece> pieces;

  void start(std::string_view input);
  std::string_view input() const { return input_; }
  std::string_view text() const { return rewritten_ ? std::string_view(now_.text) : input_; }
  std::string_view text(const Piece& piece) const { return text().substr(piece.begin, piece.end - piece.begin); }
  // The input bytes that text() [begin, end) came from, widened to whole characters. REQUIRES: begin < end.
  Origin origin(std::size_t begin, std::size_t end) const {
    if (rewritten_) return {now_.origins[begin].begin, now_.origins[end - 1].end};
    while (begin > 0 && is_continuation(input_[begin])) --begin;
    while (end < input_.size() && is_continuation(input_[end])) ++end;
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  }
  // Copies a part of text() with its origins.
  void copy_to(Aligned& to, const Piece& piece) const;

  // Replaces the text: change(piece, to) appends to `to` what an unfinished piece becomes; added tokens stay.
  template <class Change>
  void rewrite(Change&& change) {
    spare_.text.clear();
    spare_.origins.clear();
    spare_.limit = limit();
    for (Piece& piece : pieces) {
      const auto begin = static_cast<std::uint32_t>(spare_.text.size());
      if (piece.id >= 0)
        copy_to(spare_, piece);
      else
        change(piece, spare_);
      spare_.check_size();
      piece.begin = begin;
      piece.end = static_cast<std::uint32_t>(spare_.text.size());
    }
    std::swap(now_, spare_);
    rewritten_ = true;
  }
  // Cuts: cut(piece, out) pushes the parts of an unfinished piece; empty ones are dropped.
  template <class Cut>
  void split(Cut&& cut) {
    spare_pieces_.clear();
    for (const Piece& piece : pieces) {
      if (piece.id >= 0)
        spare_pieces_.push_back(piece);
      else
        cut(piece, spare_pieces_);
    }
    std::erase_if(spare_pieces_, [](const Piece& p) { return p.begin == p.end; });
    pieces.swap(spare_pieces_);
  }
  // Bytes that the text may grow to: no tokenizer needs more than 32 times the input.
  std::size_t limit() const { return std::max<std::size_t>(4'000'000, 32 * input_.size()); }

 private:
  std::string_view input_;
  bool rewritten_ = false;
  Aligned now_, spare_;
  std::vector<Piece> spare_pieces_;
};

}  // namespace hone::text
