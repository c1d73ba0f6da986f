// An objective that learns from groups: pairs of documents arrive whole, whatever the batches and the packing are.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

// Prefers the chosen answer by its likelihood, without a reference (CPO, Xu et al., 2024, without its second term).
class Preferring final : public Objective {
 public:
  struct Config {
    double beta = 0.1;
    static constexpr auto fields() { return std::tuple{field("beta", &Config::beta, "Strength.", at_least(0))}; }
  };
  explicit Preferring(const Config& config) : beta_(config.beta) {}

  Needs needs() const override { return {.records = RecordKind::preference}; }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }
  Sums sums(const Batch& batch) const override { return {{"pairs", static_cast<double>(batch.docs.size()) / 2}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor learnt_BT = batch.labels_BT.ne(-100);
    const Tensor logp_BTV = model.causal_lm()->head().logits(output.hidden_BTD, pass).log_softmax(-1);
    const Tensor labels_BT1 = batch.labels_BT.clamp_min(0).unsqueeze(-1);
    const Tensor logp_BT = logp_BTV.gather(-1, labels_BT1).squeeze(-1) * learnt_BT;
    std::vector<Tensor> margins;
    for (std::size_t i = 0; i < batch.docs.size(); i += 2) {
      const Doc& chosen = batch.docs.at(i);
      const Doc& rejected = batch.docs.at(i + 1);
      EXPECT_EQ(chosen.group, rejected.group);
      EXPECT_EQ(chosen.role, Role::chosen);
      EXPECT_EQ(rejected.role, Role::rejected);
      const auto sum = [&](const Doc& doc) { return logp_BT[doc.row].slice(0, doc.begin, doc.end).sum(); };
      margins.push_back(sum(chosen) - sum(rejected));
    }
    const Tensor margin_P = at::stack(margins);
    LossTerms result;
    result.terms.push_back({"loss", -at::log_sigmoid(beta_ * margin_P).sum(), "pairs"});
    result.metrics["margin"] = {margin_P.sum().item<double>(), static_cast<double>(margins.size())};
    return result;
  }

 private:
  double beta_;
};

class GroupsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (registries().objectives.find("preferring") == nullptr)
      registries().objectives.add<Preferring>("preferring", "Pairs, without a reference.");
  }
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 64; ++i)
      lines += nlohmann::json{{"prompt", "say " + std::to_string(i * 37 % 101) + ": "},
                              {"chosen", std::string(static_cast<std::size_t>(1 + i * 5 % 17), 'a')},
                              {"rejected", std::string(static_cast<std::size_t>(1 + i * 3 % 11), 'b')}}
                   .dump() +
               "\n";
    folder_.write("train.jsonl", lines);
  }
  std::vector<double> values(const std::string& name, Overrides overrides, const std::string& key = "loss") {
    Overrides all{{"objective", "preferring"}, {"data.eval.held_out", "0"}, {"run.folder", (folder_ / name).string()}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    train(test::small_recipe(folder_, all), test::quiet_options());
    std::vector<double> found;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(key)) found.push_back(line[key]);
    return found;
  }
  test::TempFolder folder_;
};

TEST_F(GroupsTest, BatchTimesAccumulationIsAllThatCounts) {
  for (const char* packing : {"none", "best_fit"}) {
    const Overrides packed{{"data.packing", packing}, {"trainer.steps", "4"}, {"optimizer.schedule.warmup_steps", "1"}};
    Overrides wide = packed, deep = packed;
    wide.insert(wide.end(), {{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}});
    deep.insert(deep.end(), {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"}});
    const std::vector<double> one = values(std::string("wide ") + packing, wide),
                              other = values(std::string("deep ") + packing, deep);
    ASSERT_EQ(one.size(), 4u);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 2e-6) << packing << " line " << i;
  }
}

TEST_F(GroupsTest, TheMarginGrows) {
  const std::vector<double> margins = values("run", {{"trainer.steps", "20"}}, "margin");
  EXPECT_GT(margins.back(), margins.front() + 5);
}

}  // namespace
}  // namespace hone
