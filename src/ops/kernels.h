// Which implementation the ops use: kernels, at the level this machine has, or the plain composed versions; and who
// multiplies fp32 matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "ops/level.h"

namespace hone::ops {

// Who multiplies fp32 matrices on the CPU, weights' gradients included: kernels of ours, or LibTorch, which has MKL.
// Products of few rows, as in decoding, are ours at every level but reference.
enum class Fp32Products { ours, libtorch };

struct KernelChoice {
  Level level = Level::basic;
  Fp32Products fp32 = Fp32Products::ours;
  bool operator==(const KernelChoice&) const = default;
};

// What the choice goes by: nothing that is timed, so that every run on a machine has the same bits.
struct Cpu {
  std::string vendor;  // as CPUID says it
  Level best = Level::basic;
  bool mkl = false;  // LibTorch multiplies by MKL
};

// `wanted`, as HONE_KERNELS has it: nothing, auto or a level (the CPU's best if that is lower); after a comma or alone
// fp32=ours or fp32=libtorch. By default fp32 is multiplied by LibTorch on Intel's CPUs with AVX-512, where MKL was
// measured to be faster, and by ours elsewhere. Throws Error(usage).
KernelChoice choose_kernels(const Cpu& cpu, std::string_view wanted);

// The rest of what level() is of: read once.
Fp32Products fp32_products();
std::string_view name(Level level);
std::string_view name(Fp32Products products);
std::string chosen_kernels();  // as HONE_KERNELS has it
// Whether HONE_KERNELS can say that here, of such a text of this machine's or another's.
bool has_kernels(const std::string& chosen);
bool use_kernels();  // level() != reference
// Whether it is LibTorch that multiplies matrices of this type, few rows excepted: it always is for fp64.
bool library_multiplies(at::ScalarType type);

// Tests: says who multiplies fp32 matrices while alive. Not thread-safe.
class Fp32ProductsScope {
 public:
  explicit Fp32ProductsScope(Fp32Products products);
  ~Fp32ProductsScope();
  Fp32ProductsScope(const Fp32ProductsScope&) = delete;

 private:
  Fp32Products old_;
};

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

namespace cpu {

// Calls run(T{}) with the C++ type of a tensor that kernels_take() accepted.
template <class Run>
auto with_type(at::ScalarType type, Run&& run) {
  if (type == at::kFloat) return run(float{});
  if (type == at::kDouble) return run(double{});
  return run(c10::BFloat16{});
}

}  // namespace cpu
}  // namespace hone::ops
