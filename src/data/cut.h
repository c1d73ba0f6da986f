// Documents -> pieces of at most max_length tokens -> rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/token_store.h"
#include "hone/data.h"

namespace hone::data {

// A record's document, or the part of one that belongs to this data set (a held-out split may cut a single long text in
// two), or all documents of its group.
struct Stretch {
  std::uint64_t begin = 0, end = 0;  // positions in the store
  std::int64_t doc = 0;  // the first one
};

// Part of a stretch that lies in one row: a document of its own for attention and positions. The label at its last
// position is the next token of the stretch if has_next, so that cutting loses no target.
struct Piece {
  std::uint64_t begin = 0;
  std::int64_t doc = 0;
  std::uint32_t length = 0;  // in the row
  bool has_next = false;
  bool has_first = false;  // the document's first token stands before `begin`, although what came between was cut
  std::uint64_t first_target() const { return begin + (has_first ? 0 : 1); }
  std::uint64_t end() const { return begin + length - (has_first ? 1 : 0); }
  std::uint64_t targets_end() const { return end() + (has_next ? 1 : 0); }
};

// Rows as runs of pieces.
struct RowTable {
  std::vector<Piece> pieces = {};
  std::vector<std::uint64_t> ends = {};  // row i holds pieces [ends[i - 1], ends[i])
  std::int64_t rows() const { return static_cast<std::int64_t>(ends.size()); }
  std::span<const Piece> row(std::int64_t row) const;
};

// Applies `overlong` to each stretch, cuts, drops what carries no loss, and packs; counts all of it in `report`. A
// labelled document is one piece, with what tokenising left of it. Of a group each document is one piece of at most
// max_length; they share a row, which is as long as that many documents may be; one that is left with nothing to learn,
// or as the other one is, drops the group. What is asked is one piece, whole.
// With concat, `split` is what the rows' ends do anyway. A document with a prompt is never split, nor laid over the end
// of a row: see `overlong` in docs/formats.md. bos: a token that a document keeps when its start is
// cut off, -1: none. name_of(doc) is for Overlong::error.
RowTable cut_and_pack(const TokenStore& store, const std::vector<Stretch>& stretches, const Dataset::Options& options,
                      std::int32_t bos, const std::function<std::string(std::int64_t)>& name_of, DataReport& report);

// Best-fit decreasing: the bin of each item, bins numbered by their first item. Deterministic, O(n log n).
// REQUIRES: each length <= capacity.
std::vector<std::uint32_t> best_fit(const std::vector<std::uint32_t>& lengths, std::uint32_t capacity);

}  // namespace hone::data
