// Host batches become tensors.
#include "hone/batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor/compare.h"
#include "tensor/dtype.h"

namespace hone {
namespace {

TEST(Batch, HoldsWhatTheHostHeld) {
  HostBatch host;
  host.rows = 1, host.length = 3, host.tokens = 2, host.supervised = 1;
  host.ids = {5, 6, 0}, host.labels = {6, -100, -100}, host.segments = {1, 1, 0}, host.positions = {0, 1, 0},
  host.weight = {1, 0, 0};
  host.docs = {{.row = 0, .begin = 0, .end = 2}};
  const Batch batch = to_batch(host).to(at::kCPU);
  EXPECT_TRUE(at::equal(batch.ids_BT, at::tensor({5, 6, 0}, at::kLong).view({1, 3})));
  EXPECT_TRUE(at::equal(batch.weight_BT, at::tensor({1.0F, 0.0F, 0.0F}).view({1, 3})));
  EXPECT_EQ(batch.rows(), 1);
  EXPECT_EQ(batch.length(), 3);
  EXPECT_EQ(batch.docs.size(), 1u);
  EXPECT_EQ(batch.tokens, 2);
}
TEST(Batch, RefusesBuffersOfAnotherSize) {
  HostBatch host;
  host.rows = 1, host.length = 3;
  EXPECT_THROW(to_batch(host), Error);
}

TEST(Difference, NamesTheWorstElement) {
  const at::Tensor a = at::zeros({2, 2}), b = at::zeros({2, 2});
  EXPECT_EQ(difference(a, b, 0), "");
  b[1][0] = 0.5;
  EXPECT_NE(difference(a, b, 0.1).find("[1, 0]"), std::string::npos);
  EXPECT_NE(difference(at::full({1}, NAN), at::zeros({1}), 1e9), "");
  EXPECT_NE(difference(at::zeros({1}), at::zeros({2}), 1e9), "");
  EXPECT_EQ(difference(at::full({1}, INFINITY), at::full({1}, INFINITY), 0), "");
}

TEST(Dtype, NamesGoBothWays) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong, at::kBool}) {
    EXPECT_EQ(from_safetensors_name(safetensors_name(type)), type);
    EXPECT_EQ(from_hf_name(hf_name(type)), type);
  }
  EXPECT_EQ(from_hf_name("torch.bfloat16"), at::kBFloat16);
  EXPECT_EQ(from_safetensors_name("F8"), std::nullopt);
}

}  // namespace
}  // namespace hone
