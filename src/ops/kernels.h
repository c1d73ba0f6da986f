// Which implementation the ops use: kernels, at the level this machine has, or the plain composed versions.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace hone::ops {

// reference: no kernel of ours at all; avx512bf16: with dot products of bf16 pairs; amx: with tiles of them.
enum class Level { reference, basic, avx2, avx512, avx512bf16, amx };

// The best level of this machine, lowered by HONE_KERNELS=reference|basic|avx2|avx512|avx512bf16|amx. Read once.
Level level();
std::string_view name(Level level);
bool use_kernels();  // level() != reference

// Tests: sets the level while alive, never above the machine's. Not thread-safe.
class LevelScope {
 public:
  explicit LevelScope(Level level);
  ~LevelScope();
  LevelScope(const LevelScope&) = delete;

 private:
  Level old_;
};

// Tests that emulate what the machine lacks: the level while alive, whatever it has. Not thread-safe.
class PretendLevel {
 public:
  explicit PretendLevel(Level level);
  ~PretendLevel();
  PretendLevel(const PretendLevel&) = delete;

 private:
  Level old_;
};

// True if kernels are on and every tensor is a float, double or bfloat16 tensor in CPU memory, all of one type.
bool kernels_take(std::initializer_list<at::Tensor> tensors);

}  // namespace hone::ops
