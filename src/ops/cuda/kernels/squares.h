// What kernels of attention's gradients share, which go by squares of 64 tokens times 64 others: how groups of four
// warps have such squares, whose tokens a block has, how others are copied ahead of those that compute, and where
// slopes are kept from one kernel for another.
#pragma once

#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/types.h"

constexpr int kSide = 64, kSquarePacks = kSide * 8;    // of a square of values
constexpr int kGroups = 2, kGroupThreads = 4 * kWarp;  // that compute; one more copies

// Rows of tokens' heads in memory.
template <class T>
struct Heads {
  const T* at;
  Int token, head;  // from one to the next
};

// How a grid is divided, by heads and tiles of own tokens.
struct Tiles {
  const int* ends;  // where documents begin, and the last one's end
  int documents;
  int heads, each, shared;  // own ones; other ones for each, or own ones for each other
  int times;                // so many own ones a block has, one after another
  int back, ahead;          // so many tokens an own one sees of others before and behind its place
};
// A block's own tokens: [first, first + kLines) of a document's, of heads from one on, and the others that any of them
// sees, of their heads.
struct OwnLines {
  int document, begin, count;
  int first, head;
  int from, to, other_head;
};
template <int kLines>
HONE_DEVICE OwnLines own_lines(const Tiles& a, bool last_first) {
  OwnLines own = {};
  const int in_row = a.heads / a.times;
  const int tiles = static_cast<int>(gridDim.x) / in_row, at = static_cast<int>(blockIdx.x) / in_row;
  const int tile = last_first ? tiles - 1 - at : at;
  own.head = static_cast<int>(blockIdx.x) % in_row * a.times;
  own.other_head = own.head / a.shared * a.each;
  own.document = group_of(tile, a.ends, a.documents, kLines);
  own.begin = a.ends[own.document], own.count = a.ends[own.document + 1] - own.begin;
  own.first = (tile - own.begin / kLines - own.document) * kLines;
  own.from = own.first > a.back ? (own.first - a.back) / kSide * kSide : 0;
  own.to = own.first + kLines + a.ahead;
  own.to = own.to < own.count ? own.to : own.count;
  return own;
}

// Slopes of squares that one kernel leaves in memory for another, for those in which a query may see a key: of each
// head of queries, by rows of 64 queries of a document.
struct Kept {
  unsigned* at;   // null: none are kept
  int in_head;    // squares that a head has room for
  int in_row;     // that a row of any document has at most
  bool triangle;  // row r of a document has r + 1 of them: queries see no key behind their own place
  int behind;     // squares that a row has before its own place, at most: where none has more, rows begin with key 0
};
// Whether any of 64 own tokens from one on may see any of 64 others, wherever their document ends.
HONE_DEVICE bool meet(int own, int other, int back, int ahead) {
  return other + kSide - 1 >= own - back && other <= own + kSide - 1 + ahead;
}
// A document's first square of a head. Its first row is the one that all before it, whose last rows are filled up,
// leave free. In a triangle rows have half of what the longest one has, on average, and no document's have more.
HONE_DEVICE int first_kept(const Kept& a, const OwnLines& own) {
  const int row = (own.begin + (kSide - 1) * own.document) / kSide;
  return a.triangle ? row * (a.in_row + 1) / 2 : row * a.in_row;
}
// From a document's first square to that of 64 queries and 64 keys from these on.
HONE_DEVICE int kept_place(const Kept& a, int query, int key) {
  const unsigned row = static_cast<unsigned>(query) / kSide, behind = static_cast<unsigned>(a.behind);
  const unsigned before =
      a.triangle ? row * (row + 1) / 2 : row * static_cast<unsigned>(a.in_row) - (row > behind ? row - behind : 0);
  return static_cast<int>(before + static_cast<unsigned>(key) / kSide);
}
HONE_DEVICE unsigned* words_of(const Kept& a, int square) {
  return a.at + static_cast<Int>(square) * (kSquarePacks * 4);
}

// A thread's scores, slopes or sums of a square.
struct Square {
  float at[32];
};
// As a left factor, by 16 others.
struct SquareWords {
  unsigned at[kSide / 16][4];
};
// A thread's place in its group's square.
struct OwnPlace {
  int row, column;
};
HONE_DEVICE OwnPlace own_place() {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return {static_cast<int>(threadIdx.x) / kWarp % 4 * 16 + lane / 4, lane % 4 * 2};
}

// A square that is kept, of a group whose own tokens are keys: word by word as its threads have it as a left factor,
// those of 16 queries after those of the 16 before.
HONE_DEVICE void keep_square(const SquareWords& x, unsigned* to) {
  to += static_cast<int>(threadIdx.x) % kGroupThreads * 4;
  HONE_UNROLL for (int i = 0; i < kSide / 16; ++i) {
    Pack<unsigned, 4> words = {};
    HONE_UNROLL for (int w = 0; w < 4; ++w) words.at[w] = x.at[i][w];
    store_for_later(to, i * kGroupThreads, words);
  }
}
// The same as a left factor of a group whose own tokens are queries, 16 of which each warp has. Of a warp of keys come
// four blocks of 8 x 8: queries 0 to 7 of keys 0 to 7 and 8 to 15, then queries 8 to 15.
HONE_DEVICE void turn_square(SquareWords& to, const unsigned* kept) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp % 4;
  HONE_UNROLL for (int i = 0; i < kSide / 16; ++i) {
    const Pack<unsigned, 4> words = load<4>(kept, (4 * warp + i) * kWarp + lane);
    HONE_UNROLL for (int w = 0; w < 4; ++w) to.at[i][w] = turned_block(words.at[w % 2 * 2 + w / 2]);
  }
}

// sum += left other; a group of its own.
template <int kSquares, class T>
HONE_DEVICE void ask_for_sum(T, Square (&sum)[kSquares], const SquareWords& left, const Pack<T, 8>* other) {
  const unsigned right = place_of_matrix(shared_address(other));
  begin_group();
  HONE_UNROLL for (int s = 0; s < kSquares; ++s)
    HONE_UNROLL for (int i = 0; i < kSide / 16; ++i)
      group_multiply<true>(
          T{}, sum[s].at, left.at[i],
          matrix_at(right + static_cast<unsigned>(s * kSquarePacks) + bytes_to_depth_turned(16 * i) / 16));
  commit_group();
}
HONE_DEVICE void hold_words(SquareWords& x) {
  HONE_UNROLL for (int i = 0; i < kSide / 16; ++i) hold(x.at[i]);
}

template <int kSquares, class T>
HONE_DEVICE void write_rows(T, const Square (&sum)[kSquares], float scale, T* to, Int pitch, int rows, int packs) {
  const OwnPlace place = own_place();
  HONE_UNROLL for (int s = 0; s < kSquares; ++s)
    HONE_UNROLL for (int quad = 0; quad < 8; ++quad)
      HONE_UNROLL for (int half = 0; half < 2; ++half) {
        const int row = place.row + 8 * half, column = s * kSide + 8 * quad + place.column;
        if (row >= rows || column >= packs * 8) continue;
        Pack<T, 2> pair = {};
        HONE_UNROLL for (int c = 0; c < 2; ++c) pair.at[c] = rounded<T>(sum[s].at[4 * quad + 2 * half + c] * scale);
        store<2>(to + row * pitch + column, 0, pair);
      }
}

// Which block of the room is next, and whether it is its odd time.
struct Turn {
  int block, odd;
};
template <class Room>
HONE_DEVICE Turn next_of(const Room&, const Turn& turn) {
  const bool over = turn.block + 1 == Room::kBlocks;
  return {over ? 0 : turn.block + 1, over ? 1 - turn.odd : turn.odd};
}
// Of a block of the room: it is there; it has been read.
template <class Room>
HONE_DEVICE unsigned there_gate(const Room& room, const Turn& turn) {
  return room.gates + static_cast<unsigned>(8 * turn.block);
}
template <class Room>
HONE_DEVICE unsigned read_gate(const Room& room, const Turn& turn) {
  return room.gates + static_cast<unsigned>(8 * (Room::kBlocks + turn.block));
}
// One thread's; then the room's other gates, and a barrier.
template <class Room>
HONE_DEVICE void make_gates_of_blocks(const Room& room) {
  for (int i = 0; i < Room::kBlocks; ++i) {
    make_gate(there_gate(room, {i, 0}), kGroupThreads);
    make_gate(read_gate(room, {i, 0}), kGroups * 4);  // warps
  }
}
template <class Room>
HONE_DEVICE void say_read(const Room& room, const Turn& turn) {
  __syncwarp();
  if (threadIdx.x % kWarp == 0) arrive(read_gate(room, turn));
}

// A thread's packs of 64 rows: one of some rows, kApart from one another.
template <int kSquares>
struct Copying {
  static constexpr int kInRow = 8 * kSquares, kApart = kGroupThreads / kInRow;
  int row, pack, place;
};
template <int kSquares>
HONE_DEVICE Copying<kSquares> begin_copying() {
  constexpr int kInRow = Copying<kSquares>::kInRow;
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads, row = thread / kInRow, pack = thread % kInRow;
  return {row, pack, pack / 8 * kSquarePacks + place_in_rows(row, pack % 8)};
}
// Rows behind the last of `count` and packs behind a row's become zeros. from: a thread's pack of its first row.
template <int kSquares, class T>
HONE_DEVICE void copy_rows(const Copying<kSquares>& copying, Pack<T, 8>* to, const T* from, Int pitch, int count,
                           int packs) {
  constexpr int kApart = Copying<kSquares>::kApart;
  HONE_UNROLL for (int i = 0; i < kSide / kApart; ++i)
    copy_ahead(to + copying.place + i * kApart * 8, from + i * kApart * pitch,
               copying.pack < packs && copying.row + i * kApart < count);
}
template <int kSquares, class T>
HONE_DEVICE const T* first_pack(const Copying<kSquares>& copying, const Heads<T>& x, Int token, int head) {
  return x.at + (token + copying.row) * x.token + head * x.head + copying.pack * 8;
}
