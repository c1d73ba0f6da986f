#include "tensor/tensor_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(TensorMemory, FreedTensorsMakeRoomForOthersOfTheSameSize) {
  const at::Tensor before = at::ones({1 << 20});
  if (!use_tensor_region()) GTEST_SKIP() << "no region, or a sanitizer watches memory";
  const at::Tensor small = at::ones({3});
  std::vector<at::Tensor> large;
  for (int i = 0; i < 8; ++i) large.push_back(at::full({1 << 20}, i));
  const void* freed = large[3].const_data_ptr();
  large[3].reset();
  const at::Tensor again = at::zeros({1 << 20});
  EXPECT_EQ(again.const_data_ptr(), freed);
  large.push_back(large[0].clone().resize_({1 << 21}));
  for (const int i : {0, 1, 2, 4, 5, 6, 7}) EXPECT_EQ(large[i].sum().item<float>(), static_cast<float>(i << 20));
  EXPECT_EQ(before.sum().item<float>(), 1 << 20);
  EXPECT_EQ(small.sum().item<float>(), 3);
}

TEST(TensorMemory, FreshZerosAreZeroWhateverTheirMemoryWas) {
  use_tensor_region();
  for (const std::int64_t size : {1, 100, 20000, 1 << 20, (3 << 20) + 7}) {
    const at::Tensor like = at::full({size}, 3.0f);
    const at::Tensor fresh = fresh_zeros_like(like);
    EXPECT_EQ(fresh.count_nonzero().item<std::int64_t>(), 0) << size;
    EXPECT_EQ(fresh.sizes(), like.sizes());
    fresh.fill_(7);
  }
  for (const std::int64_t size : {20000, 1 << 20})  // by now used before
    EXPECT_EQ(fresh_zeros_like(at::ones({size})).count_nonzero().item<std::int64_t>(), 0) << size;
}

}  // namespace
}  // namespace hone
