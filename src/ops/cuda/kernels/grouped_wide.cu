// Large products of rows by groups, as grouped.cu's, on GPUs of 9.0: a block for each multiprocessor makes one tile
// after another.
//
// What bounds such products is how much of their factors the memory that all multiprocessors share delivers. So a tile
// is as large as registers let it be, 192 x 256: each of three groups of four warps has 64 lines of it, 128 sums a
// thread. Slices of depth are copied two ahead, the next tile's while this one's last products and its results are
// made; and products of a slice are waited for when the next one's have been asked for. One half of the warps copies
// every other slice, the other half the rest: who shows what has arrived may have to wait for all that it has asked
// for, and so has asked for nothing else.
//
// Tiles that have at most half of the columns come behind all others, and blocks take tiles forth and back, so that
// they end at about the same time. Sums are made in fp32, over the depth in its order.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kWideGroups = 3, kWideThreads = kWideGroups * 4 * kWarp;  // of four warps
constexpr int kWideLines = kWideGroups * 64, kWideColumns = 256, kWideDepth = 64, kWidePack = 8;
constexpr int kWideSums = 64 * kWideColumns / (4 * kWarp);       // of a thread
constexpr int kWideStages = 4, kWideAhead = 2;                   // slices that have room, and that are on their way
constexpr int kWideCopying = kWideThreads / 2;                   // threads that copy a slice
constexpr int kPacksOf64 = 64 * kWideDepth / kWidePack;          // of 64 lines of a slice
constexpr int kWideLeft = kWideLines / 64 * kPacksOf64, kWideRight = kWideColumns / 64 * kPacksOf64;
constexpr int kMostWide = 128;                                   // groups of a launch
enum { kWideIsAdded = 1, kWideIsFloat = 2 };                     // of a group's result

// A factor's slice as the hardware reads it, in rows of 64 values: a line's depths or, turned, a depth's lines, 64 of
// them behind 64. from: where this thread's first pack is; so many lines and depths are there.
template <bool kTurned, int kLines>
struct WideCopy {
  static constexpr int kRows = kTurned ? kWideDepth : kLines, kAtOnce = kWideCopying / static_cast<int>(kRowPacks);
  HONE_ELEMENT static int row() { return static_cast<int>(threadIdx.x) % kWideCopying / static_cast<int>(kRowPacks); }
  HONE_ELEMENT static int pack() { return static_cast<int>(threadIdx.x % kRowPacks); }
  HONE_ELEMENT static Int first(Int pitch) { return row() * pitch + pack() * kWidePack; }
  template <class T>
  HONE_ELEMENT static void ask(Pack<T, kWidePack>* to, const T* from, Int pitch, int lines, int depth) {
    const int rows = kTurned ? depth : lines, values = (kTurned ? lines : depth) - pack() * kWidePack;
    HONE_UNROLL for (int first = 0; first < kRows; first += kAtOnce, from += kAtOnce * pitch) {
      const int at = row() + first;
      if (first + kAtOnce > kRows && at >= kRows) continue;
      HONE_UNROLL for (int beside = 0; beside < (kTurned ? kLines : 64); beside += 64)
        copy_ahead(to + beside / 64 * kPacksOf64 + place_in_rows(at, pack()), from + beside,
                   beside < values && at < rows);
    }
  }
};

// The tiles of `columns` in a line of them: whole ones, and one more, which has at most half of its columns.
struct WideAcross {
  int whole, half;
};
HONE_DEVICE WideAcross wide_across(int columns) {
  const int left = columns % kWideColumns;
  const bool half = left > 0 && left <= kWideColumns / 2;
  return {columns / kWideColumns + (left > kWideColumns / 2 ? 1 : 0), half ? 1 : 0};
}
// Which of the launch's groups a tile is of, and where it begins.
struct WidePlace {
  int group, line, column;
};
// What a tile multiplies first, or then: from its first line and column on, so many are there.
template <class T>
struct WidePart {
  const T *left, *right;
  int lines, columns, depth;
};

// Of so many quads of sums side by side, each of as many neighbouring lanes gets one's, where it had two of each's.
template <int kQuads>
HONE_DEVICE void turn_quads(float (&x)[kQuads][2]) {
  HONE_UNROLL for (int apart = 1; apart < kQuads; apart *= 2) {
    const bool above = threadIdx.x & apart;
    HONE_UNROLL for (int j = 0; j < kQuads; ++j) {
      if (j & apart) continue;
      HONE_UNROLL for (int c = 0; c < 2; ++c) {
        const float got = __shfl_xor_sync(kAllLanes, above ? x[j][c] : x[j + apart][c], apart);
        x[j][c] = above ? got : x[j][c];
        x[j + apart][c] = above ? x[j + apart][c] : got;
      }
    }
  }
}

// to: from the tile's first line and column on. Of these so many are there.
template <class T>
HONE_DEVICE void write_wide(const float (&sums)[kWideSums], T* to, int pitch, int lines, int columns, bool add) {
  constexpr int kQuads = 8 / sizeof(T), kValues = 2 * kQuads, kUnits = kWideSums / kValues;
  constexpr int kTogether = static_cast<int>(sizeof(T));  // units that are read at once: what registers are left for
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int line = thread / kWarp * 16 + lane / 4, column = lane % kQuads * 8 + lane % 4 / kQuads * kValues;
  // A unit is a line of so many quads; those of two lines that are 8 apart follow each other.
  const auto is_there = [&](int unit) {
    return line + unit % 2 * 8 < lines && column + unit / 2 * (8 * kQuads) < columns;
  };
  T* const own = to + static_cast<Int>(line) * pitch + column;
  const auto at = [&](int unit) { return own + unit % 2 * 8 * static_cast<Int>(pitch) + unit / 2 * (8 * kQuads); };
  HONE_UNROLL for (int first = 0; first < kUnits; first += kTogether) {
    Pack<T, kValues> values[kTogether] = {};
    if (add)
      HONE_UNROLL for (int i = 0; i < kTogether; ++i)
        if (is_there(first + i)) values[i] = load<kValues>(at(first + i), 0);
    HONE_UNROLL for (int i = 0; i < kTogether; ++i) {
      const int unit = first + i;
      float x[kQuads][2];
      HONE_UNROLL for (int k = 0; k < kValues; ++k)
        x[k / 2][k % 2] = sums[4 * (unit / 2 * kQuads + k / 2) + unit % 2 * 2 + k % 2];
      turn_quads(x);
      HONE_UNROLL for (int k = 0; k < kValues; ++k)
        round_to(values[i].at[k], (add ? widened(values[i].at[k]) : 0.0f) + x[k / 2][k % 2]);
      if (is_there(unit)) store<kValues>(at(unit), 0, values[i]);
    }
  }
}

// The rows of each group times b[g], or the sum of two such products.
template <bool kTurned, class T>
struct WideRows {
  using Of = T;
  static constexpr bool kLeftTurned = false, kRightTurned = kTurned;
  const T *a, *a_too;
  const T *const *b, *const *b_too;
  int parts;
  T* out;
  const Int* begin;   // of the launch's groups
  const int* starts;  // of their lines of tiles
  int count, depth, columns;

  HONE_ELEMENT Int left_pitch() const { return depth; }
  HONE_ELEMENT Int right_pitch() const { return kTurned ? columns : depth; }
  HONE_ELEMENT int tiles() const {
    const WideAcross across = wide_across(columns);
    return starts[count] * (across.whole + across.half);
  }
  HONE_ELEMENT WidePlace place(int tile) const {
    const int whole = wide_across(columns).whole, half = tile - starts[count] * whole;
    const int down = half < 0 ? tile / whole : half;
    int group = 0;
    while (starts[group + 1] <= down) ++group;
    return {group, (down - starts[group]) * kWideLines, (half < 0 ? tile % whole : whole) * kWideColumns};
  }
  HONE_ELEMENT int lines(const WidePlace& at) const {
    return static_cast<int>(begin[at.group + 1] - begin[at.group]) - at.line;
  }
  HONE_ELEMENT WidePart<T> part(int tile, int which) const {
    const WidePlace at = place(tile);
    return {(which == 0 ? a : a_too) + (begin[at.group] + at.line) * depth,
            (which == 0 ? b : b_too)[at.group] + at.column * (kTurned ? Int{1} : depth), lines(at),
            columns - at.column, depth};
  }
  HONE_ELEMENT int steps(int) const { return (depth + kWideDepth - 1) / kWideDepth * parts; }
  HONE_ELEMENT void bring(int) const {}
  HONE_ELEMENT void write(const float (&sums)[kWideSums], int tile) const {
    const WidePlace at = place(tile);
    write_wide(sums, out + (begin[at.group] + at.line) * columns + at.column, columns, lines(at),
               columns - at.column, false);
  }
};

// For each group, over its rows: a^T b. Where to is null, no steps are made and nothing is written.
template <class T>
struct WideOver {
  using Of = T;
  static constexpr bool kLeftTurned = true, kRightTurned = true;
  static constexpr int parts = 1;
  const T *a, *b;
  void* const* to;
  const int* kinds;
  const Int* begin;  // of the launch's groups
  int count, all_lines, columns;

  HONE_ELEMENT Int left_pitch() const { return all_lines; }
  HONE_ELEMENT Int right_pitch() const { return columns; }
  HONE_ELEMENT int down() const { return (all_lines + kWideLines - 1) / kWideLines; }
  HONE_ELEMENT int tiles() const {
    const WideAcross across = wide_across(columns);
    return count * down() * (across.whole + across.half);
  }
  HONE_ELEMENT WidePlace place(int tile) const {
    const int whole = wide_across(columns).whole, half = tile - count * down() * whole;
    const int line = half < 0 ? tile / whole : half;
    return {line / down(), line % down() * kWideLines, (half < 0 ? tile % whole : whole) * kWideColumns};
  }
  HONE_ELEMENT int rows(const WidePlace& at) const {
    return to[at.group] ? static_cast<int>(begin[at.group + 1] - begin[at.group]) : 0;
  }
  HONE_ELEMENT WidePart<T> part(int tile, int) const {
    const WidePlace at = place(tile);
    return {a + begin[at.group] * all_lines + at.line, b + begin[at.group] * columns + at.column,
            lines(at), columns - at.column, rows(at)};
  }
  HONE_ELEMENT int lines(const WidePlace& at) const { return all_lines - at.line; }
  HONE_ELEMENT int steps(int tile) const { return (rows(place(tile)) + kWideDepth - 1) / kWideDepth; }
  // What is added to, nearer.
  HONE_ELEMENT void bring(int tile) const {
    const WidePlace at = place(tile);
    const int kind = kinds[at.group], size = kind & kWideIsFloat ? 4 : static_cast<int>(sizeof(T));
    if (!(kind & kWideIsAdded)) return;
    const int in_line = kWideColumns * size / kLineBytes, values = kLineBytes / size;
    for (int i = static_cast<int>(threadIdx.x); i < kWideLines * in_line; i += kWideThreads) {
      const int line = at.line + i / in_line, column = at.column + i % in_line * values;
      if (line < all_lines && column < columns)
        bring_nearer(static_cast<const char*>(to[at.group]) + (static_cast<Int>(line) * columns + column) * size);
    }
  }
  HONE_ELEMENT void write(const float (&sums)[kWideSums], int tile) const {
    const WidePlace at = place(tile);
    const int kind = kinds[at.group], down = lines(at), across = columns - at.column;
    const bool add = kind & kWideIsAdded;
    if (!to[at.group] || (add && rows(at) == 0)) return;
    const Int first = static_cast<Int>(at.line) * columns + at.column;
    if (kind & kWideIsFloat)
      write_wide(sums, static_cast<float*>(to[at.group]) + first, columns, down, across, add);
    else
      write_wide(sums, static_cast<T*>(to[at.group]) + first, columns, down, across, add);
  }
};

// This block's tile of a turn; behind the last one: it has no more.
HONE_DEVICE int tile_of_turn(int turn) {
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  return turn * blocks + (turn % 2 == 0 ? block : blocks - 1 - block);
}

// Whether this thread is one of those that copy what goes to a stage.
static_assert(kWideStages % 2 == 0 && kWideAhead == 2);  // so that none of them has more than one slice on its way
HONE_DEVICE bool copies_to(int stage) { return stage % 2 == static_cast<int>(threadIdx.x) / kWideCopying; }

// The slices of a block's tiles, one after another, as they are copied; every thread goes through all of them.
template <class Work>
struct WideSlices {
  using T = typename Work::Of;
  using Left = WideCopy<Work::kLeftTurned, kWideLines>;
  using Right = WideCopy<Work::kRightTurned, kWideColumns>;
  int tiles, turn, which;  // of all; of the tile; its part
  WidePart<T> now;         // from where this thread's packs of the next slice begin

  HONE_ELEMENT void find(const Work& work) {
    for (int tile; now.depth <= 0 && (tile = tile_of_turn(turn)) < tiles;) {
      now = work.part(tile, which);
      now.left += Left::first(work.left_pitch()), now.right += Right::first(work.right_pitch());
      if (++which == work.parts) which = 0, ++turn;
    }
  }
  HONE_ELEMENT void ask(const Work& work, Pack<T, kWidePack>* stages, int stage) {
    if (now.depth <= 0) return;
    if (copies_to(stage)) {
      Pack<T, kWidePack>* const to = stages + stage * (kWideLeft + kWideRight);
      Left::ask(to, now.left, work.left_pitch(), now.lines, now.depth);
      Right::ask(to + kWideLeft, now.right, work.right_pitch(), now.columns, now.depth);
      commit_copies();
    }
    now.left += kWideDepth * (Work::kLeftTurned ? work.left_pitch() : 1);
    now.right += kWideDepth * (Work::kRightTurned ? work.right_pitch() : 1);
    now.depth -= kWideDepth;
    find(work);
  }
};

// By all of a tile's columns or, with half of the sums, by the first half of them.
template <class Work, int kSums, class Packed>
HONE_DEVICE void multiply_wide_slice(float (&sums)[kSums], const Packed* stage, unsigned group) {
  constexpr unsigned kBytesOf64 = kPacksOf64 * sizeof(Packed);
  const auto matrix = [&](unsigned address, bool turned) { return place_of_matrix(address, turned ? kBytesOf64 : 16); };
  const unsigned a = matrix(shared_address(stage) + group * kBytesOf64, Work::kLeftTurned);
  const unsigned b = matrix(shared_address(stage + kWideLeft), Work::kRightTurned);
  const auto from = [](unsigned place, bool turned, int depth) {
    return matrix_at(place + (turned ? bytes_to_depth_turned(depth) : bytes_to_depth(depth)) / 16);
  };
  begin_group();
  HONE_UNROLL for (int depth = 0; depth < kWideDepth; depth += 16)
    group_multiply<Work::kLeftTurned, Work::kRightTurned>(typename Work::Of{}, sums, from(a, Work::kLeftTurned, depth),
                                                          from(b, Work::kRightTurned, depth));
  commit_group();
}

template <class Work>
HONE_DEVICE void multiply_wide(const Work& work) {
  if constexpr (sizeof(typename Work::Of) == 2) {
    constexpr int kBring = 8;  // steps before the end
    using Packed = Pack<typename Work::Of, kWidePack>;
    HONE_SHARED_ROOM(Packed, room);
    Packed* const stages = first_unit(room);
    const auto group = static_cast<unsigned>(of_whole_warp(static_cast<int>(threadIdx.x) / (4 * kWarp)));
    WideSlices<Work> slices = {work.tiles(), 0, 0, {}};
    slices.find(work);
    int copied = 0, multiplied = 0;  // their stages
    const auto copy = [&] {
      slices.ask(work, stages, copied);
      copied = (copied + 1) % kWideStages;
    };
    for (int slice = 0; slice < kWideAhead; ++slice) copy();
    for (int turn = 0, tile; (tile = tile_of_turn(turn)) < slices.tiles; ++turn) {
      float sums[kWideSums] = {};
      float(&half)[kWideSums / 2] = reinterpret_cast<float(&)[kWideSums / 2]>(sums);
      const WidePlace at = work.place(tile);
      const bool has_lines = static_cast<int>(group) * 64 < work.lines(at);
      const bool has_half = work.columns - at.column <= kWideColumns / 2;
      for (int left = work.steps(tile); left > 0; --left) {
        if (copies_to(multiplied)) {
          wait_for_copies<0>();
          show_to_cores();
        }
        wait_for_groups<kWideStages - kWideAhead - 1>();
        __syncthreads();  // everybody's have arrived, and what the next ones overwrite has been read
        const Packed* const stage = stages + multiplied * (kWideLeft + kWideRight);
        if (has_lines && has_half)
          multiply_wide_slice<Work>(half, stage, group);
        else if (has_lines)
          multiply_wide_slice<Work>(sums, stage, group);
        multiplied = (multiplied + 1) % kWideStages;
        copy();
        if (left == kBring) work.bring(tile);
      }
      wait_for_groups<0>();
      hold(sums);
      work.write(sums, tile);
    }
  }
}

// Where each group's lines of tiles begin, and where all end. Every thread of the block comes here.
HONE_DEVICE const int* starts_of_tiles(const Int* begin, int count) {
  __shared__ int counts[kMostWide], starts[kMostWide + 1];
  const int group = static_cast<int>(threadIdx.x);
  if (group < count)
    counts[group] = static_cast<int>((begin[group + 1] - begin[group] + kWideLines - 1) / kWideLines);
  __syncthreads();
  if (group <= count) {
    int sum = 0;
    for (int before = 0; before < group; ++before) sum += counts[before];
    starts[group] = sum;
  }
  __syncthreads();
  return starts;
}

// grouped.cu's, on a GPU of 9.0 alone, with a unit's room more; for more than 128 columns. Any grid is right.
#define HONE_GROUPED_WIDE(name, turned)                                                                               \
  HONE_KERNEL_OF(kWideThreads)                                                                                        \
  name(const Value* a, const Value* a_too, HONE_LIST(const Value*, kMostWide) b,                                      \
       HONE_LIST(const Value*, kMostWide) b_too, int factors, Value* out, const Int* begin, int first, int count,     \
       int, Int depth, Int columns) {                                                                                 \
    multiply_wide(WideRows<turned, Value>{a, a_too, b.at, b_too.at, factors, out, begin + first,                      \
                                          starts_of_tiles(begin + first, count), count, static_cast<int>(depth),      \
                                          static_cast<int>(columns)});                                                \
  }
HONE_GROUPED_WIDE(grouped_wide_90, false)
HONE_GROUPED_WIDE(grouped_turned_wide_90, true)

HONE_KERNEL_OF(kWideThreads)
over_groups_wide_90(const Value* a, const Value* b, HONE_LIST(void*, kMostWide) to, HONE_LIST(int, kMostWide) kinds,
                    const Int* begin, int first, int count, Int lines, Int columns) {
  multiply_wide(WideOver<Value>{a, b, to.at, kinds.at, begin + first, count, static_cast<int>(lines),
                                static_cast<int>(columns)});
}
