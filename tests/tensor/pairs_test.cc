// Pairs of documents, and sums over documents.
#include "tensor/pairs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "tensor/by_document.h"

namespace hone {
namespace {

// Two rows of 8; documents of both roles, padding behind them.
Batch pairs_batch() {
  Batch batch;
  batch.ids_BT = at::zeros({2, 8}, at::kLong);
  const auto add = [&](std::int32_t row, std::int32_t begin, std::int32_t end, std::int32_t group, Role role) {
    Doc doc;
    doc.row = row, doc.begin = begin, doc.end = end, doc.group = group, doc.role = role;
    batch.docs.push_back(doc);
  };
  add(0, 0, 3, 7, Role::rejected);
  add(0, 3, 5, 7, Role::chosen);
  add(1, 0, 4, 2, Role::chosen);
  add(1, 4, 7, 2, Role::rejected);
  return batch;
}

TEST(Pairs, BothSidesStandAtTheSamePlace) {
  const Pairs pairs = pairs_of(pairs_batch());
  ASSERT_EQ(pairs.count(), 2);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {{1, 0}, {2, 3}};
  for (const auto& [chosen, rejected] : expected) {
    bool found = false;
    for (std::int64_t i = 0; i < 2; ++i)
      found |= pairs.chosen_P[i].item<std::int64_t>() == chosen && pairs.rejected_P[i].item<std::int64_t>() == rejected;
    EXPECT_TRUE(found) << chosen;
  }
  EXPECT_EQ(count_pairs(pairs_batch()), 2);
  Batch alone = pairs_batch();
  alone.docs.pop_back();
  EXPECT_HONE_ERROR(pairs_of(alone), data, "expected one that is chosen and one that is rejected");
}

// Of numbers whose differences fp32 would lose; and not of padding.
TEST(Pairs, SumsOfDocumentsAreExact) {
  Tensor values = at::zeros({16}, at::kFloat);
  values[0] = 1e8f, values[1] = 0.25f, values[2] = 0.5f;  // the first document
  values[5] = 3;                                          // padding
  values[8] = 1, values[11] = 2;
  values.requires_grad_(true);
  const Tensor sums = sums_by_document(values, pairs_batch());
  EXPECT_EQ(sums.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(sums.detach(), at::tensor({1e8 + 0.75, 0.0, 3.0, 0.0}, at::kDouble)));
  sums.sum().backward();
  EXPECT_EQ(values.grad()[5].item<float>(), 0);
  EXPECT_EQ(values.grad()[11].item<float>(), 1);
}

}  // namespace
}  // namespace hone
