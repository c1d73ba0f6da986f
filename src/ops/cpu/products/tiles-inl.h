// Products of blocks by AMX: two by two tiles of 16 x 16 sums. Included by kernel files only.
//
// The tile registers: 0 to 3 sums, 4 and 5 of A, 6 and 7 of B; each has 16 rows of 64 bytes. A row of A is 16 pairs of
// bf16 along the row, a row of B the pairs of 16 columns: what product-inl.h calls units.
#pragma once

#include "ops/cpu/products/product-inl.h"

#if defined(CPU_CAPABILITY_AMX)

#if defined(HONE_EMULATED_TILES)
#include "ops/emulated_tiles.h"
#else
// The compilers' own intrinsics do not say that a load reads memory.
#define HONE_TILE_CONFIGURE(config) asm volatile("ldtilecfg (%0)" ::"r"(config) : "memory")
#define HONE_TILE_RELEASE() asm volatile("tilerelease" ::: "memory")
#define HONE_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::)
#define HONE_TILE_LOAD(tile, from, bytes) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(static_cast<std::int64_t>(bytes)) : "memory")
// The same, past the L1 cache.
#define HONE_TILE_LOAD_ONCE(tile, from, bytes) \
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(static_cast<std::int64_t>(bytes)) : "memory")
#define HONE_TILE_STORE(tile, to, bytes) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(static_cast<std::int64_t>(bytes)) : "memory")
#define HONE_TILE_ADD_PRODUCT(sum, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)
#endif

namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr std::int64_t kTile = 16;  // rows of a tile, and units or sums in each

// The thread's tile registers are ready between the two.
inline void configure_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
  } const config;
  static_assert(sizeof(config) == 64);
  HONE_TILE_CONFIGURE(&config);
}
inline void release_tiles() { HONE_TILE_RELEASE(); }

class TileRegisters {
 public:
  TileRegisters() { configure_tiles(); }
  ~TileRegisters() { release_tiles(); }
  TileRegisters(const TileRegisters&) = delete;
};

// sums[2 kTile][2 kTile] = A B over `depth` units, a multiple of kTile; without `fresh` it is added to them.
HONE_INLINE void multiply_tiles(const std::uint32_t* a, std::int64_t a_stride, const std::uint32_t* b,
                                std::int64_t b_stride, std::int64_t depth, bool fresh, float* sums,
                                std::int64_t stride) {
  const std::int64_t a_bytes = a_stride * 4, b_bytes = b_stride * 4, bytes = stride * 4;
  if (fresh) {
    HONE_TILE_ZERO(0);
    HONE_TILE_ZERO(1);
    HONE_TILE_ZERO(2);
    HONE_TILE_ZERO(3);
  } else {
    HONE_TILE_LOAD(0, sums, bytes);
    HONE_TILE_LOAD(1, sums + kTile, bytes);
    HONE_TILE_LOAD(2, sums + kTile * stride, bytes);
    HONE_TILE_LOAD(3, sums + kTile * stride + kTile, bytes);
  }
  for (std::int64_t u = 0; u < depth; u += kTile) {
    HONE_TILE_LOAD(4, a + u, a_bytes);
    HONE_TILE_LOAD(5, a + kTile * a_stride + u, a_bytes);
    HONE_TILE_LOAD(6, b + u * b_stride, b_bytes);
    HONE_TILE_LOAD(7, b + u * b_stride + kTile, b_bytes);
    HONE_TILE_ADD_PRODUCT(0, 4, 6);
    HONE_TILE_ADD_PRODUCT(1, 4, 7);
    HONE_TILE_ADD_PRODUCT(2, 5, 6);
    HONE_TILE_ADD_PRODUCT(3, 5, 7);
  }
  HONE_TILE_STORE(0, sums, bytes);
  HONE_TILE_STORE(1, sums + kTile, bytes);
  HONE_TILE_STORE(2, sums + kTile * stride, bytes);
  HONE_TILE_STORE(3, sums + kTile * stride + kTile, bytes);
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
#endif
