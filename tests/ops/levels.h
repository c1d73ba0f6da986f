// Every kernel level that can be tested here: those of the machine, and AMX's with its instructions emulated; at all of
// them fp32 matrices are multiplied by ours, whatever this CPU has better.
#pragma once

#include <functional>
#include <string>

#include "ops/cpu/products/attention.h"
#include "ops/cpu/products/skinny.h"
#include "ops/cpu/products/tile_product.h"
#include "ops/kernels.h"

#if defined(HONE_KERNELS_AMX)
namespace hone::ops::cpu {
HONE_KERNELS_OF(AMX_EMULATED, AttentionForward, attention_forward)
HONE_KERNELS_OF(AMX_EMULATED, AttentionBackward, attention_backward)
HONE_KERNELS_OF(AMX_EMULATED, SkinnyKernels, skinny_kernels)
HONE_KERNELS_OF(AMX_EMULATED, TileProductKernels, tile_product_kernels)
}  // namespace hone::ops::cpu
#endif

namespace hone::ops::test {

#if defined(HONE_KERNELS_AMX)
// The level is amx, by emulated tiles, while it lives. REQUIRES: AVX-512 for bf16.
class EmulatedAmx {
 public:
  EmulatedAmx()
      : pretended_(Level::amx),
        forward_(cpu::attention_forward_of_tiles, cpu::AMX_EMULATED::attention_forward<cpu::bf16>),
        backward_(cpu::attention_backward_of_tiles, cpu::AMX_EMULATED::attention_backward<cpu::bf16>),
        skinny_(cpu::skinny_kernels_of_tiles, cpu::AMX_EMULATED::skinny_kernels<cpu::bf16>),
        products_(cpu::tile_product_kernels_of_tiles, cpu::AMX_EMULATED::tile_product_kernels<cpu::bf16>) {}

 private:
  template <class Make>
  struct Swapped {
    Swapped(Make*& place, Make* now) : place(place), old(place) { place = now; }
    ~Swapped() { place = old; }
    Swapped(const Swapped&) = delete;
    Make*& place;
    Make* const old;
  };
  PretendLevel pretended_;
  Swapped<cpu::AttentionForward<cpu::bf16>()> forward_;
  Swapped<cpu::AttentionBackward<cpu::bf16>()> backward_;
  Swapped<cpu::SkinnyKernels<cpu::bf16>()> skinny_;
  Swapped<cpu::TileProductKernels<cpu::bf16>()> products_;
};
#endif

inline void at_each_kernel_level(const std::function<void(const std::string& name)>& run) {
  const Fp32ProductsScope ours(Fp32Products::ours);
  for (const Level wanted : {Level::basic, Level::avx2, Level::avx512, Level::avx512bf16, Level::amx}) {
    const LevelScope scope(wanted);
    if (level() == wanted) run(std::string(name(wanted)));
  }
#if defined(HONE_KERNELS_AMX)
  if (level() < Level::avx512bf16) return;
  const EmulatedAmx emulated;
  run("amx, emulated");
#endif
}

}  // namespace hone::ops::test
