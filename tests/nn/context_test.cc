// What ranks that compute a batch together give each other: all tokens of some heads, and back.
#include "nn/context.h"

#include <ATen/ATen.h>

#include <mutex>

#include "dist/ranks.h"
#include "nn/plan.h"
#include "ops/dropout_words.h"
#include "parallel/world_peers.h"

namespace hone::nn {
namespace {

// Two rows of seven with padding on either side: a document of five tokens, and two of three and two.
Batch padded_batch() {
  Batch batch;
  batch.ids_BT = at::arange(14, at::kLong).view({2, 7});
  batch.labels_BT = at::arange(100, 114, at::kLong).view({2, 7});
  batch.labels_BT[0][1] = -100;
  batch.weight_BT = at::ones({2, 7});
  batch.docs = {{.row = 0, .begin = 1, .end = 6}, {.row = 1, .begin = 0, .end = 3}, {.row = 1, .begin = 3, .end = 5}};
  batch.positions_BT = at::zeros({2, 7}, at::kLong);
  batch.extra["some_places"] = at::tensor({1, 8, 11}, at::kLong);
  batch.tokens = 10, batch.supervised = 9;
  return batch;
}
const std::vector<std::int64_t> kPlaces{1, 2, 3, 4, 5, 7, 8, 9, 10, 11};

void on_peers(int ranks, const std::function<void(const Batch&, const World&)>& body) {
  test::on_ranks(ranks, [&](const World& world) {
    const auto peers = std::make_shared<const parallel::WorldPeers>(world.among(ranks));
    body(own_tokens(padded_batch(), peers), world);
  });
}

Tensor numbers(std::int64_t tokens, std::int64_t heads, std::int64_t size, double by = 1) {
  return (at::arange(tokens * heads * size, at::kDouble).view({tokens, heads, size}) * by).sin();
}

TEST(Context, EachRankHasItsTokensInOneRow) {
  for (const int ranks : {2, 3, 4}) {
    std::mutex mutex;
    std::map<int, Batch> all;
    on_peers(ranks, [&](const Batch& own, const World& world) {
      const std::lock_guard lock(mutex);
      all[world.rank()] = own;
    });
    std::vector<Tensor> ids, labels;
    std::int64_t tokens = 0, supervised = 0, begin = 0;
    for (const auto& [rank, own] : all) {
      ids.push_back(own.ids_BT[0]), labels.push_back(own.labels_BT[0]);
      EXPECT_LE(std::abs(own.tokens * ranks - 10), ranks) << "evenly";
      EXPECT_EQ(own.context->begin(), begin);
      EXPECT_EQ(own.context->labels_before(), supervised);
      EXPECT_EQ(own.docs.front().begin, 0);
      EXPECT_EQ(own.docs.back().end, own.tokens);
      tokens += own.tokens, supervised += own.supervised, begin += own.tokens;
    }
    EXPECT_EQ(tokens, 10);
    EXPECT_EQ(supervised, 9);
    EXPECT_TRUE(at::equal(at::cat(ids), at::tensor(kPlaces, at::kLong)));
    EXPECT_TRUE(at::equal(at::cat(labels), padded_batch().labels_BT.flatten().index_select(0, at::cat(ids))));
  }
  on_peers(2, [&](const Batch& own, const World& world) {  // places among its own tokens
    EXPECT_TRUE(at::equal(own.extra.at("some_places"),
                          at::tensor(world.is_first() ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{1, 4},
                                     at::kLong)));
  });
}

TEST(Context, HeadsOfAllTokensAndBack) {
  for (const int ranks : {2, 3, 4})
    on_peers(ranks, [&](const Batch& own, const World& world) {
      const Context& context = *own.context;
      const std::int64_t heads = 12;
      const Tensor q = numbers(10, heads, 3), gate = numbers(10, heads, 1).squeeze(2).to(at::kFloat);
      const auto mine = [&](const Tensor& x) { return x.narrow(0, context.begin(), context.tokens()); };
      const auto made = context.to_heads({mine(q), mine(gate)});
      EXPECT_TRUE(at::equal(made[0], context.own_heads(q, 1)));
      EXPECT_TRUE(at::equal(made[1], context.own_heads(gate, 1)));
      EXPECT_EQ(made[0].size(1), heads / ranks);
      EXPECT_EQ(context.first_head(heads), world.rank() * heads / ranks);
      EXPECT_TRUE(at::equal(context.to_tokens(made[0]), mine(q)));
      EXPECT_TRUE(at::equal(context.to_tokens(made[1]), mine(gate)));
      EXPECT_EQ(context.total(at::full({2}, world.rank() + 1.0))[0].item<double>(), ranks * (ranks + 1) / 2.0);
    });
}

// Gradients are the adjoint's: <A x, y> summed over ranks is <x, A^T y>; also where ranks have the same heads.
TEST(Context, GradientsGoTheSameWayBack) {
  for (const std::int64_t heads : {1, 2, 8})
    on_peers(4, [&](const Batch& own, const World& world) {
      const Context& context = *own.context;
      const Tensor x = numbers(10, heads, 3).narrow(0, context.begin(), context.tokens()).clone().requires_grad_();
      const Tensor made = context.to_heads({x})[0];
      const Tensor y = numbers(10, made.size(1), 3, 0.7 + world.rank());
      (made * y).sum().backward();
      const double there = world.total((made.detach() * y).sum().item<double>());
      EXPECT_NEAR(world.total((x.detach() * x.grad()).sum().item<double>()), there, 1e-12);
      if (heads != 8) return;
      const Tensor back = context.to_tokens(made.detach().requires_grad_());
      EXPECT_TRUE(back.requires_grad());
    });
}

TEST(Context, ARankMayHaveNoTokens) {
  Batch few = padded_batch();
  few.docs = {{.row = 0, .begin = 1, .end = 3}};
  test::on_ranks(4, [&](const World& world) {
    const Batch own = own_tokens(few, std::make_shared<const parallel::WorldPeers>(world.among(4)));
    const Context& context = *own.context;
    const Tensor q = numbers(2, 4, 3);
    const Tensor made = context.to_heads({q.narrow(0, context.begin(), context.tokens())})[0];
    EXPECT_TRUE(at::equal(made, context.own_heads(q, 1)));
    EXPECT_TRUE(at::equal(context.to_tokens(made), q.narrow(0, context.begin(), context.tokens())));
  });
}

TEST(Context, APlanKnowsWhereItsTokensStand) {
  on_peers(2, [&](const Batch& own, const World& world) {
    const Plan plan(own, nullptr);
    EXPECT_EQ(plan.tokens(), 5);
    EXPECT_EQ(plan.row_length(), 7);
    EXPECT_EQ(plan.documents().counted_spans().back().end, 10);
    const Tensor positions = plan.each_flat_token([](const PlannedDoc& doc) { return doc.position; });
    const Tensor second = at::tensor({0, 1, 2, 0, 1}, at::kLong);
    EXPECT_TRUE(at::equal(positions, world.is_first() ? at::arange(5, at::kLong) : second));
  });
}

TEST(DropoutWords, OfSomeRowsAreThoseOfAll) {
  const ops::DropoutWords all(7, 23, 5);
  const auto rows = std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{3, 4, 11, 22});
  const ops::DropoutWords some({7, rows}, 4, 5);
  for (std::size_t i = 0; i < rows->size(); ++i)
    EXPECT_EQ(some.rows[i], all.rows[static_cast<std::size_t>((*rows)[i])]);
  EXPECT_EQ(some.columns, all.columns);
  for (const std::int64_t first : {0, 1, 4, 6}) {
    const ops::DropoutWords behind(7, 23 - first, 5, first);
    EXPECT_TRUE(std::equal(behind.rows.begin(), behind.rows.end(), all.rows.begin() + first)) << first;
  }
}

}  // namespace
}  // namespace hone::nn
