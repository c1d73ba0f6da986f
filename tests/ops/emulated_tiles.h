// AMX's tile instructions in plain C++, for src/ops/cpu/products/tiles-inl.h on machines without them. As Intel's
// manual (instruction set reference, TDPBF16PS) says: pairs are multiplied and summed in fp32, each by one rounding to
// the nearest, even and odd ones apart, then both are added to the sum. Denormal numbers, given or made, are 0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace hone::ops::cpu::CPU_CAPABILITY {

class EmulatedTiles {
 public:
  struct Tile {
    std::uint32_t rows[16][16];
  };

  static EmulatedTiles& mine() {
    static thread_local EmulatedTiles tiles;
    return tiles;
  }
  void configure(const void* config) {
    const auto* bytes = static_cast<const unsigned char*>(config);
    if (reinterpret_cast<std::uintptr_t>(config) % 64 || bytes[0] != 1) throw std::logic_error("not a configuration");
    for (int tile = 0; tile < 8; ++tile)
      if (bytes[16 + 2 * tile] != 64 || bytes[17 + 2 * tile] || bytes[48 + tile] != 16)
        throw std::logic_error("a tile of another shape");
    configured_ = true;
  }
  void release() { configured_ = false; }
  Tile& tile(int number) {
    if (!configured_) throw std::logic_error("a tile without a configuration");
    return tiles_[number];
  }
  void zero(int number) { std::memset(&tile(number), 0, sizeof(Tile)); }
  void load(int number, const void* from, std::int64_t bytes) {
    for (int r = 0; r < 16; ++r) std::memcpy(tile(number).rows[r], static_cast<const char*>(from) + r * bytes, 64);
  }
  void store(int number, void* to, std::int64_t bytes) {
    for (int r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(to) + r * bytes, tile(number).rows[r], 64);
  }
  void add_product(int sum, int a, int b) {
    for (int m = 0; m < 16; ++m) {
      float even[16] = {}, odd[16] = {};
      for (int k = 0; k < 16; ++k) {
        const std::uint32_t x = tile(a).rows[m][k];
        const std::uint32_t(&y)[16] = tile(b).rows[k];
        for (int n = 0; n < 16; ++n) {
          even[n] = normal(std::fma(value(x << 16), value(y[n] << 16), even[n]));
          odd[n] = normal(std::fma(value(x & 0xffff0000), value(y[n] & 0xffff0000), odd[n]));
        }
      }
      std::uint32_t(&to)[16] = tile(sum).rows[m];
      for (int n = 0; n < 16; ++n)
        to[n] = std::bit_cast<std::uint32_t>(normal(value(to[n]) + normal(even[n] + odd[n])));
    }
  }

 private:
  static float value(std::uint32_t bits) {
    constexpr std::uint32_t kExponent = 0x7f800000, kSign = 0x80000000;
    return std::bit_cast<float>((bits & kExponent) == 0 ? bits & kSign : bits);
  }
  static float normal(float x) { return value(std::bit_cast<std::uint32_t>(x)); }

  Tile tiles_[8];
  bool configured_ = false;
};

}  // namespace hone::ops::cpu::CPU_CAPABILITY

#define HONE_TILE_CONFIGURE(config) EmulatedTiles::mine().configure(config)
#define HONE_TILE_RELEASE() EmulatedTiles::mine().release()
#define HONE_TILE_ZERO(tile) EmulatedTiles::mine().zero(tile)
#define HONE_TILE_LOAD(tile, from, bytes) EmulatedTiles::mine().load(tile, from, bytes)
#define HONE_TILE_LOAD_ONCE(tile, from, bytes) HONE_TILE_LOAD(tile, from, bytes)
#define HONE_TILE_STORE(tile, to, bytes) EmulatedTiles::mine().store(tile, to, bytes)
#define HONE_TILE_ADD_PRODUCT(sum, a, b) EmulatedTiles::mine().add_product(sum, a, b)
