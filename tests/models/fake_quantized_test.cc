// Weights and inputs that layers round, and models of such layers, against torchao and transformers
// (tools/golden/golden_qat.py).
#include "harness/errors.h"
#include "models/golden_checks.h"
#include "nn/fake_quantize.h"
#include "ops/fake_quantize.h"
#include "ops/grid_cases.h"

namespace hone::test {
namespace {

const std::map<std::string, Tensor>& golden_grids() {
  static const std::map<std::string, Tensor> all = read_all("tests/golden/train/qat/ops.safetensors");
  return all;
}

// Values to the bit; a gradient is the given one, and none where torchao has none.
TEST(FakeQuantized, WeightsAndTheirGradientsAreTorchaos) {
  const Tensor direction = golden_grids().at("direction");
  for (const GridCase& one : kGridCases) {
    SCOPED_TRACE(one.name);
    const Tensor weight = golden_grids().at("x").clone().requires_grad_(true);
    const Tensor made = ops::fake_quantized(weight, one.grid, one.group, nullptr);
    EXPECT_TRUE(at::equal(made.detach(), golden_grids().at(one.name)));
    (made * direction).sum().backward();
    if (one.grid == Grid::float8) {
      EXPECT_TRUE(at::equal(weight.grad(), direction));
      continue;
    }
    const Tensor none = golden_grids().at(std::string(one.name) + ".grad").eq(0);
    EXPECT_TRUE(at::equal(weight.grad(), direction.masked_fill(none, 0)));
    EXPECT_GT(none.sum().item<std::int64_t>(), 0);  // the largest of a group, where it is positive
  }
}

TEST(FakeQuantized, InputsAndTheirGradientsAreTorchaos) {
  const Tensor direction = golden_grids().at("direction");
  const Tensor given = golden_grids().at("x").clone().requires_grad_(true);
  const Tensor made = ops::fake_quantized_rows(given, Grid::int8);
  EXPECT_TRUE(at::equal(made.detach(), golden_grids().at("rows.int8")));
  (made * direction).sum().backward();
  const Tensor none = golden_grids().at("rows.int8.grad").eq(0);
  EXPECT_TRUE(at::equal(given.grad(), direction.masked_fill(none, 0)));
  EXPECT_TRUE(at::equal(ops::fake_quantized_rows(given.detach(), Grid::float8), golden_grids().at("float8")));
}

struct RoundedCase {
  const char* name;
  FakeQuantized grids;
};
constexpr RoundedCase kRounded[] = {{"int4", {Grid::int4, Grid::none, 8}},
                                    {"int4.rows", {Grid::int4, Grid::int8, 8}},
                                    {"int8", {Grid::int8, Grid::int8, 0}},
                                    {"float8", {Grid::float8, Grid::float8, 0}}};

const std::map<std::string, Tensor>& rounded_golden() {
  static const std::map<std::string, Tensor> all = read_all("tests/golden/train/qat/llama.safetensors");
  return all;
}

TEST(FakeQuantizedLlama, LogitsAreTorchaos) {
  const Golden golden("llama");
  for (const RoundedCase& one : kRounded) {
    SCOPED_TRACE(one.name);
    const auto model = golden.model();
    nn::fake_quantize(*model, one.grids);
    const Tensor expected = rounded_golden().at(std::string(one.name) + ".logits");
    const Batch batch = golden.batch();
    const Tensor made = model->logits(batch) * batch.segments_BT.ne(0).unsqueeze(-1);
    expect_close(made, expected, 1e-4 * largest(expected), "logits");
    nn::fake_quantize(*model, {});
    EXPECT_TRUE(at::equal(model->logits(batch), golden.model()->logits(batch)));
  }
}

TEST(FakeQuantizedLlama, GradientsAreTorchaos) {
  const Golden golden("llama");
  for (const RoundedCase& one : kRounded) {
    if (one.grids.weight == Grid::float8) continue;  // torchao rounds those gradients
    SCOPED_TRACE(one.name);
    const auto model = golden.model();
    nn::fake_quantize(*model, one.grids);
    const Batch batch = golden.batch();
    for (const auto& [name, value] : gradients(*model, batch, false)) {
      const auto expected = rounded_golden().find(std::string(one.name) + ".grad." + name);
      if (expected == rounded_golden().end()) continue;  // the loss
      expect_close(value, expected->second, 1e-4 * std::max(0.01, largest(expected->second)), name);
    }
  }
}

// A number half-way between two codes goes one way or the other by its last bit, and the weight is then another one by
// the distance of codes: soon that has happened somewhere, in one run of torchao's and not in another.
TEST(FakeQuantizedLlama, TenStepsAreNearTorchaos) {
  const Golden golden("llama");
  for (const RoundedCase& one : kRounded) {
    if (one.grids.weight == Grid::float8) continue;
    SCOPED_TRACE(one.name);
    const auto model = golden.model();
    nn::fake_quantize(*model, one.grids);
    const Batch batch = golden.batch();
    const auto loss_of = [&](Pass& pass) { return mean_loss(*model, batch, pass); };
    expect_ten_golden_steps(*model, batch, rounded_golden().at(std::string(one.name) + ".ten_losses"), loss_of,
                            /*training=*/true, 0.05);
  }
}

TEST(FakeQuantizedLlama, BlocksThatAreMadeAgainGiveTheSameBits) {
  const Golden golden("llama");
  const Batch batch = golden.batch();
  for (const RoundedCase& one : kRounded) {
    const auto model = golden.model();
    nn::fake_quantize(*model, one.grids);
    const Gradients plain = gradients(*model, batch, false), again = gradients(*model, batch, true);
    for (const auto& [name, value] : plain) EXPECT_TRUE(at::equal(value, again.at(name))) << one.name << name;
  }
}

TEST(FakeQuantizedLlama, WhatDoesNotFitIsRefused) {
  const auto model = Golden("llama").model();
  EXPECT_HONE_ERROR(nn::fake_quantize(*model, {Grid::int4, Grid::none, 7}), config,
                    "expected a multiple of group_size");
}

// Linear layers of blocks, all of them and nothing else.
TEST(FakeQuantizedLlama, IsOfLinearLayersInBlocks) {
  const auto model = Golden("llama").model();
  std::set<std::string> seen;
  nn::each_linear_weight_in_blocks(*model, [&](const std::string& name, const Weight&) { seen.insert(name); });
  EXPECT_EQ(seen.size() % 7, 0u);
  EXPECT_TRUE(seen.contains("model.layers.1.mlp.down_proj.weight"));
  EXPECT_FALSE(seen.contains("lm_head.weight") || seen.contains("model.norm.weight"));
}

}  // namespace
}  // namespace hone::test
