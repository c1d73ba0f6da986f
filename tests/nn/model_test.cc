// The layer loop: what blocks leave in the pass is the same, once, whether they are kept or computed again in backward.
#include "hone/model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/config_read.h"

namespace hone::test {
namespace {

// y = tanh(x W), with an auxiliary loss on y, as a router has one, and y handed out.
class TalkingBlock final : public Block {
 public:
  explicit TalkingBlock(int number) { weight.fill((at::arange(16, at::kFloat).view({4, 4}) * 0.7 + number).sin()); }
  Tensor forward(const Tensor& x_BTD, Pass& pass) const override {
    ++runs;
    const Tensor y_BTD = at::matmul(x_BTD, weight.use()).tanh();
    pass.sow("y" + std::to_string(pass.layer), y_BTD);
    pass.aux.push_back({"balance", y_BTD.square().sum() * 0.5, "tokens"});
    pass.aux.push_back({"unused", y_BTD.abs().sum(), "rows"});
    pass.aux.push_back({"constant", at::ones({}), "rows"});
    pass.add_up("mean", y_BTD.mean());
    pass.add_up("rows", at::tensor({3}, at::kLong));
    pass.measure("largest", y_BTD.max().item<double>() * 2, 2);
    return y_BTD;
  }
  Weight& weight = parameter("weight", {4, 4});
  mutable int runs = 0;
};

class TalkingModel final : public Model {
 public:
  Tensor embed(const Batch& batch, Pass&) const override {
    return batch.ids_BT.unsqueeze(-1).to(at::kFloat) * at::tensor({0.1f, -0.2f, 0.3f, 0.4f});
  }
  std::vector<const Block*> blocks() const override { return {&first, &second}; }
  // A loss that no sum over layers could make.
  Tensor finish(const Tensor& x_BTD, Pass& pass) const override {
    if (pass.totals.contains("mean"))
      pass.aux.push_back({"product", pass.totals["mean"].square() * pass.totals["rows"], "rows"});
    return x_BTD;
  }
  std::int64_t vocab_size() const override { return 8; }
  std::int64_t max_positions() const override { return 8; }
  config::Node hf_config() const override { return config::Node::map(); }
  TalkingBlock& first = child<TalkingBlock>("first", 1);
  TalkingBlock& second = child<TalkingBlock>("second", 2);
};

struct Seen {
  std::vector<Tensor> tensors;  // losses, intermediates, gradients
  std::vector<std::string> terms;
  int runs = 0;
  std::map<std::string, Metric> metrics = {};
};

Seen learn(bool checkpoint_blocks) {
  TalkingModel model;
  Batch batch;
  batch.ids_BT = at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({2, 3});
  batch.segments_BT = at::ones({2, 3}, at::kLong);
  Pass pass(batch);
  pass.checkpoint_blocks = checkpoint_blocks;
  pass.wanted = [](const std::string& name) { return name != "layers.0.output"; };
  Tensor loss = model.forward(batch, pass).hidden_BTD.sum();
  for (const LossTerm& term : pass.aux)
    if (term.name != "unused") loss = loss + term.sum / (term.per == "tokens" ? 2 : 1);
  loss.backward();
  Seen seen{.tensors = {loss.detach()}, .terms = {}, .runs = model.first.runs};
  for (const LossTerm& term : pass.aux) seen.terms.push_back(term.name), seen.tensors.push_back(term.sum.detach());
  for (const auto& [name, value] : pass.sown) {
    EXPECT_FALSE(value.requires_grad()) << name;
    seen.terms.push_back(name);
    seen.tensors.push_back(value);
  }
  for (const auto& [name, total] : pass.totals) seen.tensors.push_back(total.detach());
  seen.metrics = pass.metrics;
  model.each_weight([&](const std::string&, Weight& weight) { seen.tensors.push_back(weight.grad()); });
  return seen;
}

TEST(Model, AuxiliaryLossesOfCheckpointedBlocksCountOnceAndHaveGradients) {
  const Seen kept = learn(false), remade = learn(true);
  EXPECT_EQ(kept.runs, 1);
  EXPECT_EQ(remade.runs, 2);
  EXPECT_EQ(kept.terms, (std::vector<std::string>{"balance", "unused", "constant", "balance", "unused", "constant",
                                                  "product", "layers.0.y0", "layers.1.output", "layers.1.y1"}));
  EXPECT_EQ(kept.terms, remade.terms);
  ASSERT_EQ(kept.tensors.size(), remade.tensors.size());
  for (std::size_t i = 0; i < kept.tensors.size(); ++i)
    EXPECT_TRUE(at::equal(kept.tensors[i], remade.tensors[i])) << i << "\n" << kept.tensors[i] << remade.tensors[i];
  for (const Seen* seen : {&kept, &remade}) {
    ASSERT_EQ(seen->metrics.size(), 1u);
    EXPECT_EQ(seen->metrics.at("largest").weight, 4);
    EXPECT_EQ(seen->metrics.at("largest").sum, kept.metrics.at("largest").sum);
  }
}

}  // namespace
}  // namespace hone::test
