// Gradients of attention's queries by slopes that attention_backward.cu has kept: one product for each square of
// queries and keys, in the order of keys.
//
//   of queries: slopes keys scale
//
// What the kernel waits for is memory: a square of slopes has 8 KiB, which arrive in the time in which tensor cores
// could make four such products of heads of 64 values. So a group copies some steps ahead, the keys of each for four
// rows of squares; two groups of four warps have two such rows each, and wait for their products at each step. Squares
// in which nobody sees anybody were not kept; they are zeros here.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/squares.h"
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kRowsOfGroup = 2, kSlopeRows = kGroups * kRowsOfGroup;

template <class T>
struct SlopesCall {
  Tiles tiles;
  Kept kept;
  Heads<T> keys;
  int packs;  // of a row
  float scale;
  T* to;
  Int pitch;  // from a token to the next
};

// The room: blocks of keys, each with its squares of slopes, one of each row, then gates.
template <int kOfSquares, int kOfBlocks, class T>
struct SlopesRoom {
  static constexpr int kSquares = kOfSquares, kBlocks = kOfBlocks;
  static constexpr int kPacks = (kSquares + kSlopeRows) * kSquarePacks;
  using Type = T;
  Pack<T, 8>* at;
  unsigned gates;
};
template <class Room>
HONE_DEVICE auto* keys_in(const Room& room, const Turn& turn) {
  return room.at + turn.block * Room::kPacks;
}
template <class Room>
HONE_DEVICE auto* slopes_in(const Room& room, const Turn& turn, int row) {
  return keys_in(room, turn) + (Room::kSquares + row) * kSquarePacks;
}

// What the copying group does.
template <class Room, class T>
HONE_DEVICE void copy_slopes(const SlopesCall<T>& a, const Room& room, const OwnLines& own) {
  const Copying<Room::kSquares> copying = begin_copying<Room::kSquares>();
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  Turn turn = {};
  for (int time = 0; time < a.tiles.times; ++time) {
    const int first = (own.head + time) * a.kept.in_head + first_kept(a.kept, own);
    for (int key = own.from; key < own.to; key += kSide) {
      pass(read_gate(room, turn), 1 - turn.odd);
      copy_rows(copying, keys_in(room, turn), first_pack(copying, a.keys, own.begin + key, own.other_head),
                a.keys.token, own.count - key, a.packs);
      HONE_UNROLL for (int row = 0; row < kSlopeRows; ++row) {
        const int query = own.first + row * kSide;
        const bool there = query < own.count && meet(query, key, a.tiles.back, a.tiles.ahead);
        const unsigned* from = words_of(a.kept, there ? first + kept_place(a.kept, query, key) : 0) + 4 * thread;
        HONE_UNROLL for (int i = 0; i < kSquarePacks; i += kGroupThreads)
          copy_ahead(slopes_in(room, turn, row) + thread + i, from + 4 * i, there);
      }
      arrive_with_copies(there_gate(room, turn));
      turn = next_of(room, turn);
    }
  }
}

// What a group of threads has in registers.
template <class Room>
struct SlopesGroup {
  Square sums[kRowsOfGroup][Room::kSquares];
  SquareWords words[kRowsOfGroup];
};
template <class Room>
HONE_DEVICE void hold_group(SlopesGroup<Room>& x) {
  HONE_UNROLL for (int row = 0; row < kRowsOfGroup; ++row) {
    hold_words(x.words[row]);
    HONE_UNROLL for (int s = 0; s < Room::kSquares; ++s) hold(x.sums[row][s].at);
  }
}

// What the other groups do. Their rows take turns: where few are there, both groups have some.
template <class Room, class T>
HONE_DEVICE void sum_slopes(const SlopesCall<T>& a, const Room& room, const OwnLines& own, int group) {
  Turn turn = {};
  for (int head = own.head; head < own.head + a.tiles.times; ++head) {
    SlopesGroup<Room> x = {};
    hold_group(x);
    for (int key = own.from; key < own.to; key += kSide) {
      pass(there_gate(room, turn), turn.odd);
      show_to_cores();
      HONE_UNROLL for (int row = 0; row < kRowsOfGroup; ++row) {
        const auto* slopes = slopes_in(room, turn, row * kGroups + group);
        turn_square(x.words[row], reinterpret_cast<const unsigned*>(slopes));
        ask_for_sum(T{}, x.sums[row], x.words[row], keys_in(room, turn));
      }
      wait_for_groups<0>();
      hold_group(x);
      say_read(room, turn);
      turn = next_of(room, turn);
    }
    HONE_UNROLL for (int row = 0; row < kRowsOfGroup; ++row) {
      const int query = own.first + (row * kGroups + group) * kSide;
      T* to = a.to + static_cast<Int>(own.begin + query) * a.pitch + static_cast<Int>(head) * a.packs * 8;
      write_rows(T{}, x.sums[row], a.scale, to, a.pitch, own.count - query, a.packs);
    }
  }
}

template <int kSquares, int kBlocks, class T>
HONE_DEVICE void backward_by_slopes(const SlopesCall<T>& a) {
  if constexpr (sizeof(T) == 2) {
    using Packed = Pack<T, 8>;
    using Room = SlopesRoom<kSquares, kBlocks, T>;
    HONE_SHARED_ROOM(Packed, whole_room);
    Packed* const at = first_unit(whole_room);
    const Room room = {at, shared_address(at + kBlocks * Room::kPacks)};
    const OwnLines own = own_lines<kSlopeRows * kSide>(a.tiles, true);
    if (own.first >= own.count) return;
    if (threadIdx.x == 0) make_gates_of_blocks(room);
    __syncthreads();
    const int group = of_whole_warp(static_cast<int>(threadIdx.x) / kGroupThreads);
    if (group == kGroups) {
      keep_registers<40>();
      copy_slopes(a, room, own);
    } else {
      take_registers<232>();
      sum_slopes(a, room, own, group);
    }
  }
}

// kept: of so many squares of a head and of a row, by a triangle or not, as squares.h has it. A query sees so many keys
// before and behind its place. A grid of tiles of 256 queries, as group_of() counts them, times heads / times, which go
// first.
#define HONE_BACKWARD_BY_SLOPES(name, squares, blocks)                                                          \
  HONE_KERNEL_ALONE((kGroups + 1) * kGroupThreads)                                                              \
  name(const Value* keys, Int keys_token, Int keys_head, unsigned* kept, int in_head, int in_row, int triangle, \
       const int* ends, int documents, int heads, int shared, int times, int packs, double scale, int before,   \
       int after, Value* to, Int pitch) {                                                                       \
    const SlopesCall<Value> call = {{ends, documents, heads, 1, shared, times, before, after},                  \
                                    {kept, in_head, in_row, triangle != 0, (before + kSide - 1) / kSide},       \
                                    {keys, keys_token, keys_head},                                              \
                                    packs,                                                                      \
                                    static_cast<float>(scale),                                                  \
                                    to,                                                                         \
                                    pitch};                                                                     \
    backward_by_slopes<squares, blocks>(call);                                                                  \
  }
HONE_BACKWARD_BY_SLOPES(attention_of_slopes_64, 1, 5)
HONE_BACKWARD_BY_SLOPES(attention_of_slopes_128, 2, 4)
