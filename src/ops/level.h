// Which of the ops' implementations run on this machine. Without LibTorch's headers: every kernel file includes it.
#pragma once

namespace hone::ops {

// reference: no kernel of ours at all; avx512bf16: with dot products of bf16 pairs; amx: with tiles of them.
enum class Level { reference, basic, avx2, avx512, avx512bf16, amx };

// The choice for this machine and HONE_KERNELS=[reference|basic|avx2|avx512|avx512bf16|amx][,fp32=ours|libtorch]. Read
// once.
Level level();

}  // namespace hone::ops
