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

}  // namespace hone::ops::cpu::CPU_CAPABILITY
#endif
