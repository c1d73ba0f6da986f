// Which kernels are chosen for which CPU, and what HONE_KERNELS may say about it.
#include "ops/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "ops/backend.h"
#include "ops/check.h"
#include "ops/matmul.h"

namespace hone::ops {
namespace {

const Cpu kSapphireRapids{"GenuineIntel", Level::amx, true}, kSkylake{"GenuineIntel", Level::avx512, true},
    kHaswell{"GenuineIntel", Level::avx2, true}, kZen4{"AuthenticAMD", Level::avx512bf16, true},
    kZen3{"AuthenticAMD", Level::avx2, true}, kArm{"", Level::basic, false};

TEST(ChooseKernels, TakesLibTorchsFp32ProductsOnIntelWithAvx512Alone) {
  EXPECT_EQ(choose_kernels(kSapphireRapids, ""), (KernelChoice{Level::amx, Fp32Products::libtorch}));
  EXPECT_EQ(choose_kernels(kSkylake, ""), (KernelChoice{Level::avx512, Fp32Products::libtorch}));
  EXPECT_EQ(choose_kernels(kHaswell, ""), (KernelChoice{Level::avx2, Fp32Products::ours}));
  EXPECT_EQ(choose_kernels(kZen4, ""), (KernelChoice{Level::avx512bf16, Fp32Products::ours}));
  EXPECT_EQ(choose_kernels(kZen3, ""), (KernelChoice{Level::avx2, Fp32Products::ours}));
  EXPECT_EQ(choose_kernels(kArm, ""), (KernelChoice{Level::basic, Fp32Products::ours}));
  const Cpu without_mkl{"GenuineIntel", Level::amx, false};
  EXPECT_EQ(choose_kernels(without_mkl, "").fp32, Fp32Products::ours);
}

TEST(ChooseKernels, LowersTheLevelAndTheChoiceWithIt) {
  EXPECT_EQ(choose_kernels(kSapphireRapids, "auto"), choose_kernels(kSapphireRapids, ""));
  EXPECT_EQ(choose_kernels(kSapphireRapids, "avx512"), (KernelChoice{Level::avx512, Fp32Products::libtorch}));
  EXPECT_EQ(choose_kernels(kSapphireRapids, "avx2"), (KernelChoice{Level::avx2, Fp32Products::ours}));
  EXPECT_EQ(choose_kernels(kZen4, "amx"), (KernelChoice{Level::avx512bf16, Fp32Products::ours}));
  EXPECT_EQ(choose_kernels(kZen4, "reference"), (KernelChoice{Level::reference, Fp32Products::libtorch}));
}

TEST(ChooseKernels, DoesWhatIsSaidAboutFp32) {
  EXPECT_EQ(choose_kernels(kSapphireRapids, "fp32=ours"), (KernelChoice{Level::amx, Fp32Products::ours}));
  EXPECT_EQ(choose_kernels(kZen3, "fp32=libtorch"), (KernelChoice{Level::avx2, Fp32Products::libtorch}));
  EXPECT_EQ(choose_kernels(kZen4, "avx2,fp32=libtorch"), (KernelChoice{Level::avx2, Fp32Products::libtorch}));
  EXPECT_EQ(choose_kernels(kZen4, "reference,fp32=libtorch").level, Level::reference);
}

TEST(ChooseKernels, RefusesAnythingElse) {
  for (const char* wrong : {"avx3", "AVX2", "fp32", "fp32=", "fp32=mkl", "avx2,avx512", "avx2,", "fp32=ours,fp32=ours"})
    EXPECT_HONE_ERROR(choose_kernels(kZen4, wrong), usage,
                      "expected auto, reference, basic, avx2, avx512, avx512bf16, amx, and after a comma, or alone, "
                      "fp32=ours or fp32=libtorch");
  EXPECT_HONE_ERROR(choose_kernels(kZen4, "reference,fp32=ours"), usage, "reference has no products of ours");
}

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  at::Tensor out = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options());
  matmul_into(out, {{a_MK, b_KN}});
  return out;
}

// By their bits: fp32 is LibTorch's where that is chosen, bf16 never.
TEST(Fp32Products, AreLibTorchsForFp32Alone) {
  const at::Tensor a = test::sample({70, 900}, at::kFloat), b = test::sample({900, 50}, at::kFloat, 2);
  const at::Tensor narrow_a = a.to(at::kBFloat16), narrow_b = b.to(at::kBFloat16);
  const at::Tensor theirs = at::mm(a, b), narrow = product(narrow_a, narrow_b);
  const Fp32ProductsScope scope(Fp32Products::libtorch);
  EXPECT_TRUE(product(a, b).equal(theirs));
  EXPECT_TRUE(product(narrow_a, narrow_b).equal(narrow));
}

// Nothing is rearranged then, neither for a run nor in what is foretold of it.
TEST(Fp32Products, OfLibTorchKeepNoFactorRearranged) {
  for (const at::DeviceType device : {at::kCPU, at::kMeta}) {
    const auto packs = [&](at::ScalarType type) {
      const auto options = at::TensorOptions().dtype(type).device(device);
      at::Tensor out = at::empty({40, 50}, options), packed;
      backend_of(out).products.with_packed(out, at::ones({40, 30}, options), at::ones({30, 50}, options), packed);
      return packed.defined();
    };
    for (const Fp32Products who : {Fp32Products::ours, Fp32Products::libtorch}) {
      const Fp32ProductsScope scope(who);
      EXPECT_EQ(packs(at::kFloat), who == Fp32Products::ours) << device;
      EXPECT_TRUE(packs(at::kBFloat16)) << device;
      EXPECT_FALSE(packs(at::kDouble)) << device;
    }
  }
}

// The same matrices have the same bits wherever they begin, as when they are mapped from a file.
TEST(Fp32Products, OfLibTorchDoNotGoByWhereAMatrixLies) {
  const Fp32ProductsScope scope(Fp32Products::libtorch);
  const auto moved = [](const at::Tensor& x, std::int64_t by) {
    at::Tensor room = at::empty({x.numel() + 16}, x.options());
    return room.narrow(0, by, x.numel()).view(x.sizes()).copy_(x);
  };
  for (const std::int64_t rows : {1, 4, 65}) {
    const at::Tensor a = test::sample({rows, 1003}, at::kFloat), b = test::sample({77, 1003}, at::kFloat, 2);
    const at::Tensor start = test::sample({rows, 77}, at::kFloat, 3);
    at::Tensor first;
    for (const std::int64_t by : {0, 1, 3, 8}) {
      at::Tensor out = moved(start, by);
      matmul_into(out, {{moved(a, by), moved(b, by).t()}}, /*add=*/true);
      if (!first.defined()) first = out.clone();
      EXPECT_TRUE(out.equal(first)) << rows << " rows, " << by;
    }
  }
}

}  // namespace
}  // namespace hone::ops
