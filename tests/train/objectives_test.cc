// What an objective may ask of a step: several updates, terms that different amounts divide, further models.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "harness/close.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

using test::values;

std::vector<StepContext> contexts_seen;  // their numbers; the references are not used

// Next-token loss, and what the options add.
class Asking final : public Objective {
 public:
  struct Config {
    bool split = false;        // each micro-batch is an update of its own
    double size_loss = 0;      // times the mean square of the hidden states, per token
    double document_loss = 0;  // the same per document
    std::string teacher, per;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("split", &C::split, ""), field("size_loss", &C::size_loss, ""),
                        field("document_loss", &C::document_loss, ""), field("teacher", &C::teacher, ""),
                        field("per", &C::per, "")};
    }
  };
  explicit Asking(const Config& config) : config_(config) {}

  Needs needs() const override {
    if (config_.teacher.empty()) return {};
    return {.models = {{"teacher", config_.teacher}}};
  }
  void check(const Model& model) const override { require_causal_lm(model, "objective asking"); }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }
  Groups prepare(Group group, StepContext& context) override {
    contexts_seen.push_back(context);
    if (!config_.teacher.empty())
      for (const Batch& batch : group) {
        Pass pass(batch);
        const at::Tensor hidden = context.resources.model("teacher").model.forward(batch, pass).hidden_BTD;
        EXPECT_FALSE(hidden.requires_grad());
      }
    if (!config_.split) return Objective::prepare(std::move(group), context);
    Groups groups;
    for (Batch& batch : group) groups.push_back({std::move(batch)});
    return groups;
  }
  Sums sums(const Batch& batch) const override { return {{"targets", static_cast<double>(batch.supervised)}}; }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    LossTerms result;
    const nn::Head& head = model.causal_lm()->head();
    result.terms.push_back({"nll", head.cross_entropy(output.hidden_BTD, batch.labels_BT, {}, pass)});
    const at::Tensor squares = output.hidden_BTD.square().mean(-1).sum();
    if (config_.document_loss > 0)
      result.terms.push_back({"document_size", squares * config_.document_loss, "documents"});
    if (config_.size_loss > 0) pass.aux.push_back({"size", squares * config_.size_loss, "tokens"});
    if (!config_.per.empty()) result.terms.back().per = config_.per;
    return result;
  }

 private:
  Config config_;
};

class Objectives : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!registries().objectives.find("asking")) registries().objectives.add<Asking>("asking", "For tests.");
  }
  void SetUp() override { contexts_seen.clear(); }
  std::filesystem::path run(const std::string& name, const std::string& objective, test::Overrides overrides) {
    const test::Overrides common{{"run.folder", (folder_ / name).string()},
                                 {"objective", objective},
                                 {"data.packing", "none"},
                                 {"data.shuffle", "false"},
                                 {"data.eval.held_out", "0"},
                                 {"optimizer.schedule", "{type: constant}"}};
    overrides.insert(overrides.begin(), common.begin(), common.end());
    train(test::small_recipe(folder_, overrides), test::quiet_options());
    return folder_ / name;
  }
  test::TempFolder folder_;
};

// Two groups of a step are the updates that two steps make, bit for bit: gradients, dropout, the optimizer's counts.
TEST_F(Objectives, GroupsOfAStepAreUpdates) {
  const test::Overrides dropout{{"model.attention_dropout", "0.2"}};
  test::Overrides two = dropout, one = dropout;
  two.insert(two.end(), {{"trainer.accumulate", "2"}, {"trainer.steps", "4"}});
  one.insert(one.end(), {{"trainer.steps", "8"}});
  const auto a = run("two", "{type: asking, split: true}", two), b = run("one", "{type: asking}", one);
  const auto weights = [](const std::filesystem::path& run, std::int64_t step) {
    return test::read_tensors(run / test::step_folder(step) / "model.safetensors");
  };
  for (const auto& [name, tensor] : weights(b, 8)) EXPECT_TRUE(tensor.equal(weights(a, 4).at(name))) << name;
  ASSERT_EQ(contexts_seen.size(), 12u);
  EXPECT_EQ(contexts_seen[3].step, 3);
  EXPECT_EQ(contexts_seen[3].update, 6);
  EXPECT_EQ(contexts_seen[11].update, 7);
  EXPECT_EQ(contexts_seen[0].seed, 3u);
}

TEST_F(Objectives, GroupsOfAStepAreCountedAcrossAResume) {
  const test::Overrides two{
      {"model.attention_dropout", "0.2"}, {"trainer.accumulate", "2"}, {"trainer.save.every", "2"}};
  const auto with_steps = [&](const char* steps) {
    test::Overrides all = two;
    all.push_back({"trainer.steps", steps});
    return all;
  };
  const auto whole = run("whole", "{type: asking, split: true}", with_steps("4"));
  run("parts", "{type: asking, split: true}", with_steps("2"));
  const auto parts = run("parts", "{type: asking, split: true}", with_steps("4"));
  EXPECT_TRUE(test::read_text(whole / test::step_folder(4) / "model.safetensors") ==
              test::read_text(parts / test::step_folder(4) / "model.safetensors"));
}

TEST_F(Objectives, EachTermIsDividedByItsOwnAmount) {
  const std::string objective = "{type: asking, size_loss: 0.1, document_loss: 0.01}";
  const auto wide = run("wide", objective, {{"trainer.batch_size", "8"}, {"trainer.steps", "3"}});
  const auto deep =
      run("deep", objective, {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"}, {"trainer.steps", "3"}});
  for (const char* key : {"loss", "nll", "size", "document_size", "grad_norm"}) {
    const auto a = values(wide, key), b = values(deep, key);
    ASSERT_EQ(a.size(), 3u) << key;
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 2e-6 * std::max(1.0, a[i])) << key << " of step " << i + 1;
  }
  const auto loss = values(wide, "loss"), nll = values(wide, "nll"), size = values(wide, "size"),
             document = values(wide, "document_size");
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(loss[i], nll[i] + size[i] + document[i], 1e-6);
  EXPECT_GT(document[0] / 0.01, 2 * size[0] / 0.1);  // a document has many tokens
}

TEST_F(Objectives, AnAmountThatNobodyCountsIsAnError) {
  EXPECT_HONE_ERROR(run("bad", "{type: asking, per: turns}", {}), bug,
                    "objective asking: the term nll is divided by \"turns\", which sums() does not count");
}

TEST_F(Objectives, FurtherModelsAreThereAndFrozen) {
  const auto teacher = run("teacher", "{type: asking}", {{"trainer.steps", "2"}});
  run("pupil", fmt::format("{{type: asking, teacher: {}}}", teacher.string()), {{"trainer.steps", "2"}});
  EXPECT_EQ(contexts_seen.size(), 4u);
  EXPECT_HONE_ERROR(run("none", "{type: asking, teacher: nowhere}", {}), checkpoint, "looking for the teacher");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
}

}  // namespace
}  // namespace hone
