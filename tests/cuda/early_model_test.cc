// Tokens by a model and its cache, whose kernels begin early: what they read before they wait is there by then,
// whatever the host has changed between two passes or within one.
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "cuda/early_memory.h"
#include "cuda/emulated_table.h"
#include "models/golden.h"
#include "nn/kv_cache.h"
#include "ops/likeliest.h"

namespace hone::ops::test {
namespace {

// The emulated table, of whose attention with new tokens is kept whether the cache said that it is settled.
std::vector<bool>& all_settled() {
  static std::vector<bool> made;
  return made;
}
Backend listening_backend() {
  Backend table = emulated_backend();
  table.attention.decode_new = [](const NewTokens& tokens, const CacheRoom& room, const Tensor& held_R,
                                  const AttentionOptions& options) {
    all_settled().push_back(room.settled);
    return emulated_backend().attention.decode_new(tokens, room, held_R, options);
  };
  return table;
}

// A pass, then the tokens of the next one and what rows hold by then, as nn/decoding/recorded.cc has it.
Tensor logits_of(const CausalLm& model, const Batch& batch, nn::KvCache& cache, const Tensor& next_R1) {
  Pass pass(batch);
  pass.cache = &cache;
  cache.leave_counts(true);
  const Tensor hidden_BTD = model.forward(batch, pass).hidden_BTD;
  const Tensor logits = model.head().logits(hidden_BTD.select(1, batch.length() - 1), pass);
  likeliest_then(logits, {next_R1, cache.left_counts()});
  return logits.clone();
}

// Logits of many steps of three rows, in which one row leaves while another becomes two, and all read more than one
// token at once; of each step, whether attention found its cache settled in all layers.
struct Steps {
  std::vector<Tensor> logits;
  std::vector<bool> settled;
};
Steps steps_of(const CausalLm& model, int count) {
  const Backend table = listening_backend();
  const BackendScope scope(table);
  nn::KvCache cache(model.cache_spec(), 3);
  Batch batch, one;
  one.ids_BT = at::zeros({3, 1}, at::kLong);
  batch.ids_BT = at::tensor({5, 9, 2, 17, 30, 8, 3, 11, 0, 0, 21, 0, 0, 0, 0}, at::kLong).view({3, 5});
  batch.docs = {{.row = 0, .begin = 0, .end = 5}, {.row = 1, .begin = 0, .end = 3}, {.row = 2, .begin = 0, .end = 1}};
  logits_of(model, batch, cache, one.ids_BT);
  batch.docs.clear(), batch.ids_BT = batch.ids_BT.slice(1, 0, 2).contiguous();
  Steps made;
  for (int step = 0; step < count; ++step) {
    if (step == count / 4) logits_of(model, batch, cache, one.ids_BT);
    if (step == count / 2) cache.keep({2, 0, 2});
    all_settled().clear();
    made.logits.push_back(logits_of(model, one, cache, one.ids_BT));
    made.settled.push_back(std::ranges::all_of(all_settled(), [](bool each) { return each; }));
  }
  return made;
}

struct EarlyCase {
  std::string model;
  int steps = 20;
  Precision precision = Precision::bf16;
  std::vector<emulated::Order> orders = {emulated::Order::forward};
};
std::vector<bool> expect_the_same_early(const EarlyCase& one) {
  const at::NoGradGuard no_graph;
  const auto loaded = load_model((hone::test::kGoldens / one.model).string(), one.precision);
  const CausalLm& model = *loaded->causal_lm();
  std::vector<Steps> early;  // first: what a model keeps of angles grows here, too
  for (const emulated::Order order : one.orders) {
    emulated::order = order;
    const EarlyTensors memory;
    early.push_back(steps_of(model, one.steps));
  }
  emulated::order = emulated::Order::forward;
  const Steps expected = steps_of(model, one.steps);
  for (const Steps& got : early)
    for (int step = 0; step < one.steps; ++step)
      EXPECT_TRUE(got.logits[step].equal(expected.logits[step])) << one.model << ": step " << step;
  return early[0].settled;
}

TEST(CudaEarlyModel, TokensAreTheSame) {
  const std::vector<bool> settled = expect_the_same_early(
      {.model = "llama-gelu",
       .orders = {emulated::Order::forward, emulated::Order::backward, emulated::Order::turns}});
  // Not where the host has said what rows hold, or there was no more room.
  for (const std::size_t step : {0, 5, 10}) EXPECT_FALSE(settled[step]) << step;
  for (const std::size_t step : {1, 6, 11}) EXPECT_TRUE(settled[step]) << step;
  EXPECT_GT(std::ranges::count(settled, true), 14);
}
TEST(CudaEarlyModel, OfAllKindsOfValues) {
  for (const Precision precision : {Precision::fp32, Precision::fp64})
    expect_the_same_early({"llama-gelu", 6, precision});
}
TEST(CudaEarlyModel, OfAnglesThatGrow) {
  const std::vector<bool> settled = expect_the_same_early({"llama-gelu", 70});
  EXPECT_GT(std::ranges::count(settled, true), 60);
}
TEST(CudaEarlyModel, OfWindowsWhichMoveOn) {
  const std::vector<bool> settled = expect_the_same_early({"qwen3-sliding", 40});
  EXPECT_GT(std::ranges::count(settled, true), 25);
  EXPECT_LT(std::ranges::count(settled, true), 37);  // old entries were moved
}
TEST(CudaEarlyModel, OfHeadsThatAreNormed) { expect_the_same_early({"qwen3", 8}); }
TEST(CudaEarlyModel, OfAnglesThatChangeWithTheLength) {
  EXPECT_FALSE(expect_the_same_early({"rope-dynamic-long", 16}).back());
}

}  // namespace
}  // namespace hone::ops::test
