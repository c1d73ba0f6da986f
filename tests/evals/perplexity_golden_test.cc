// Evaluations against the golden models' own losses and logits.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "harness/errors.h"
#include "hone/evaluation.h"
#include "hone/registry.h"
#include "models/golden.h"

namespace hone {
namespace {

Metrics evaluate(const std::string& name, const CausalLm& model, const std::vector<Batch>& batches) {
  const at::NoGradGuard no_grad;
  const auto evaluation = registries().evals.make(name, *registries().evals.options(name));
  Sums total;
  for (const Batch& batch : batches) {
    Pass pass(batch);
    for (const auto& [what, sum] : evaluation->measure(model, model.forward(batch, pass), batch, pass))
      total[what] += sum;
  }
  return evaluation->result(total);
}

TEST(Perplexity, EqualsTransformersLoss) {
  const test::Golden golden("llama");
  const auto model = golden.model();
  const Batch batch = golden.batch();
  const Metrics metrics = evaluate("perplexity", *model, {batch});
  const double loss = golden["loss"].item<double>();
  EXPECT_NEAR(metrics.at("loss"), loss, 1e-6 * loss);
  EXPECT_NEAR(metrics.at("perplexity"), std::exp(loss), 1e-4 * std::exp(loss));
  EXPECT_EQ(metrics.at("tokens"), batch.supervised);
  const at::Tensor right = golden["logits"].argmax(-1).eq(batch.labels_BT);
  EXPECT_NEAR(metrics.at("accuracy"), right.sum().item<double>() / static_cast<double>(batch.supervised), 1e-12);
}

TEST(Perplexity, IsWeightedByTokensNotByBatches) {
  const test::Golden golden("llama");
  const auto model = golden.model();
  const auto row = [&](std::int64_t r) {
    return test::make_batch(golden["input_ids"].slice(0, r, r + 1), golden["labels"].slice(0, r, r + 1),
                            golden["attention_mask"].slice(0, r, r + 1));
  };
  const double loss = golden["loss"].item<double>();
  EXPECT_NEAR(evaluate("perplexity", *model, {row(0), row(1), row(2)}).at("loss"), loss, 1e-6 * loss);
}

TEST(Perplexity, NothingToScoreIsAnError) {
  const test::Golden golden("llama");
  const auto model = golden.model();
  Batch batch = golden.batch();
  batch.labels_BT.fill_(-100);
  EXPECT_THROW(evaluate("perplexity", *model, {batch}), Error);
}

TEST(Evaluations, NameTheWeightThatIsNoNumber) {
  const test::Golden golden("llama");
  const auto model = golden.model();
  model->each_weight([&](const std::string& name, Weight& weight) {
    if (name == "model.norm.weight") weight.value().detach()[0].fill_(NAN);
  });
  for (const char* name : {"perplexity", "exact_match"})
    EXPECT_HONE_ERROR(evaluate(name, *model, {golden.batch()}), not_finite, "weight model.norm.weight: 1 of ");
}

TEST(ExactMatch, CountsDocumentsWhoseEveryTokenIsTheLikeliest) {
  const test::Golden golden("llama");
  const auto model = golden.model();
  Batch batch = golden.batch();
  EXPECT_EQ(evaluate("exact_match", *model, {batch}).at("exact_match"), 0);
  batch.labels_BT = at::where(batch.labels_BT.eq(-100), batch.labels_BT, golden["logits"].argmax(-1));
  EXPECT_EQ(evaluate("exact_match", *model, {batch}).at("exact_match"), 1);
  batch.labels_BT[1][golden["labels"].size(1) - 3] = (batch.labels_BT[1][golden["labels"].size(1) - 3] + 1) % 80;
  const Metrics metrics = evaluate("exact_match", *model, {batch});
  EXPECT_EQ(metrics.at("prompts"), 3);
  EXPECT_NEAR(metrics.at("exact_match"), 2.0 / 3, 1e-12);
}

std::int64_t most_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Of a long batch only what is asked for gets logits: those of all its tokens would be 1.3 GB.
TEST(ExactMatch, MakesLogitsOfWhatIsAskedAlone) {
  const test::Golden golden("llama");
  const auto model = golden.model();
  constexpr std::int64_t kLength = std::int64_t{4} << 20;
  Batch batch = golden.batch();
  Pass short_pass(batch);
  const at::NoGradGuard no_grad;
  Output output = model->forward(batch, short_pass);
  const at::Tensor first = output.hidden_BTD.slice(0, 0, 1).slice(1, 0, 1);
  batch = {};
  batch.labels_BT = at::full({1, kLength}, -100, at::kLong);
  batch.labels_BT[0][kLength - 1] = model->head().logits(first, short_pass).argmax().item<std::int64_t>();
  batch.ids_BT = at::zeros({1, 1}, at::kLong).expand({1, kLength});
  batch.docs.push_back({.row = 0, .begin = 0, .end = static_cast<std::int32_t>(kLength)});
  output.hidden_BTD = first.expand({1, kLength, first.size(2)});
  const std::int64_t before = most_memory();
  const auto evaluation = registries().evals.make("exact_match", *registries().evals.options("exact_match"));
  const Sums sums = evaluation->measure(*model, output, batch, short_pass);
  EXPECT_EQ(sums.at("matches"), 1);
  EXPECT_LT(most_memory() - before, std::int64_t{400} << 20);
}

}  // namespace
}  // namespace hone
