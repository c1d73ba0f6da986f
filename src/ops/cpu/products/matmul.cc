// Packing and tiles of matrix products: fp32 everywhere, bf16 pairs with AVX-512-BF16; bf16 is widened to fp32
// elsewhere.
//
// A tile's sums stay in registers for the whole depth: R rows times kVectors vectors of columns. B is read from a panel
// whose columns lie side by side; of A one value, or one pair of bf16, is broadcast per row and step: as it lies where
// its rows are contiguous, else from panels as well.
#include "ops/cpu/products/matmul.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX512BF16)
constexpr int kLanes = 16, kTileRows = 12;
#elif defined(CPU_CAPABILITY_AVX2)
constexpr int kLanes = 8, kTileRows = 6;
#else
constexpr int kLanes = 4, kTileRows = 6;
#endif
constexpr int kVectors = 2, kTileCols = kVectors * kLanes;

// One 32-bit unit of depth: an fp32 value, or a pair of bf16. Strides and lengths below are in units unless said.
typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef float FloatsAnywhere __attribute__((vector_size(kLanes * 4), aligned(4)));
typedef std::int32_t Units __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t UnitsAnywhere __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef std::int32_t Unit __attribute__((may_alias, aligned(2)));

inline Units load_units(const void* from) { return *static_cast<const UnitsAnywhere*>(from); }
inline Floats load_floats(const float* from) { return *reinterpret_cast<const FloatsAnywhere*>(from); }
inline void store_units(void* to, Units x) { *static_cast<UnitsAnywhere*>(to) = x; }

// ---------------------------------------------------------------------------------------------- tiles

template <class T>
inline Floats multiply_add(Units a, Units b, Floats sum) {
  if constexpr (std::is_same_v<T, float>) {
    return sum + reinterpret_cast<Floats>(a) * reinterpret_cast<Floats>(b);
  } else {
#if defined(CPU_CAPABILITY_AVX512BF16)
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#endif
  }
}

inline void store_narrow(float* to, Floats x) { *reinterpret_cast<FloatsAnywhere*>(to) = x; }
#if defined(CPU_CAPABILITY_AVX512BF16)
inline void store_narrow(bf16* to, Floats x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(x));
}
#else
inline void store_narrow(bf16* to, Floats x) { store(to, x); }
#endif

template <class T, int R>
[[gnu::always_inline]] inline void store_tile(const Tile<T>& tile, Floats (&sums)[R][kVectors]) {
  const auto each = [&](auto* c, auto&& put) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) put(c + i * tile.c_stride + j * kLanes, sums[i][j]);
  };
  if (tile.store == Store::narrow) {
    each(static_cast<T*>(tile.c), [](T* to, Floats x) { store_narrow(to, x); });
  } else if (tile.store == Store::wide) {
    each(static_cast<float*>(tile.c), [](float* to, Floats x) { store_narrow(to, x); });
  } else {
    each(static_cast<float*>(tile.c), [](float* to, Floats x) { store_narrow(to, load_floats(to) + x); });
  }
}

// REQUIRES: tile.cols == kTileCols
template <class T, int R, bool kPanels>
[[gnu::noinline]] void run_tile(const Tile<T>& tile) {
  constexpr std::int64_t kPer = 4 / sizeof(T);  // values of a unit
  constexpr std::int64_t kAStep = kPanels ? kPer * kTileRows : kPer;
  Floats sums[R][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sums[i][j] = Floats{};
  const T *a = tile.a, *panel = tile.panel;
  const std::int64_t stride = kPanels ? kPer : tile.a_stride, units = (tile.depth + kPer - 1) / kPer;
  for (std::int64_t k = 0; k < units; ++k, a += kAStep, panel += kPer * kTileCols) {
    Units b[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) b[j] = load_units(panel + j * kPer * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const Units broadcast = Units{} + *reinterpret_cast<const Unit*>(a + i * stride);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[i][j] = multiply_add<T>(broadcast, b[j], sums[i][j]);
    }
  }
  store_tile<T, R>(tile, sums);
}

template <class T, int... R>
void run_rows(const Tile<T>& tile, std::integer_sequence<int, R...>) {
  static constexpr void (*kRows[])(const Tile<T>&) = {run_tile<T, R + 1, false>...};
  static constexpr void (*kPanels[])(const Tile<T>&) = {run_tile<T, R + 1, true>...};
  (tile.a_stride == 0 ? kPanels : kRows)[tile.rows - 1](tile);
}

template <class T>
void narrow(const float* from, std::int64_t count, T* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_narrow(to + i, load_floats(from + i));
  if (i == count) return;
  Floats rest{};
  std::memcpy(&rest, from + i, (count - i) * sizeof(float));
  T narrowed[kLanes];
  store_narrow(narrowed, rest);
  std::memcpy(static_cast<void*>(to + i), narrowed, (count - i) * sizeof(T));
}

template <class T>
void widen(const T* from, std::int64_t count, float* to) {
  each_vector<float>(count, [&](std::int64_t i, auto part) { store(to + i, load(from + i, part), part); });
}

// Fewer columns than a tile has: made apart, then the ones that exist are stored.
template <class T>
void run_narrow(const Tile<T>& tile) {
  alignas(64) float apart[kTileRows * kTileCols];
  Tile<T> whole = tile;
  whole.cols = kTileCols, whole.c = apart, whole.c_stride = kTileCols, whole.store = Store::wide;
  run_rows(whole, std::make_integer_sequence<int, kTileRows>{});
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const float* from = apart + i * kTileCols;
    if (tile.store != Store::narrow || std::is_same_v<T, float>) {
      float* to = static_cast<float*>(tile.c) + i * tile.c_stride;
      for (std::int64_t j = 0; j < tile.cols; ++j) to[j] = tile.store == Store::wide_add ? to[j] + from[j] : from[j];
    } else {
      narrow(from, tile.cols, static_cast<T*>(tile.c) + i * tile.c_stride);
    }
  }
}

template <class T>
void multiply(const Tile<T>& tile) {
  if (tile.cols < kTileCols) return run_narrow(tile);
  run_rows(tile, std::make_integer_sequence<int, kTileRows>{});
}

// ---------------------------------------------------------------------------------------------- packing

// rows[i][j] becomes rows[j][i], by exchanging halves, then quarters, …
[[gnu::always_inline]] inline void transpose(Units (&rows)[kLanes]) {
  const Units lane = [] {
    Units made{};
    for (int j = 0; j < kLanes; ++j) made[j] = j;
    return made;
  }();
#pragma GCC unroll 4
  for (int step = kLanes / 2; step > 0; step /= 2) {
    const Units upper = (lane & step) != 0;
    const Units first = upper ? lane - step + kLanes : lane, second = upper ? lane + kLanes : lane + step;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if (i & step) continue;
      const Units a = rows[i], b = rows[i + step];
      rows[i] = __builtin_shuffle(a, b, first);
      rows[i + step] = __builtin_shuffle(a, b, second);
    }
  }
}

// `count` values from where they lie; the rest of the vector is zero.
template <class T>
inline Units load_some(const T* from, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(kLanes * (4 / sizeof(T)))) return load_units(from);
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX512BF16)
  const std::uint32_t there = count > 0 ? (std::uint32_t{1} << count) - 1 : 0;
  if constexpr (sizeof(T) == 2)
    return (Units)_mm512_maskz_loadu_epi16(there, from);
  else
    return (Units)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(there), from);
#endif
  Units made{};
  if (count > 0) std::memcpy(&made, from, count * sizeof(T));
  return made;
}

// Rows of contiguous depth -> columns: to[unit * to_stride + row], units of depth going down. Both a panel (from B
// whose depth is contiguous) and a block of A's rows (from A whose rows lie across) are made of such squares.
template <class T>
[[gnu::always_inline]] inline void transpose_square(const T* from, std::int64_t stride, std::int64_t rows,
                                                    std::int64_t depth, Unit* to, std::int64_t to_stride,
                                                    std::int64_t to_rows) {
  Units square[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) square[i] = i < rows ? load_some(from + i * stride, depth) : Units{};
  transpose(square);
  for (std::int64_t k = 0; k < to_rows; ++k) store_units(to + k * to_stride, square[k]);
}

// Lines of a factor lie far apart, and panels farther than the cache is large: both are asked for so many rows ahead.
constexpr std::int64_t kAhead = 32;

// Two rows of bf16, values of the same column made a unit: of kLanes columns from kFirst on.
#if defined(CPU_CAPABILITY_AVX512BF16)
template <int kFirst>
inline Units paired(Units low, Units high) {
  alignas(64) static constexpr auto kOrder = [] {
    std::array<std::uint16_t, 32> order{};
    for (int j = 0; j < 16; ++j) order[2 * j] = (kFirst + j) % 32, order[2 * j + 1] = 32 + (kFirst + j) % 32;
    return order;
  }();
  return (Units)_mm512_permutex2var_epi16((__m512i)low, _mm512_load_si512(kOrder.data()), (__m512i)high);
}
#endif

// B with contiguous columns: row by row, as memory lies.
template <class T>
void pack_across(const T* b, std::int64_t k_stride, std::int64_t depth, std::int64_t cols, T* panels) {
  const std::int64_t panel = depth_room<T>(depth) * kTileCols;
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t k = 0; k < depth; ++k, b += k_stride, panels += kTileCols)
      for (std::int64_t n = 0; n < cols; n += kTileCols)
        for (int j = 0; j < kTileCols; j += kLanes)
          store_units(panels + n / kTileCols * panel + j, load_some(b + n + j, cols - n - j));
  } else {
#if defined(CPU_CAPABILITY_AVX512BF16)
    for (std::int64_t k = 0; k < depth; k += 2, b += 2 * k_stride, panels += 2 * kTileCols)
      for (std::int64_t n = 0; n < cols; n += kTileCols) {
        const Units low = load_some(b + n, cols - n);
        const Units high = k + 1 < depth ? load_some(b + k_stride + n, cols - n) : Units{};
        T* to = panels + n / kTileCols * panel;
        for (int line = 0; k + kAhead < depth && line < 2; ++line) {
          __builtin_prefetch(b + (kAhead + line) * k_stride + n);
          __builtin_prefetch(to + (kAhead + line) * kTileCols, /*to write*/ 1);
        }
        store_units(to, paired<0>(low, high));
        store_units(to + 2 * kLanes, paired<kLanes>(low, high));
      }
#endif
  }
}

// B with contiguous depth.
template <class T>
void pack_along(const T* b, std::int64_t n_stride, std::int64_t depth, std::int64_t cols, T* panels) {
  constexpr std::int64_t kPer = 4 / sizeof(T);
  const std::int64_t units = (depth + kPer - 1) / kPer;
  for (std::int64_t n = 0; n < cols; n += kTileCols, panels += depth_room<T>(depth) * kTileCols)
    for (std::int64_t k = 0; k < units; k += kLanes)
      for (int j = 0; j < kTileCols; j += kLanes)
        transpose_square(b + (n + j) * n_stride + k * kPer, n_stride, cols - n - j, depth - k * kPer,
                         reinterpret_cast<Unit*>(panels) + k * kTileCols + j, kTileCols,
                         std::min<std::int64_t>(kLanes, units - k));
}

template <class T>
void pack_b(const T* b, std::int64_t k_stride, std::int64_t n_stride, std::int64_t depth, std::int64_t cols,
            T* panels) {
  n_stride == 1 ? pack_across(b, k_stride, depth, cols, panels) : pack_along(b, n_stride, depth, cols, panels);
}

// A whose rows lie across: as many of them as a tile has lie side by side, one unit of depth behind another. Vectors
// are stored whole: what is too much of them is where the next unit's rows come.
template <class T>
void pack_a_across(const T* a, std::int64_t k_stride, std::int64_t rows, std::int64_t depth, T* to) {
  constexpr int kPer = 4 / sizeof(T), kUnit = kPer * kTileRows;
  const std::int64_t panel = depth_room<T>(depth) * kTileRows;
  for (std::int64_t row = 0; row < rows; row += kPer * kTileRows, to += kPer * panel) {
    const std::int64_t left = rows - row;
    const auto line = [&](std::int64_t k, int first) {
      return k < depth ? load_some(a + k * k_stride + row + first, left - first) : Units{};
    };
    for (std::int64_t k = 0; k < depth; k += kPer) {
      for (int i = 0; k + kAhead < depth && i < kPer; ++i) __builtin_prefetch(a + (k + kAhead + i) * k_stride + row);
      const auto put = [&](T* at, const auto&... vectors) {
        const Units made[] = {vectors...};
        if (k + kPer >= depth) return static_cast<void>(std::memcpy(static_cast<void*>(at), made, kUnit * sizeof(T)));
        for (const Units& one : made) store_units(at, one), at += kLanes * kPer;
      };
      if constexpr (kPer == 1) {
        if constexpr (kLanes >= kTileRows)
          put(to + k * kUnit, line(k, 0));
        else
          put(to + k * kUnit, line(k, 0), line(k, kLanes));
      } else {
#if defined(CPU_CAPABILITY_AVX512BF16)
        const Units low = line(k, 0), high = line(k + 1, 0);
        T* at = to + k * kTileRows;
        put(at, paired<0>(low, high));
        if (left > kTileRows) put(at + panel, paired<kTileRows>(low, high));
#endif
      }
    }
  }
}

template <class T>
void pack_a(const T* a, std::int64_t i_stride, std::int64_t rows, std::int64_t depth, T* to) {
  const std::int64_t room = depth_room<T>(depth);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * room, a + i * i_stride, depth * sizeof(T));
    if (room > depth) std::memset(static_cast<void*>(to + i * room + depth), 0, sizeof(T));
  }
}
}  // namespace

template <class T>
MatmulKernels<T> matmul_kernels() {
#if defined(CPU_CAPABILITY_AVX512BF16)
  constexpr bool kPairs = true;
#else
  constexpr bool kPairs = false;
#endif
  if constexpr (std::is_same_v<T, float> || (kPairs && std::is_same_v<T, bf16>))
    return {kTileRows, kTileCols, pack_b<T>, pack_a<T>, pack_a_across<T>, multiply<T>, narrow<T>, widen<T>};
  else if constexpr (std::is_same_v<T, bf16>)
    return {.narrow = narrow<T>, .widen = widen<T>};
  else
    return {};
}
HONE_INSTANTIATE_KERNELS(MatmulKernels, matmul_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
