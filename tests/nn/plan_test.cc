// Which tokens are on the flat axis, and where documents lie on it.
#include "nn/plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/kv_cache.h"

namespace hone::nn {
namespace {

Batch batch_of(const Tensor& segments_BT) {
  Batch batch;
  batch.ids_BT = at::zeros_like(segments_BT);
  batch.segments_BT = segments_BT;
  return batch;
}

TEST(Plan, LeavesPaddingOut) {
  const Batch batch = batch_of(at::tensor({0, 1, 1, 2, 0, 1, 1, 1, 0, 0}, at::kLong).view({2, 5}));
  const Plan plan(batch, nullptr);
  ASSERT_EQ(plan.docs().size(), 3u);
  EXPECT_EQ(plan.tokens(), 6);
  EXPECT_EQ(plan.docs()[1].span.begin, 2);
  EXPECT_EQ(plan.docs()[2].row, 1);
  EXPECT_EQ(plan.docs()[2].span.end, 6);
  const Tensor x = at::arange(20, at::kFloat).view({2, 5, 2});
  const Tensor flat = plan.to_flat(x);
  EXPECT_EQ(flat.sizes(), (std::vector<std::int64_t>{1, 6, 2}));
  EXPECT_EQ(flat[0][0][0].item<float>(), 2);
  const Tensor back = plan.from_flat(flat);
  EXPECT_TRUE(at::equal(back, x * (batch.segments_BT != 0).unsqueeze(-1)));
}
TEST(Plan, ABatchWithoutPaddingIsAView) {
  const Plan plan(batch_of(at::ones({2, 3}, at::kLong)), nullptr);
  const Tensor x = at::zeros({2, 3, 4});
  EXPECT_EQ(plan.to_flat(x).data_ptr(), x.data_ptr());
  EXPECT_EQ(plan.documents().spans().size(), 2u);
}
TEST(Plan, ABatchOfPaddingHasNoTokens) {
  const Plan plan(batch_of(at::zeros({1, 3}, at::kLong)), nullptr);
  EXPECT_EQ(plan.tokens(), 0);
  EXPECT_EQ(plan.from_flat(plan.to_flat(at::ones({1, 3, 2}))).abs().sum().item<float>(), 0);
}
TEST(Plan, RefusesDocumentsThatOverlap) {
  Batch batch = batch_of(at::ones({1, 4}, at::kLong));
  batch.docs = {{.row = 0, .begin = 0, .end = 3}, {.row = 0, .begin = 2, .end = 4}};
  EXPECT_THROW(Plan(batch, nullptr), Error);
  batch.docs = {{.row = 0, .begin = 0, .end = 5}};
  EXPECT_THROW(Plan(batch, nullptr), Error);
}

RopeConfig dynamic() {
  RopeConfig config;
  config.rope_type = RopeType::dynamic;
  config.factor = 2.0;
  return config;
}

TEST(Plan, EachDocumentHasTheFrequenciesOfItsOwnLength) {
  const Rope rope(dynamic(), 8, /*max_positions=*/4);
  Batch batch = batch_of(at::ones({1, 9}, at::kLong));
  batch.docs = {{.row = 0, .begin = 0, .end = 3}, {.row = 0, .begin = 3, .end = 9}};
  Plan both(batch, nullptr);
  batch.docs = {{.row = 0, .begin = 3, .end = 9}};
  Plan alone(batch, nullptr);
  const auto cos = [&](Plan& plan) {
    const ops::RopeTable& table = plan.rope(rope, at::empty({0}));
    return table.cos.index_select(0, table.rows_N);
  };
  EXPECT_TRUE(at::equal(cos(both).slice(0, 3), cos(alone)));
  EXPECT_FALSE(at::equal(cos(both).slice(0, 0, 3).slice(0, 1), cos(alone).slice(0, 1, 3)));
}

// Two rows: the first goes on after `first` tokens, the second after 10.
void fill(KvCache& cache, std::int32_t first) {
  Batch batch = batch_of(at::ones({2, first}, at::kLong));
  batch.docs = {{.row = 0, .begin = 0, .end = first}, {.row = 1, .begin = first - 10, .end = first}};
  const Plan plan(batch, &cache);
  const Tensor kv = at::zeros({plan.tokens(), 1, 8});
  cache.attend(0, at::zeros({plan.tokens(), 2, 8}), kv, kv, plan, {});
  cache.advance(plan);
}

TEST(Plan, ADecodeStepTakesItsTableFromTheCache) {
  KvCache cache({{{1, 8, 0}}}, 2);
  fill(cache, 1000);
  const Rope rope({}, 8, 2048);
  Plan step(batch_of(at::ones({2, 1}, at::kLong)), &cache), again(batch_of(at::ones({2, 1}, at::kLong)), &cache);
  const ops::RopeTable& table = step.rope(rope, at::empty({0}));
  const Tensor sin = table.sin.index_select(0, table.rows_N);
  EXPECT_NEAR(sin[0][0].item<double>(), std::sin(1000.0), 1e-6);
  EXPECT_NEAR(sin[1][0].item<double>(), std::sin(10.0), 1e-6);
  EXPECT_EQ(again.rope(rope, at::empty({0})).sin.data_ptr(), table.sin.data_ptr());
}

TEST(Plan, ADecodeStepOfDistantRowsBeyondTheTrainedLengthHasASmallTable) {
  KvCache cache({{{1, 8, 0}}}, 2);
  fill(cache, 1000);
  RopeConfig config;
  config.rope_type = RopeType::longrope;
  config.original_max_position_embeddings = 4;
  config.short_factor = {1, 1, 1, 1};
  config.long_factor = {2, 2, 2, 2};
  config.attention_factor = 1;
  const Rope rope(config, 8, 2048);
  Plan step(batch_of(at::ones({2, 1}, at::kLong)), &cache);
  const ops::RopeTable& table = step.rope(rope, at::empty({0}));
  EXPECT_EQ(table.cos.size(0), 2);
  EXPECT_NEAR(table.sin[0][0].item<double>(), std::sin(500.0), 1e-6);
  EXPECT_NEAR(table.sin[1][0].item<double>(), std::sin(5.0), 1e-6);
}

}  // namespace
}  // namespace hone::nn
