// Products with few rows; compiled once per instruction set.
#include "ops/cpu/products/skinny.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "ops/cpu/products/rows-inl.h"
#include "ops/cpu/products/tiles-inl.h"
#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

#if defined(HONE_DOTS)

// Of one value, so that a loop of a few of them becomes one short vector.
template <class T>
HONE_INLINE void put(T* to, float x) {
  if constexpr (std::is_same_v<T, bf16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    to->x = static_cast<std::uint16_t>(x != x ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  } else {
    *to = x;
  }
}

template <class T>
void multiply_tiles(const SkinnyProduct<T>& p) {
  using L = Dots<T>;
  each_sum<L>(RowsByRows<T>{p.x, p.weight, p.rows, p.in, p.outs},
              [&](std::int64_t row, std::int64_t out, float* sums, std::int64_t count) {
                T* y = p.y + row * p.stride + out;
                if (p.bias)
                  for (std::int64_t o = 0; o < count; ++o) sums[o] += load_one(p.bias + out + o);
                if (count == L::kOuts)  // a number known here makes it one vector
                  for (int o = 0; o < L::kOuts; ++o) put(y + o, sums[o]);
                else
                  for (std::int64_t o = 0; o < count; ++o) put(y + o, sums[o]);
              });
}

#endif

template <class T>
void multiply_plainly(const SkinnyProduct<T>& p) {
  using W = Wide<T>;
  for (std::int64_t o = 0; o < p.outs; ++o)
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const T *x = p.x + r * p.in, *weight = p.weight + o * p.in;
      const W sum =
          sum_over<W>(p.in, [&](std::int64_t i, auto part) { return load(x + i, part) * load(weight + i, part); });
      store_one(p.y + r * p.stride + o, p.bias ? sum + load_one(p.bias + o) : sum);
    }
}

#if defined(CPU_CAPABILITY_AMX)

constexpr std::int64_t kWeights = 2 * kTile, kDeep = 32;  // weight rows at a time, and values that a step covers
constexpr std::int64_t kAhead = 24 << 10;                 // bytes; weights come from memory as they lie

// Memory of a thread that stays when it is big enough: of this file alone, as what is compiled for AMX must not be
// the linker's choice for everybody.
struct ThreadRoom {
  void* memory = nullptr;
  std::size_t size = 0;
  ~ThreadRoom() { std::free(memory); }
  void* get(std::size_t bytes) {
    if (bytes <= size) return memory;
    std::free(memory);
    memory = std::aligned_alloc(64, bytes), size = memory ? bytes : 0;
    if (!memory) throw std::bad_alloc();
    return memory;
  }
};

// Up to 16 rows of x as the right factor's tiles, one for each step: pairs of values by rows.
struct PackedRows {
  std::int64_t steps;
  const std::uint32_t* tiles;
  const std::uint32_t* step(std::int64_t s) const { return tiles + s * kTile * kTile; }
};

std::int64_t steps_of(std::int64_t in) { return (in + kDeep - 1) / kDeep; }

std::int64_t packed_bytes(std::int64_t rows, std::int64_t in) {
  return rows <= kRowsByVectors ? 0 : steps_of(in) * kTile * 64;
}

void pack_rows(const SkinnyProduct<bf16>& p, void* to) {
  auto* line = static_cast<std::uint32_t*>(to);
  for (std::int64_t k = 0; k < p.in; k += kDeep) {
    const auto there = static_cast<__mmask32>((std::uint64_t{1} << std::min(kDeep, p.in - k)) - 1);
    Words rows[kTile];
    HONE_UNROLL
    for (int r = 0; r < kTile; ++r)
      rows[r] = r < p.rows ? (Words)_mm512_maskz_loadu_epi16(there, p.x + r * p.in + k) : Words{};
    exchange_rows<1>(rows);
    HONE_UNROLL
    for (int i = 0; i < kTile; ++i, line += kTile) store_lanes(line, rows[i]);
  }
}

PackedRows packed_rows(const SkinnyProduct<bf16>& p) {
  static thread_local ThreadRoom room;
  const void* packed = p.packed;
  if (!packed) {
    void* own = room.get(packed_bytes(p.rows, p.in));
    pack_rows(p, own);
    packed = own;
  }
  return {steps_of(p.in), static_cast<const std::uint32_t*>(packed)};
}

// Sums [weight][row of x] of the weights at `weights`, `stride` values apart; `whole` steps where they lie, and one of
// what is left over if need be.
void add_up_tiles(const bf16* weights, std::int64_t stride, std::int64_t count, std::int64_t in, const PackedRows& x,
                  float* sums) {
  const std::int64_t bytes = stride * 2, whole = count == kWeights ? in / kDeep : 0;
  const auto* at = reinterpret_cast<const char*>(weights);
  const char *lower = at + kTile * bytes, *ahead = at + kAhead;
  HONE_TILE_ZERO(0);
  HONE_TILE_ZERO(1);
  for (std::int64_t s = 0; s < whole; ++s, at += 64, lower += 64, ahead += 64 * kWeights) {
    HONE_UNROLL
    for (int i = 0; i < kWeights; ++i) __builtin_prefetch(ahead + i * 64);  // in the order in which they lie
    HONE_TILE_LOAD(6, x.step(s), 64);
    HONE_TILE_LOAD(4, at, bytes);
    HONE_TILE_ADD_PRODUCT(0, 4, 6);
    HONE_TILE_LOAD(5, lower, bytes);
    HONE_TILE_ADD_PRODUCT(1, 5, 6);
  }
  for (std::int64_t s = whole; s < x.steps; ++s) {
    alignas(64) bf16 edge[kWeights * kDeep];
    std::memset(static_cast<void*>(edge), 0, sizeof edge);
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(static_cast<void*>(edge + i * kDeep), weights + i * stride + s * kDeep,
                  std::min(kDeep, in - s * kDeep) * sizeof(bf16));
    HONE_TILE_LOAD(6, x.step(s), 64);
    HONE_TILE_LOAD(4, edge, 64);
    HONE_TILE_ADD_PRODUCT(0, 4, 6);
    HONE_TILE_LOAD(5, edge + kTile * kDeep, 64);
    HONE_TILE_ADD_PRODUCT(1, 5, 6);
  }
  HONE_TILE_STORE(0, sums, 64);
  HONE_TILE_STORE(1, sums + kTile * kTile, 64);
}

// Weights are the left factor, so that they need no packing.
void multiply_by_amx(const SkinnyProduct<bf16>& p) {
  if (p.rows <= kRowsByVectors) return multiply_tiles<bf16>(p);
  const PackedRows x = packed_rows(p);
  const TileRegisters tiles;
  alignas(64) float sums[kWeights * kTile], turned[kTile * kWeights];
  for (std::int64_t out = 0; out < p.outs; out += kWeights) {
    const std::int64_t count = std::min(kWeights, p.outs - out);
    add_up_tiles(p.weight + out * p.in, p.in, count, p.in, x, sums);
    transpose(sums, kTile, kWeights, kTile, turned, kWeights);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const float* row = turned + r * kWeights;
      bf16* y = p.y + r * p.stride + out;
      each_vector<float>(count, [&](std::int64_t i, auto part) {
        const Vec<float> sum = load(row + i, part);
        store(y + i, p.bias ? sum + load(p.bias + out + i, part) : sum, part);
      });
    }
  }
}

#endif

}  // namespace

template <class T>
SkinnyKernels<T> skinny_kernels() {
#if defined(CPU_CAPABILITY_AMX)
  return {multiply_by_amx, packed_bytes, pack_rows};
#endif
#if defined(HONE_DOTS)
  if constexpr (!std::is_same_v<T, double>) return {multiply_tiles<T>};
#endif
  return {multiply_plainly<T>};
}
HONE_INSTANTIATE_TILE_KERNELS(SkinnyKernels, skinny_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
