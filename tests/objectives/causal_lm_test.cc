// The causal language-model objective: its weight, its options, auxiliary terms of the forward pass.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "models/golden.h"

namespace hone {
namespace {

double loss_with(const std::string& yaml, const test::Golden& golden) {
  Problems problems;
  const auto options = registries().objectives.options("causal_lm");
  options->read(config::parse_yaml(yaml, "test", problems), problems, "");
  problems.raise();
  const auto objective = registries().objectives.make("causal_lm", *options);
  const auto model = golden.model();
  const Batch batch = golden.batch();
  Pass pass(batch);
  const LossTerms terms = objective->loss(*model, model->forward(batch, pass), batch, pass);
  EXPECT_EQ(terms.terms.size(), 1u);
  const double targets = objective->sums(batch).at(terms.terms[0].per);
  EXPECT_EQ(targets, batch.supervised);
  return terms.terms[0].sum.item<double>() / targets;
}

// The same from transformers' logits: (1 - s) nll + s (lse - mean logit) + z lse^2, averaged over supervised tokens.
double expected(const test::Golden& golden, double smoothing, double z_loss) {
  const Batch batch = golden.batch();
  const at::Tensor wanted = batch.labels_BT.ne(-100).flatten().nonzero().squeeze(-1);
  const at::Tensor logits = golden["logits"].flatten(0, 1).index_select(0, wanted).to(at::kDouble);
  const at::Tensor labels = batch.labels_BT.flatten().index_select(0, wanted);
  const at::Tensor lse = logits.logsumexp(1), nll = lse - logits.gather(1, labels.unsqueeze(1)).squeeze(1);
  return ((1 - smoothing) * nll + smoothing * (lse - logits.mean(1)) + z_loss * lse.square()).mean().item<double>();
}

TEST(CausalLmObjective, EqualsItsFormula) {
  const test::Golden golden("llama");
  EXPECT_NEAR(loss_with("{}", golden), golden["loss"].item<double>(), 1e-5);
  EXPECT_NEAR(loss_with("{label_smoothing: 0.1}", golden), expected(golden, 0.1, 0), 1e-5);
  EXPECT_NEAR(loss_with("{z_loss: 0.01}", golden), expected(golden, 0, 0.01), 1e-5);
}

struct Asked {
  std::unique_ptr<Objective> objective;
  LossTerms terms;
  std::map<std::string, Metric> of_step;
};

Asked asked(const std::string& yaml, const test::Golden& golden) {
  Problems problems;
  const auto options = registries().objectives.options("causal_lm");
  options->read(config::parse_yaml(yaml, "test", problems), problems, "");
  problems.raise();
  Asked made{registries().objectives.make("causal_lm", *options), {}, {}};
  const auto model = golden.model();
  const Batch batch = golden.batch();
  Pass pass(batch);
  made.terms = made.objective->loss(*model, model->forward(batch, pass), batch, pass);
  made.objective->measure_step(made.objective->sums(batch), made.of_step);
  return made;
}

// From transformers' logits.
TEST(CausalLmObjective, PartsOfTheLossAreMeasuredWhenAskedFor) {
  const test::Golden golden("llama");
  const Batch batch = golden.batch();
  const at::Tensor wanted = batch.labels_BT.ne(-100).flatten().nonzero().squeeze(-1);
  const at::Tensor logits = golden["logits"].flatten(0, 1).index_select(0, wanted).to(at::kDouble);
  const at::Tensor labels = batch.labels_BT.flatten().index_select(0, wanted);
  const Asked made = asked("{z_loss: 0.01, metrics: [accuracy, z_loss, weight_sum, perplexity]}", golden);
  ASSERT_EQ(made.terms.means.size(), 2u);
  EXPECT_EQ(made.terms.means[0].name, "accuracy");
  EXPECT_EQ(made.terms.means[0].sum.item<double>(), logits.argmax(1).eq(labels).sum().item<double>());
  EXPECT_EQ(made.terms.means[0].weight.item<double>(), batch.supervised);
  EXPECT_EQ(made.terms.means[1].name, "z_loss");
  EXPECT_NEAR(made.terms.means[1].sum.item<double>(), 0.01 * logits.logsumexp(1).square().sum().item<double>(), 1e-4);
  EXPECT_EQ(made.of_step.at("weight_sum").sum, batch.supervised);
  EXPECT_NEAR(made.terms.terms[0].sum.item<double>() / batch.supervised, expected(golden, 0, 0.01), 1e-5);
  const Asked none = asked("{z_loss: 0.01}", golden);
  EXPECT_TRUE(none.terms.means.empty() && none.of_step.empty());
  Metrics line{{"loss", 2}};
  none.objective->derive(line);
  EXPECT_EQ(line.size(), 1u);
}
TEST(CausalLmObjective, PerplexityFollowsFromTheMeanLoss) {
  const test::Golden golden("llama");
  Metrics line{{"loss", 2}, {"loss_single", 3}, {"loss_std", 1}};
  asked("{metrics: [perplexity]}", golden).objective->derive(line);
  EXPECT_DOUBLE_EQ(line.at("perplexity"), std::exp(2.0));
  EXPECT_DOUBLE_EQ(line.at("perplexity_single"), std::exp(3.0));
  EXPECT_FALSE(line.contains("perplexity_std"));
  EXPECT_THROW(asked("{metrics: [z_loss]}", golden), Error);  // there is none
}

}  // namespace
}  // namespace hone
