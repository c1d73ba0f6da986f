// Products of rows by groups, as of routed experts, by tensor cores: where a group begins stays on the device.
//
// For values of 16 bits; sums are made in fp32, over the depth in its order. A block makes a tile of 128 x 128: it
// copies slices of its factors to shared memory ahead of time. There each of its eight warps multiplies 64 x 32, or,
// on a GPU of 9.0, the hardware itself reads what each group of four warps has to multiply, 64 x 128; there, large
// products are grouped_wide.cu's. Packs of eight values lie in shared memory in an order by which those that are read
// together lie in different banks.
//
// A factor's tile has 128 lines (rows of the left one, columns of the right one) of a slice of depth. In memory its
// lines lie side by side, or, "turned", what is of one depth does.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kTileLines = 128, kTileThreads = 256, kTilePack = 8, kTileSums = 64;
constexpr int kWarpLines = 64, kWarpColumns = 32;  // of a tile's lines to the left and to the right
constexpr int kMostGroups = 128;                   // of a launch
enum { kIsAdded = 1, kIsWide = 2 };                // of a group's result

// Who multiplies: warps that read what they need, or groups of four for which the hardware reads it. A slice's depth,
// how many of them are on their way or there, and of how many packs a factor's tile is.
struct WarpCores {
  static constexpr int kDepth = 32, kStages = 4, kPacks = kTileLines * kDepth / kTilePack;
  static constexpr bool kReadThemselves = false;
};
struct GroupCores {
  static constexpr int kDepth = 64, kStages = 3, kPacks = kTileLines * kDepth / kTilePack;
  static constexpr bool kReadThemselves = true;
};

// What the hardware has for 16 values of depth. to: of four matrices of 8 x 8 values, whose rows are where lanes 0 to
// 7, 8 to 15 and so on say, each lane's two values of each.
#if defined(__CUDA_ARCH__)
HONE_DEVICE void load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
HONE_DEVICE void load_turned(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
#else
HONE_DEVICE void load_matrices(unsigned (&to)[4], const void* row) { emulated::load_matrices(to, row, false); }
HONE_DEVICE void load_turned(unsigned (&to)[4], const void* row) { emulated::load_matrices(to, row, true); }
#endif

// A factor of one group: so many lines and values of depth; pitch: from a line to the next, turned from a depth.
template <class T>
struct TileFactor {
  const T* at;
  Int pitch, lines, depth;
};

// Where a tile keeps a pack: of a line, of its packs of depth; turned: of a depth, of its packs of lines. What the
// hardware reads itself has, turned, first one half of the lines.
template <class Cores, bool kTurned>
HONE_DEVICE int tile_place(int row, int pack) {
  if constexpr (Cores::kReadThemselves)
    return kTurned ? pack / 8 * (Cores::kPacks / 2) + place_in_rows(row, pack % 8) : place_in_rows(row, pack);
  else
    return kTurned ? row * (kTileLines / kTilePack) + (pack ^ (row & 7))
                   : row * (Cores::kDepth / kTilePack) + (pack ^ (row >> 1 & 3));
}

template <class Cores, bool kTurned, class T>
HONE_DEVICE void copy_tile(Pack<T, kTilePack>* tile, const TileFactor<T>& x, Int first_line, Int first_depth) {
  constexpr int kInRow = (kTurned ? kTileLines : Cores::kDepth) / kTilePack;
  HONE_UNROLL for (int i = 0; i < Cores::kPacks / kTileThreads; ++i) {
    const int place = i * kTileThreads + static_cast<int>(threadIdx.x), row = place / kInRow, pack = place % kInRow;
    const Int line = first_line + (kTurned ? pack * kTilePack : row);
    const Int depth = first_depth + (kTurned ? row : pack * kTilePack);
    const bool there = line < x.lines && depth < x.depth;
    const T* from = x.at + (kTurned ? depth * x.pitch + line : line * x.pitch + depth);
    copy_ahead(tile + tile_place<Cores, kTurned>(row, pack), there ? from : x.at, there);
  }
}

// For the hardware's product: 16 lines by 16 of depth, of the left factor and of the right one.
template <bool kTurned, class T>
HONE_DEVICE void load_left(unsigned (&to)[4], const Pack<T, kTilePack>* tile, int line, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = kTurned ? depth + lane % 8 + lane / 16 * 8 : line + lane % 16;
  const int pack = kTurned ? line / kTilePack + lane / 8 % 2 : depth / kTilePack + lane / 16;
  const Pack<T, kTilePack>* from = tile + tile_place<WarpCores, kTurned>(row, pack);
  kTurned ? load_turned(to, from) : load_matrices(to, from);
}
template <bool kTurned, class T>
HONE_DEVICE void load_right(unsigned (&to)[4], const Pack<T, kTilePack>* tile, int line, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = kTurned ? depth + lane % 16 : line + lane % 8 + lane / 16 * 8;
  const int pack = kTurned ? line / kTilePack + lane / 16 : depth / kTilePack + lane / 8 % 2;
  const Pack<T, kTilePack>* from = tile + tile_place<WarpCores, kTurned>(row, pack);
  kTurned ? load_turned(to, from) : load_matrices(to, from);
}

// A thread's part of a tile: by quads, of two columns side by side in two lines that are 8 apart.
template <class Cores>
struct TileSums {
  float at[kTileSums];
};
struct TilePart {
  int line, column;
};
HONE_DEVICE TilePart own_part() {  // of a warp that reads itself
  constexpr int kAcross = kTileLines / kWarpColumns;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  return {warp / kAcross * kWarpLines, warp % kAcross * kWarpColumns};
}
template <class Cores>
HONE_DEVICE TilePart part_of_quad(int quad) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (Cores::kReadThemselves)
    return {static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4, 8 * quad + lane % 4 * 2};
  constexpr int kAcross = kWarpColumns / 8;
  const TilePart part = own_part();
  return {part.line + quad / kAcross * 16 + lane / 4, part.column + quad % kAcross * 8 + lane % 4 * 2};
}

template <bool kLeftTurned, bool kRightTurned, class T>
HONE_DEVICE void multiply_slice(TileSums<WarpCores>& sums, const Pack<T, kTilePack>* left,
                                const Pack<T, kTilePack>* right) {
  const TilePart part = own_part();
  HONE_UNROLL for (int depth = 0; depth < WarpCores::kDepth; depth += 16) {
    unsigned a[kWarpLines / 16][4], b[kWarpColumns / 16][4];
    HONE_UNROLL for (int i = 0; i < kWarpLines / 16; ++i)
      load_left<kLeftTurned>(a[i], left, part.line + 16 * i, depth);
    HONE_UNROLL for (int j = 0; j < kWarpColumns / 16; ++j)
      load_right<kRightTurned>(b[j], right, part.column + 16 * j, depth);
    HONE_UNROLL for (int i = 0; i < kWarpLines / 16; ++i)
      HONE_UNROLL for (int j = 0; j < kWarpColumns / 8; ++j) {
        float(&quad)[4] = *reinterpret_cast<float(*)[4]>(sums.at + 4 * (i * (kWarpColumns / 8) + j));
        multiply_add(T{}, quad, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
  }
}

constexpr unsigned kHalfBytes = kTileLines / 2 * GroupCores::kDepth * 2;  // of a tile's lines
HONE_DEVICE unsigned tile_of_cores(unsigned address, bool turned) {
  return place_of_matrix(address, turned ? kHalfBytes : 16);
}
HONE_DEVICE unsigned long long tile_from(unsigned tile, bool turned, int depth) {
  return matrix_at(tile + (turned ? bytes_to_depth_turned(depth) : bytes_to_depth(depth)) / 16);
}
template <bool kLeftTurned, bool kRightTurned, class T>
HONE_DEVICE void multiply_slice(TileSums<GroupCores>& sums, const Pack<T, kTilePack>* left,
                                const Pack<T, kTilePack>* right) {
  // Its half of the lines is as long by lines as turned.
  const auto group = static_cast<unsigned>(of_whole_warp(static_cast<int>(threadIdx.x) / (4 * kWarp)));
  const unsigned a = tile_of_cores(shared_address(left) + group * kHalfBytes, kLeftTurned);
  const unsigned b = tile_of_cores(shared_address(right), kRightTurned);
  hold(sums.at);
  begin_group();
  HONE_UNROLL for (int depth = 0; depth < GroupCores::kDepth; depth += 16)
    group_multiply<kLeftTurned, kRightTurned>(T{}, sums.at, tile_from(a, kLeftTurned, depth),
                                              tile_from(b, kRightTurned, depth));
  commit_group();
}
template <class Cores>
HONE_DEVICE void wait_for_sums(TileSums<Cores>& sums) {
  wait_for_groups<0>();
  hold(sums.at);
}

// One product, or two of the same sizes that are added up; then the second one's values are `too`.
template <class T>
struct TileProduct {
  TileFactor<T> left, right;
  int count;
  const T *left_too, *right_too;
};

template <class Cores, bool kLeftTurned, bool kRightTurned, class T>
HONE_DEVICE void multiply_tile(TileSums<Cores>& sums, const TileProduct<T>& p, Int line, Int column) {
  using Packed = Pack<T, kTilePack>;
  HONE_SHARED_ROOM(Packed, room);
  Packed* const tiles = Cores::kReadThemselves ? first_unit(room) : room;
  const int each = static_cast<int>((p.left.depth + Cores::kDepth - 1) / Cores::kDepth), steps = each * p.count;
  const auto left = [&](int step) { return tiles + step % Cores::kStages * 2 * Cores::kPacks; };
  const auto copy = [&](int step) {
    if (step < steps) {
      const bool too = step >= each;
      const Int depth = static_cast<Int>(too ? step - each : step) * Cores::kDepth;
      const TileFactor<T> a = {too ? p.left_too : p.left.at, p.left.pitch, p.left.lines, p.left.depth};
      const TileFactor<T> b = {too ? p.right_too : p.right.at, p.right.pitch, p.right.lines, p.right.depth};
      copy_tile<Cores, kLeftTurned>(left(step), a, line, depth);
      copy_tile<Cores, kRightTurned>(left(step) + Cores::kPacks, b, column, depth);
    }
    commit_copies();  // of nothing behind the end, so that the number of those on their way is always the same
  };
  for (int stage = 0; stage < Cores::kStages - 1; ++stage) copy(stage);
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<Cores::kStages - 2>();
    if constexpr (Cores::kReadThemselves) {
      show_to_cores();
      wait_for_sums(sums);  // of the last step
    }
    __syncthreads();  // everybody's have arrived, and what the next ones overwrite has been read
    const auto multiply = [&] {
      multiply_slice<kLeftTurned, kRightTurned>(sums, left(step), left(step) + Cores::kPacks);
    };
    if constexpr (Cores::kReadThemselves) multiply();  // they go on while the next slice is asked for
    copy(step + Cores::kStages - 1);
    if constexpr (!Cores::kReadThemselves) multiply();
  }
  if constexpr (Cores::kReadThemselves) wait_for_sums(sums);
}

// out: [lines, columns] of the group, of which the tile begins at (line, column).
template <class Cores, class T>
HONE_DEVICE void write_tile(const TileSums<Cores>& sums, T* out, Int lines, Int columns, Int line, Int column,
                            bool add) {
  constexpr int kTogether = 8;  // pairs that are read at once
  // Of pair i of a thread's: its place among pairs of out; -1: it is behind the end.
  const auto place_of = [&](int i) {
    const TilePart part = part_of_quad<Cores>(i / 2);
    const Int at = line + part.line + 8 * (i % 2), from = column + part.column;
    return at < lines && from < columns ? (at * columns + from) / 2 : -1;
  };
  HONE_UNROLL for (int first = 0; first < kTileSums / 2; first += kTogether) {
    Pack<T, 2> pairs[kTogether] = {};
    if (add)
      HONE_UNROLL for (int i = 0; i < kTogether; ++i)
        if (const Int place = place_of(first + i); place >= 0) pairs[i] = load<2>(out, place);
    HONE_UNROLL for (int i = 0; i < kTogether; ++i) {
      HONE_UNROLL for (int c = 0; c < 2; ++c)
        pairs[i].at[c] = rounded<T>((add ? widened(pairs[i].at[c]) : 0.0f) + sums.at[2 * (first + i) + c]);
      if (const Int place = place_of(first + i); place >= 0) store<2>(out, place, pairs[i]);
    }
  }
}

// What rows of groups are multiplied with: groups [first, first + count) of all.
struct GroupRange {
  int first, count, all;
};

template <class Cores, bool kTurned, class T>
HONE_DEVICE void multiply_rows(const T* a, const T* a_too, const T* const* b, const T* const* b_too, int factors,
                               T* out, const Int* begin, GroupRange range, Int depth, Int columns) {
  if constexpr (sizeof(T) == 2) {
    const Int across = (columns + kTileLines - 1) / kTileLines, tile = blockIdx.x / across;
    const int group = group_of(tile, begin, range.all, kTileLines);
    const Int rows = begin[group + 1] - begin[group], line = (tile - begin[group] / kTileLines - group) * kTileLines;
    if (line >= rows || group < range.first || group >= range.first + range.count) return;
    const Int before = begin[group] * depth;
    const int own = group - range.first;
    const TileProduct<T> product = {{a + before, depth, rows, depth},
                                    {b[own], kTurned ? columns : depth, columns, depth},
                                    factors,
                                    a_too + before,
                                    b_too[own]};
    TileSums<Cores> sums = {};
    const Int column = blockIdx.x % across * kTileLines;
    multiply_tile<Cores, false, kTurned>(sums, product, line, column);
    write_tile<Cores>(sums, out + begin[group] * columns, rows, columns, line, column, false);
  }
}

template <class Cores, class T>
HONE_DEVICE void multiply_over_groups(const T* a, const T* b, void* to, int kind, const Int* begin, int group,
                                      Int lines, Int columns) {
  if constexpr (sizeof(T) == 2) {
    const Int across = (columns + kTileLines - 1) / kTileLines, down = (lines + kTileLines - 1) / kTileLines;
    const Int tile = blockIdx.x % (across * down), line = tile / across * kTileLines;
    const Int column = tile % across * kTileLines, rows = begin[group + 1] - begin[group];
    if (rows == 0 && kind & kIsAdded) return;
    const TileFactor<T> left = {a + begin[group] * lines, lines, lines, rows};
    const TileFactor<T> right = {b + begin[group] * columns, columns, columns, rows};
    TileSums<Cores> sums = {};
    multiply_tile<Cores, true, true>(sums, TileProduct<T>{left, right, 1, a, b}, line, column);
    if (kind & kIsWide)
      write_tile<Cores>(sums, static_cast<float*>(to), lines, columns, line, column, kind & kIsAdded);
    else
      write_tile<Cores>(sums, static_cast<T*>(to), lines, columns, line, column, kind & kIsAdded);
  }
}

// out's rows of group g = a b[g] (+ a_too b_too[g]). b: [columns, depth] in memory; turned: [depth, columns]. A grid of
// the tiles of rows, as group_of() counts them, times those of columns, which go first. _90: for a GPU of 9.0 alone,
// with a unit's room more.
#define HONE_GROUPED(name, Cores, turned)                                                                             \
  HONE_KERNEL_TWICE(kTileThreads)                                                                                     \
  name(const Value* a, const Value* a_too, HONE_LIST(const Value*, kMostGroups) b,                                    \
              HONE_LIST(const Value*, kMostGroups) b_too, int factors, Value* out, const Int* begin, int first,       \
              int count, int all, Int depth, Int columns) {                                                           \
    multiply_rows<Cores, turned>(a, a_too, b.at, b_too.at, factors, out, begin, {first, count, all}, depth,           \
                                 columns);                                                                            \
  }
HONE_GROUPED(grouped, WarpCores, false)
HONE_GROUPED(grouped_turned, WarpCores, true)
HONE_GROUPED(grouped_90, GroupCores, false)
HONE_GROUPED(grouped_turned_90, GroupCores, true)

// to[g] [lines, columns] (+)= a^T b of the rows of group first + g, unless to[g] is null. A grid of the tiles of each
// group.
#define HONE_OVER_GROUPS(name, Cores)                                                                       \
  HONE_KERNEL_TWICE(kTileThreads)                                                                           \
  name(const Value* a, const Value* b, HONE_LIST(void*, kMostGroups) to, HONE_LIST(int, kMostGroups) kinds, \
              const Int* begin, int first, int count, Int lines, Int columns) {                             \
    const int own = static_cast<int>(blockIdx.x / (gridDim.x / count));                                     \
    if (to.at[own])                                                                                         \
      multiply_over_groups<Cores>(a, b, to.at[own], kinds.at[own], begin, first + own, lines, columns);     \
  }
HONE_OVER_GROUPS(over_groups, WarpCores)
HONE_OVER_GROUPS(over_groups_90, GroupCores)
