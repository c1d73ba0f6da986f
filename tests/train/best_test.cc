// Which checkpoint is the best one: by the first metric, the way its evaluation says is better.
#include <limits>
#include <set>

#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

struct Script {
  std::vector<double> values;
  std::size_t next = 0;
  bool rises = false;
} script;

struct NoOptions {
  static constexpr std::tuple<> fields() { return {}; }
};

// Gives the values of the script, one at each evaluation.
class Scripted final : public Evaluation {
 public:
  using Config = NoOptions;
  explicit Scripted(const Config&) {}
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const override { return {{"batches", 1}}; }
  Metrics result(const Sums&) const override { return {{"score", script.values.at(script.next++)}}; }
  std::vector<std::string> names() const override { return {"score"}; }
  bool greater_is_better(const std::string&) const override { return script.rises; }
};

// Next-token prediction that is measured so.
class WithScript : public Objective {
 public:
  using Config = NoOptions;
  explicit WithScript(const Config&)
      : inner_(registries().objectives.make("causal_lm", *registries().objectives.options("causal_lm"))) {}
  void check(const Model& model) const override { inner_->check(model); }
  Sums sums(const Batch& batch) const override { return inner_->sums(batch); }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    return inner_->loss(model, output, batch, pass);
  }
  std::vector<std::string> evaluations() const override { return {"scripted"}; }

 private:
  std::unique_ptr<Objective> inner_;
};

class WithBoth final : public WithScript {
 public:
  using WithScript::WithScript;
  std::vector<std::string> evaluations() const override { return {"perplexity", "scripted"}; }
};

class Best : public ::testing::Test {
 protected:
  Best() {
    static const bool done = [] {
      registries().evals.add<Scripted>("scripted", "Values of a test.");
      registries().objectives.add<WithScript>("with_script", "Next-token prediction.");
      registries().objectives.add<WithBoth>("with_both", "Next-token prediction.");
      return true;
    }();
    static_cast<void>(done);
  }
  // The step of the best checkpoint of a run that is evaluated and saved after steps 2, 4, ...
  std::int64_t best(const std::vector<double>& values, bool rises, const test::Overrides& more = {}) {
    script = {values, 0, rises};
    const std::int64_t steps = 2 * static_cast<std::int64_t>(values.size());
    test::Overrides overrides{{"objective", "with_script"},
                              {"trainer.steps", std::to_string(steps)},
                              {"trainer.eval_every", "2"},
                              {"trainer.save.every", "2"},
                              {"run.folder", (folder_ / fmt::format("run-{}", ++runs_)).string()}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Summary summary = train(test::small_recipe(folder_, overrides), test::quiet_options());
    last_ = summary;
    const auto state = test::read_json(std::filesystem::path(summary.checkpoint) / "state/train.json");
    const std::int64_t step = state["best"]["step"];
    EXPECT_EQ(std::filesystem::read_symlink(std::filesystem::path(summary.folder) / "best"), test::step_folder(step));
    EXPECT_EQ(state["best"]["metric"], "eval_score");
    return step;
  }
  test::TempFolder folder_;
  Summary last_;
  int runs_ = 0;
};

TEST_F(Best, IsTheLowestOrTheHighest) {
  const std::vector<double> values{0.3, 0.5, 0.1, 0.4};
  EXPECT_EQ(best(values, false), 6);
  EXPECT_EQ(best(values, true), 4);
}

TEST_F(Best, IsTheFirstOfEquals) {
  EXPECT_EQ(best({0.5, 0.5}, false), 2);
  EXPECT_EQ(best({0.5, 0.5}, true), 2);
}

TEST_F(Best, IsNeverNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(best({nan, 0.5, 0.4, nan}, true), 4);
  EXPECT_EQ(best({nan, 0.5, 0.4, nan}, false), 6);
}

TEST_F(Best, AsManyStayAsAreAskedFor) {
  const auto left = [&](const std::string& keep_best) {
    best({0.2, 0.1, 0.9, 0.4, 0.5, 0.6}, false, {{"trainer.save.keep", "1"}, {"trainer.save.keep_best", keep_best}});
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(last_.folder) / "checkpoints"))
      names.insert(entry.path().filename().string());
    return names;
  };
  const auto steps = [](std::initializer_list<std::int64_t> all) {
    std::set<std::string> names;
    for (const std::int64_t step : all)
      names.insert(std::filesystem::path(test::step_folder(step)).filename().string());
    return names;
  };
  EXPECT_EQ(left("1"), steps({4, 12}));
  EXPECT_EQ(left("3"), steps({2, 4, 8, 12}));
}

TEST_F(Best, IsAmongTheCheckpointsWhenEachEvaluationIsFollowedByOne) {
  const test::Overrides after{{"trainer.save.every", "0"}, {"trainer.save.after_evaluation", "true"}};
  EXPECT_EQ(best({0.3, 0.1, 0.4}, false, after), 4);
}

TEST_F(Best, ByAMetricOfChoiceOrNotAtAll) {
  const test::Overrides by{{"trainer.save.best_by", "eval_score"}};
  EXPECT_EQ(best({0.3, 0.1}, false, by), 4);
  EXPECT_HONE_ERROR(best({0.3}, false, {{"trainer.save.best_by", "eval_scor"}}), config, "did you mean eval_score?");
  EXPECT_HONE_ERROR(best({0.3, 0.2, 0.1}, false, {{"trainer.save.keep_best", "2"}, {"trainer.save.every", "5"}}),
                    config, "of 6 steps only the last is both evaluated and saved");
}

// By the score step 2 is best; the change to the loss would let the next save delete it.
TEST_F(Best, AnotherMetricAtAResumeDeletesNothing) {
  const auto run = [&](const char* steps, const char* by) {
    script = {{0.1, 0.2, 0.3}, 0, false};
    test::Overrides how{{"objective", "with_both"},        {"trainer.steps", steps},   {"trainer.eval_every", "2"},
                        {"trainer.save.every", "2"},       {"trainer.save.keep", "1"}, {"trainer.save.best_by", by},
                        {"optimizer.schedule", "constant"}};
    const Summary made = train(test::small_recipe(folder_, how), test::quiet_options());
    return test::read_json(std::filesystem::path(made.checkpoint) / "state/train.json");
  };
  EXPECT_EQ(run("6", "eval_score")["best"]["step"], 2);
  const nlohmann::json state = run("8", "eval_loss");
  EXPECT_EQ(state["best"]["metric"], "eval_loss");
  EXPECT_GE(state["best"]["step"], 6);
  EXPECT_EQ(state["were_best"], nlohmann::json::array({2}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / test::step_folder(2)));
  EXPECT_EQ(std::filesystem::read_symlink(folder_ / "run" / "best"), test::step_folder(state["best"]["step"]));
}

TEST_F(Best, EarlyStoppingGoesTheSameWay) {
  const test::Overrides stopping{{"callbacks", "[{type: early_stopping, metric: eval_score, patience: 2}]"}};
  best({0.1, 0.2, 0.3, 0.4, 0.5}, true, stopping);
  EXPECT_EQ(last_.reason, StopReason::steps);
  best({0.1, 0.2, 0.3, 0.4, 0.5}, false, stopping);
  EXPECT_EQ(last_.reason, StopReason::callback);
  EXPECT_EQ(last_.step, 6);
}

TEST_F(Best, IsSavedWhereACallbackWaitsForABetterOne) {
  const test::Overrides stopping{{"callbacks", "[{type: early_stopping, metric: eval_score, patience: 2}]"},
                                 {"trainer.save.every", "0"}};
  EXPECT_EQ(best({0.5, 0.1, 0.4, 0.2, 0.3}, false, stopping), 4);
  EXPECT_EQ(last_.step, 8);
}

TEST_F(Best, OneThatWasNotSavedIsTold) {
  const auto told = [&](const std::vector<double>& values, bool rises) {
    ::testing::internal::CaptureStderr();
    best(values, rises, {{"trainer.save.every", "4"}});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told({0.1, 0.3, 0.2, 0.2}, false),
              ::testing::HasSubstr("step 2 was the best, by eval_score 0.1, and was not saved; of those that were: "
                                   "step 8, 0.2"));
  EXPECT_THAT(told({0.1, 0.3, 0.2, 0.2}, true), ::testing::Not(::testing::HasSubstr("was not saved")));
}

// The checkpoint that the signal left did not know what it is worth.
TEST_F(Best, AnEvaluationThatASignalCutShortCounts) {
  test::register_test_callbacks();
  const auto run = [&](const char* steps, const char* callbacks) {
    return train(test::small_recipe(folder_, {{"objective", "with_script"},
                                              {"trainer.eval_every", "2"},
                                              {"trainer.save", "{every: 2, keep: 1}"},
                                              {"trainer.steps", steps},
                                              {"optimizer.schedule", "constant"},
                                              {"callbacks", callbacks}}),
                 test::quiet_options());
  };
  script = {{0.1, 0.5, 0.4, 0.3}, 0, false};
  EXPECT_TRUE(run("6", "[{type: raise_at, step: 2}]").interrupted());
  EXPECT_EQ(script.next, 0u);
  EXPECT_EQ(run("6", "[]").step, 6);
  EXPECT_EQ(std::filesystem::read_symlink(folder_ / "run" / "best"), test::step_folder(2));
  EXPECT_EQ(run("8", "[]").step, 8);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / test::step_folder(2) / "MANIFEST.json"));
  std::int64_t lines = 0;
  for (const nlohmann::json& line : test::metrics_of(folder_ / "run"))
    lines += line["step"] == 2 && line.contains("eval_score");
  EXPECT_EQ(lines, 1);
}

// Numbers of fewer rows say nothing of those of all.
TEST_F(Best, EarlyStoppingBeginsAnewWithOtherRows) {
  const auto stopped_at = [&](const std::string& most, const std::string& then) {
    test::Overrides how{{"objective", "with_both"},
                        {"trainer.eval_every", "2"},
                        {"trainer.save.every", "2"},
                        {"optimizer.schedule", "constant"},
                        {"run.folder", (folder_ / ("of" + most + then)).string()},
                        {"callbacks", "[{type: early_stopping, metric: eval_score, patience: 2}]"},
                        {"trainer.max_eval_batches", most},
                        {"trainer.steps", "4"}};
    script = {{0.5, 0.4}, 0, true};
    train(test::small_recipe(folder_, how), test::quiet_options());
    script = {{0.3, 0.2, 0.1}, 0, true};
    how[6].second = then, how[7].second = "12";
    return train(test::small_recipe(folder_, how), test::quiet_options()).step;
  };
  EXPECT_EQ(stopped_at("1", "1"), 6);
  EXPECT_EQ(stopped_at("1", "2"), 10);
}

}  // namespace
}  // namespace hone
