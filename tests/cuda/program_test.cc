// The program's own way from a kernel's source to what a GPU loads, as far as it goes without one.
#include <gtest/gtest.h>

#include "harness/errors.h"

#if defined(USE_C10D_NCCL)  // a build with CUDA
#include "ops/cuda/program.h"
#endif

namespace hone::test {
namespace {

TEST(GpuProgram, CompilesItsSources) {
#if defined(USE_C10D_NCCL)
  const std::vector<std::string> names = ops::cuda::source_names();
  EXPECT_EQ(names.size(), 4u);
  for (const std::string& name : names)
    EXPECT_NE(ops::cuda::compiled(name, "compute_90").find(".entry " + name + "_bf16("), std::string::npos) << name;
  EXPECT_HONE_ERROR(ops::cuda::compiled("rope", "compute_1"), bug, "kernels rope for compute_1: NVRTC: ");
  EXPECT_HONE_ERROR(ops::cuda::compiled("no_such", "compute_90"), bug, "no source is called no_such");
#else
  GTEST_SKIP() << "a build without CUDA";
#endif
}

}  // namespace
}  // namespace hone::test
