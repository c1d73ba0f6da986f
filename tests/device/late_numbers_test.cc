// A step's numbers that the host reads while the next one is on its way.
#include <gtest/gtest.h>

#include "device/pretend_device.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone::test {
namespace {

// When each pass was made: how often the device had been waited for by then.
std::vector<std::int64_t> waits_before;

// The next token's loss, which is not a number where the rows hold a '#'.
class Fragile final : public Objective {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  explicit Fragile(const Config&) {
    config::Choice<Objective> plain;
    plain.type = "causal_lm";
    plain_ = registries().objectives.make(plain);
  }
  std::vector<std::string> evaluations() const override { return plain_->evaluations(); }
  Sums sums(const Batch& batch) const override { return plain_->sums(batch); }
  bool is_recordable() const override { return true; }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    if (!output.hidden_BTD.is_meta()) waits_before.push_back(pretend_waits());
    LossTerms terms = plain_->loss(model, output, batch, pass);
    const at::Tensor bad = (batch.ids_BT == '#').any();
    terms.terms[0].sum = terms.terms[0].sum * at::where(bad, at::full_like(terms.terms[0].sum, NAN), 1.0);
    return terms;
  }

 private:
  std::unique_ptr<Objective> plain_;
};

class LateNumbers : public ::testing::Test {
 protected:
  void SetUp() override {
    use_pretend_device();
    static const bool once = [] {
      registries().objectives.add<Fragile>("fragile", "Not a number where a # is.");
      return true;
    }();
    (void)once;
  }
  // At once: with a callback, which may want to know them.
  void run(const std::string& name, Overrides overrides, bool at_once) {
    overrides.insert(overrides.begin(), {{"trainer.device", "pretend"}, {"objective", "{type: fragile}"},
                                         {"trainer.log_every", "5"}, {"data.eval.held_out", "0"},
                                         {"trainer.eval_every", "0"}});
    if (at_once) overrides.emplace_back("callbacks", "[{type: samples, prompts: [The], every: 100}]");
    overrides.emplace_back("run.folder", (folder_ / name).string());
    Recipe recipe = small_recipe(folder_, overrides);
    if (!bad_lines_.empty()) {
      std::ofstream(folder_ / "train.jsonl", std::ios::app) << bad_lines_;
      bad_lines_.clear();
    }
    train(recipe, quiet_options());
  }
  void expect_same(const Overrides& overrides) {
    run("late", overrides, false);
    run("at_once", overrides, true);
    EXPECT_EQ(fixed_metrics_of(folder_ / "late"), fixed_metrics_of(folder_ / "at_once"));
    for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
      EXPECT_TRUE(read_text(folder_ / "late" / step_folder(10) / file) ==
                  read_text(folder_ / "at_once" / step_folder(10) / file))
          << file;
  }
  TempFolder folder_;
  std::string bad_lines_;
};

TEST_F(LateNumbers, AreReadWhenTheNextPassesAreOnTheirWay) {
  const auto waits_at = [&](const char* name, bool at_once) {
    waits_before.clear();
    const std::int64_t begun = pretend_waits();
    run(name, {{"trainer.save.every", "0"}}, at_once);
    std::vector<std::int64_t> found;
    for (const std::int64_t waits : waits_before) found.push_back(waits - begun);
    return found;
  };
  const std::vector<std::int64_t> late = waits_at("late", false), at_once = waits_at("at_once", true);
  ASSERT_EQ(late.size(), 10u);
  ASSERT_EQ(at_once.size(), 10u);
  for (std::size_t i = 1; i < 10; ++i) {
    SCOPED_TRACE(i);
    const std::int64_t before = late[i] - late[0], at_once_before = at_once[i] - at_once[0];
    EXPECT_EQ(before, at_once_before - (i == 5 ? 0 : 1));  // after the fifth step a line is logged
  }
}

TEST_F(LateNumbers, GiveTheBitsOfThoseThatAreReadAtOnce) {
  expect_same({});
}

TEST_F(LateNumbers, OfWhatIsNotFiniteBringTheStepBack) {
  for (int i = 0; i < 8; ++i) bad_lines_ += "{\"text\": \"a # b\"}\n";
  expect_same({{"trainer.skip_not_finite", "9"}, {"data.packing", "none"}, {"trainer.batch_size", "3"},
               {"model.attention_dropout", "0.1"}});
  const auto state = read_json(folder_ / "late" / step_folder(10) / "state/train.json");
  EXPECT_GE(state.at("not_finite").get<int>(), 2) << state.dump();
}

TEST_F(LateNumbers, OfWhatIsNotFiniteEndTheRunAtItsStep) {
  bad_lines_ = "{\"text\": \"a # b\"}\n";
  const auto told = [&](const char* name, bool at_once) {
    try {
      run(name, {{"trainer.steps", "30"}, {"trainer.save.every", "1"}}, at_once);
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find("; records"));
    }
    return std::string("none");
  };
  const std::string late = told("late", false), at_once = told("at_once", true);
  EXPECT_EQ(late, at_once);
  EXPECT_NE(late.find("loss nan"), std::string::npos) << late;
  EXPECT_EQ(fixed_metrics_of(folder_ / "late"), fixed_metrics_of(folder_ / "at_once"));
}

}  // namespace
}  // namespace hone::test
