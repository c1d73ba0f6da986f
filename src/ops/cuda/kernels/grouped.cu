// Products of rows by groups, as of routed experts, by tensor cores: where a group begins stays on the device.
//
// For values of 16 bits; sums are made in fp32, over the depth in its order. A block makes a tile of 128 x 128: it
// copies slices of its factors to shared memory ahead of time, and each of its eight warps multiplies 64 x 32. Packs of
// eight values lie there in an order by which those that are read together lie in different banks.
//
// A factor's tile has 128 lines (rows of the left one, columns of the right one) of a slice of depth. In memory its
// lines lie side by side, or, "turned", what is of one depth does.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kTileLines = 128, kTileDepth = 32, kTileThreads = 256, kTileStages = 4, kTilePack = 8;
constexpr int kTilePacks = kTileLines * kTileDepth / kTilePack;
constexpr int kWarpLines = 64, kWarpColumns = 32;  // of a tile's lines to the left and to the right
constexpr int kMostGroups = 128;                   // of a launch
enum { kIsAdded = 1, kIsWide = 2 };                // of a group's result

// What the hardware has for 16 values of depth. to: of four matrices of 8 x 8 values, whose rows are where lanes 0 to
// 7, 8 to 15 and so on say, each lane's two values of each.
#if defined(__CUDA_ARCH__)
HONE_DEVICE unsigned shared_address(const void* x) { return static_cast<unsigned>(__cvta_generic_to_shared(x)); }
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
// 16 bytes, or zeros, on their way; those that were asked for before a commit arrive together.
HONE_DEVICE void copy_ahead(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
HONE_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
HONE_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
#else
HONE_DEVICE void load_matrices(unsigned (&to)[4], const void* row) { emulated::load_matrices(to, row, false); }
HONE_DEVICE void load_turned(unsigned (&to)[4], const void* row) { emulated::load_matrices(to, row, true); }
HONE_DEVICE void copy_ahead(void* to, const void* from, bool there) { emulated::copy_in_time(to, from, there); }
HONE_DEVICE void commit_copies() { emulated::commit_copies(); }
template <int kLeft>
HONE_DEVICE void wait_for_copies() {
  emulated::wait_for_copies(kLeft);
}
#endif

// A factor of one group: so many lines and values of depth; pitch: from a line to the next, turned from a depth.
template <class T>
struct TileFactor {
  const T* at;
  Int pitch, lines, depth;
};

// Where a tile keeps a pack: of a line, of its packs of depth; turned: of a depth, of its packs of lines.
template <bool kTurned>
HONE_DEVICE int tile_place(int row, int pack) {
  return kTurned ? row * (kTileLines / kTilePack) + (pack ^ (row & 7))
                 : row * (kTileDepth / kTilePack) + (pack ^ (row >> 1 & 3));
}

template <bool kTurned, class T>
HONE_DEVICE void copy_tile(Pack<T, kTilePack>* tile, const TileFactor<T>& x, Int first_line, Int first_depth) {
  constexpr int kInRow = (kTurned ? kTileLines : kTileDepth) / kTilePack;
  HONE_UNROLL for (int i = 0; i < kTilePacks / kTileThreads; ++i) {
    const int place = i * kTileThreads + static_cast<int>(threadIdx.x), row = place / kInRow, pack = place % kInRow;
    const Int line = first_line + (kTurned ? pack * kTilePack : row);
    const Int depth = first_depth + (kTurned ? row : pack * kTilePack);
    const bool there = line < x.lines && depth < x.depth;
    const T* from = x.at + (kTurned ? depth * x.pitch + line : line * x.pitch + depth);
    copy_ahead(tile + tile_place<kTurned>(row, pack), there ? from : x.at, there);
  }
}

// For the hardware's product: 16 lines by 16 of depth, of the left factor and of the right one.
template <bool kTurned, class T>
HONE_DEVICE void load_left(unsigned (&to)[4], const Pack<T, kTilePack>* tile, int line, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (kTurned)
    load_turned(to, tile + tile_place<true>(depth + lane % 8 + lane / 16 * 8, line / kTilePack + lane / 8 % 2));
  else
    load_matrices(to, tile + tile_place<false>(line + lane % 16, depth / kTilePack + lane / 16));
}
template <bool kTurned, class T>
HONE_DEVICE void load_right(unsigned (&to)[4], const Pack<T, kTilePack>* tile, int line, int depth) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (kTurned)
    load_turned(to, tile + tile_place<true>(depth + lane % 16, line / kTilePack + lane / 16));
  else
    load_matrices(to, tile + tile_place<false>(line + lane % 8 + lane / 16 * 8, depth / kTilePack + lane / 8 % 2));
}

// A warp's part of a tile: by blocks of 16 lines and 8 columns, of each four values of a lane.
struct TileSums {
  float at[kWarpLines / 16][kWarpColumns / 8][4];
};
struct TilePart {
  int line, column;  // of the warp, in its tile
};
HONE_DEVICE TilePart own_part() {
  constexpr int kAcross = kTileLines / kWarpColumns;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  return {warp / kAcross * kWarpLines, warp % kAcross * kWarpColumns};
}

template <bool kLeftTurned, bool kRightTurned, class T>
HONE_DEVICE void multiply_slice(TileSums& sums, const Pack<T, kTilePack>* left, const Pack<T, kTilePack>* right) {
  const TilePart part = own_part();
  HONE_UNROLL for (int depth = 0; depth < kTileDepth; depth += 16) {
    unsigned a[kWarpLines / 16][4], b[kWarpColumns / 16][4];
    HONE_UNROLL for (int i = 0; i < kWarpLines / 16; ++i)
      load_left<kLeftTurned>(a[i], left, part.line + 16 * i, depth);
    HONE_UNROLL for (int j = 0; j < kWarpColumns / 16; ++j)
      load_right<kRightTurned>(b[j], right, part.column + 16 * j, depth);
    HONE_UNROLL for (int i = 0; i < kWarpLines / 16; ++i)
      HONE_UNROLL for (int j = 0; j < kWarpColumns / 8; ++j)
        multiply_add(T{}, sums.at[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
}

// One product, or two of the same sizes that are added up; then the second one's values are `too`.
template <class T>
struct TileProduct {
  TileFactor<T> left, right;
  int count;
  const T *left_too, *right_too;
};

template <bool kLeftTurned, bool kRightTurned, class T>
HONE_DEVICE void multiply_tile(TileSums& sums, const TileProduct<T>& p, Int line, Int column) {
  using Packed = Pack<T, kTilePack>;
  HONE_SHARED_ROOM(Packed, tiles);
  const Int each = (p.left.depth + kTileDepth - 1) / kTileDepth, steps = each * p.count;
  const auto left = [&](Int step) { return tiles + step % kTileStages * 2 * kTilePacks; };
  const auto copy = [&](Int step) {
    if (step < steps) {
      const bool too = step >= each;
      const Int depth = (too ? step - each : step) * kTileDepth;
      const TileFactor<T> a = {too ? p.left_too : p.left.at, p.left.pitch, p.left.lines, p.left.depth};
      const TileFactor<T> b = {too ? p.right_too : p.right.at, p.right.pitch, p.right.lines, p.right.depth};
      copy_tile<kLeftTurned>(left(step), a, line, depth);
      copy_tile<kRightTurned>(left(step) + kTilePacks, b, column, depth);
    }
    commit_copies();  // of nothing behind the end, so that the number of those on their way is always the same
  };
  for (int stage = 0; stage < kTileStages - 1; ++stage) copy(stage);
  for (Int step = 0; step < steps; ++step) {
    wait_for_copies<kTileStages - 2>();
    __syncthreads();  // everybody's have arrived, and what the next ones overwrite has been read
    copy(step + kTileStages - 1);
    multiply_slice<kLeftTurned, kRightTurned>(sums, left(step), left(step) + kTilePacks);
  }
}

// out: [lines, columns] of the group, of which the tile begins at (line, column).
template <class T>
HONE_DEVICE void write_tile(const TileSums& sums, T* out, Int lines, Int columns, Int line, Int column, bool add) {
  const TilePart part = own_part();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  HONE_UNROLL for (int i = 0; i < kWarpLines / 16; ++i)
    HONE_UNROLL for (int j = 0; j < kWarpColumns / 8; ++j)
      HONE_UNROLL for (int half = 0; half < 2; ++half) {
        const Int at = line + part.line + 16 * i + 8 * half + lane / 4;
        const Int from = column + part.column + 8 * j + lane % 4 * 2;
        if (at >= lines || from >= columns) continue;
        Pack<T, 2> pair = {};
        if (add) pair = load<2>(out, (at * columns + from) / 2);
        HONE_UNROLL for (int c = 0; c < 2; ++c)
          pair.at[c] = rounded<T>((add ? widened(pair.at[c]) : 0.0f) + sums.at[i][j][2 * half + c]);
        store<2>(out, (at * columns + from) / 2, pair);
      }
}

// The group of a tile of rows. Group g's first tile is begin[g] / 128 + g: so far apart that all of a group's tiles
// have room, wherever it begins; of those that are left over nothing is computed.
HONE_DEVICE int group_of(Int tile, const Int* begin, int groups) {
  int low = 0, high = groups;  // it is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (begin[middle] / kTileLines + middle <= tile ? low : high) = middle;
  }
  return low;
}

// What rows of groups are multiplied with: groups [first, first + count) of all.
struct GroupRange {
  int first, count, all;
};

template <bool kTurned, class T>
HONE_DEVICE void multiply_rows(const T* a, const T* a_too, const T* const* b, const T* const* b_too, int factors,
                               T* out, const Int* begin, GroupRange range, Int depth, Int columns) {
  if constexpr (sizeof(T) == 2) {
    const Int across = (columns + kTileLines - 1) / kTileLines, tile = blockIdx.x / across;
    const int group = group_of(tile, begin, range.all);
    const Int rows = begin[group + 1] - begin[group], line = (tile - begin[group] / kTileLines - group) * kTileLines;
    if (line >= rows || group < range.first || group >= range.first + range.count) return;
    const Int before = begin[group] * depth;
    const int own = group - range.first;
    const TileProduct<T> product = {{a + before, depth, rows, depth},
                                    {b[own], kTurned ? columns : depth, columns, depth},
                                    factors,
                                    a_too + before,
                                    b_too[own]};
    TileSums sums = {};
    const Int column = blockIdx.x % across * kTileLines;
    multiply_tile<false, kTurned>(sums, product, line, column);
    write_tile(sums, out + begin[group] * columns, rows, columns, line, column, false);
  }
}

// out's rows of group g = a b[g] (+ a_too b_too[g]). b: [columns, depth] in memory. A grid of the tiles of rows, as
// group_of() counts them, times those of columns, which go first.
HONE_KERNEL_OF(kTileThreads)
grouped(const Value* a, const Value* a_too, HONE_LIST(const Value*, kMostGroups) b,
        HONE_LIST(const Value*, kMostGroups) b_too, int factors, Value* out, const Int* begin, int first, int count,
        int all, Int depth, Int columns) {
  multiply_rows<false>(a, a_too, b.at, b_too.at, factors, out, begin, {first, count, all}, depth, columns);
}
// The same with b of [depth, columns] in memory.
HONE_KERNEL_OF(kTileThreads)
grouped_turned(const Value* a, const Value* a_too, HONE_LIST(const Value*, kMostGroups) b,
               HONE_LIST(const Value*, kMostGroups) b_too, int factors, Value* out, const Int* begin, int first,
               int count, int all, Int depth, Int columns) {
  multiply_rows<true>(a, a_too, b.at, b_too.at, factors, out, begin, {first, count, all}, depth, columns);
}

template <class T>
HONE_DEVICE void multiply_over_groups(const T* a, const T* b, void* to, int kind, const Int* begin, int group,
                                      Int lines, Int columns) {
  if constexpr (sizeof(T) == 2) {
    const Int across = (columns + kTileLines - 1) / kTileLines, down = (lines + kTileLines - 1) / kTileLines;
    const Int tile = blockIdx.x % (across * down), line = tile / across * kTileLines;
    const Int column = tile % across * kTileLines, rows = begin[group + 1] - begin[group];
    if (rows == 0 && kind & kIsAdded) return;
    const TileFactor<T> left = {a + begin[group] * lines, lines, lines, rows};
    const TileFactor<T> right = {b + begin[group] * columns, columns, columns, rows};
    TileSums sums = {};
    multiply_tile<true, true>(sums, TileProduct<T>{left, right, 1, a, b}, line, column);
    if (kind & kIsWide)
      write_tile(sums, static_cast<float*>(to), lines, columns, line, column, kind & kIsAdded);
    else
      write_tile(sums, static_cast<T*>(to), lines, columns, line, column, kind & kIsAdded);
  }
}

// to[g] [lines, columns] (+)= a^T b of the rows of group first + g, unless to[g] is null. A grid of the tiles of each
// group.
HONE_KERNEL_OF(kTileThreads)
over_groups(const Value* a, const Value* b, HONE_LIST(void*, kMostGroups) to, HONE_LIST(int, kMostGroups) kinds,
            const Int* begin, int first, int count, Int lines, Int columns) {
  const int own = static_cast<int>(blockIdx.x / (gridDim.x / count));
  if (to.at[own]) multiply_over_groups(a, b, to.at[own], kinds.at[own], begin, first + own, lines, columns);
}
