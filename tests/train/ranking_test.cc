// What becomes of a run's best checkpoints when "best" comes to mean something else.
#include "train/ranking.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone::training {
namespace {

// Three evaluations: the loss says step 2 is best, the accuracy step 6.
class Ranking : public ::testing::Test {
 protected:
  Ranking() {
    log::set_sink([this](log::Level level, std::string_view text) {
      if (level >= log::Level::info) said_ += std::string(text) + "\n";
    });
    log::set_level(log::Level::info);
    for (const auto& [step, loss, accuracy] :
         std::vector<std::tuple<int, double, double>>{{2, 0.5, 0.1}, {4, 0.7, 0.2}, {6, 0.6, 0.3}})
      state_.log_history.push_back({{"step", step}, {"eval_loss", loss}, {"eval_accuracy", accuracy}});
    state_.step = 6;
    state_.best = {{"eval_loss", 0.5, 2}};
    state_.best_by = {"eval_loss", false, 1};
    state_.measured = {{"eval_", {"rows of ev", 0}}};
  }
  ~Ranking() override { log::set_sink({}); }

  void review(const BestBy& by, const std::string& prefix, const std::map<std::string, std::string>& rows,
              const std::set<std::int64_t>& there = {2, 4, 6}) {
    said_.clear();
    review_best(state_, {by, prefix, rows}, there, "run");
  }
  std::vector<std::int64_t> best() const {
    std::vector<std::int64_t> steps;
    for (const Best& one : state_.best) steps.push_back(one.step);
    return steps;
  }
  using Steps = std::vector<std::int64_t>;
  const std::map<std::string, std::string> same_rows_{{"eval_", "rows of ev"}};
  RunState state_;
  std::string said_;
};

TEST_F(Ranking, OfARunThatGoesOnAsItWasIsLeftAlone) {
  review({"eval_loss", false, 1}, "eval_", same_rows_);
  EXPECT_EQ(best(), Steps{2});
  EXPECT_EQ(said_, "");
}

TEST_F(Ranking, ByAnotherMetricIsMadeAnewAndTheOldBestStays) {
  review({"eval_accuracy", true, 1}, "eval_", same_rows_);
  EXPECT_EQ(best(), Steps{6});
  EXPECT_EQ(state_.were_best, Steps{2});
  EXPECT_EQ(said_,
            "run: best is by eval_accuracy now: step 6, 0.3; step 2, best by eval_loss until now (0.5), stays\n");
  review({"eval_loss", false, 1}, "eval_", same_rows_);
  EXPECT_EQ(best(), Steps{2});
  EXPECT_EQ(state_.were_best, (Steps{2, 6}));
}

TEST_F(Ranking, WhatIsAmongTheBestByBothStaysWhenItIsNoLonger) {
  review({"eval_accuracy", true, 3}, "eval_", same_rows_);
  EXPECT_EQ(best().size(), 3u);
  EXPECT_EQ(state_.were_best, Steps{2});
}

TEST_F(Ranking, TheOtherWayRoundIsMadeAnew) {
  review({"eval_loss", true, 1}, "eval_", same_rows_);
  EXPECT_EQ(best(), Steps{4});
  EXPECT_EQ(state_.were_best, Steps{2});
}

TEST_F(Ranking, ASecondSetGivesTheFirstOnesNumbersAnotherName) {
  const std::map<std::string, std::string> two{{"eval_aa_", "rows of aa"}, {"eval_ev_", "rows of ev"}};
  const RunState before = state_;
  review({"eval_aa_loss", false, 1}, "eval_aa_", two);
  EXPECT_EQ(best(), Steps{});
  EXPECT_EQ(state_.were_best, Steps{2});
  EXPECT_EQ(said_,
            "run: best is by eval_aa_loss now: no checkpoint that is here has been measured by it; step 2, best by "
            "eval_loss until now (0.5), stays\n");
  state_ = before;
  review({"eval_ev_loss", false, 1}, "eval_ev_", two);
  EXPECT_EQ(best(), Steps{2});
  EXPECT_EQ(state_.best[0].metric, "eval_ev_loss");
  EXPECT_EQ(state_.were_best, Steps{});
}

TEST_F(Ranking, OfMorePlacesHasAllThatAreStillThere) {
  review({"eval_loss", false, 3}, "eval_", same_rows_);
  EXPECT_EQ(best(), (Steps{2, 6, 4}));
  EXPECT_EQ(said_, "run: trainer.save.keep_best is 3 now: best by eval_loss: steps 2, 6, 4\n");
  review({"eval_loss", false, 2}, "eval_", same_rows_);
  EXPECT_EQ(best(), (Steps{2, 6}));
  EXPECT_EQ(state_.were_best, Steps{});
  EXPECT_EQ(said_, "run: trainer.save.keep_best is 2 now: best by eval_loss: steps 2, 6; no longer: step 4\n");
}

TEST_F(Ranking, OnOtherRowsBeginsAnewAndTheOldBestStays) {
  review({"eval_loss", false, 1}, "eval_", {{"eval_", "other rows"}});
  EXPECT_EQ(best(), Steps{});
  EXPECT_EQ(state_.were_best, Steps{2});
  EXPECT_EQ(said_,
            "run: eval_loss is measured on other rows than so far; best by these: no checkpoint that is here has been "
            "measured by it; step 2, best by eval_loss until now (0.5), stays\n");
  state_.log_history.push_back({{"step", 8}, {"eval_loss", 0.9}});
  state_.best = {{"eval_loss", 0.9, 8}};
  review({"eval_loss", false, 3}, "eval_", {{"eval_", "other rows"}}, {2, 4, 6, 8});  // the old numbers are no rivals
  EXPECT_EQ(best(), Steps{8});
  EXPECT_EQ(state_.were_best, Steps{2});
}

TEST_F(Ranking, IsOfTheCheckpointsThatAreThere) {
  review({"eval_loss", false, 1}, "eval_", same_rows_, {6});
  EXPECT_EQ(best(), Steps{6});
  EXPECT_EQ(state_.were_best, Steps{});
  EXPECT_EQ(said_, "run: best by eval_loss of the checkpoints that are here: step 6, 0.6\n");
}

TEST_F(Ranking, OfAFolderWithoutARecordIsTakenAsItIs) {
  state_.best_by = {}, state_.measured = {};
  review({"eval_loss", false, 1}, "eval_", same_rows_);
  EXPECT_EQ(best(), Steps{2});
  EXPECT_EQ(said_, "");
  EXPECT_EQ(state_.measured.at("eval_").since, 0);
}

TEST_F(Ranking, WithoutEvaluationsStaysAsItIs) {
  review({}, "", {});
  EXPECT_EQ(best(), Steps{2});
  EXPECT_EQ(state_.best_by.metric, "eval_loss");
}

TEST_F(Ranking, SurvivesItsText) {
  state_.were_best = {4};
  const RunState again = state_from_json(to_json(state_), "train.json");
  EXPECT_EQ(again.best_by, state_.best_by);
  EXPECT_EQ(again.were_best, Steps{4});
  EXPECT_EQ(again.measured.at("eval_").rows, "rows of ev");
}

// The evaluation file is another one at the second start; at the third it is as at first, and so is its fingerprint.
TEST(RankingOfARun, KeepsWhatWasBestOnOtherData) {
  const test::TempFolder folder;
  const auto run = [&](const char* steps, int lines, const char* rate = "1e-2") {
    folder.write("news.jsonl", test::story_lines(lines));
    train(test::small_recipe(folder, {{"trainer.steps", steps},
                                      {"data.eval", "{news: " + (folder / "news.jsonl").string() + "}"},
                                      {"optimizer.schedule", "constant"},
                                      {"optimizer.learning_rate", rate},
                                      {"trainer.eval_every", "2"},
                                      {"trainer.save.every", "2"},
                                      {"trainer.save.keep", "1"}}),
          test::quiet_options());
    return test::read_json(folder / "run" / test::step_folder(std::atoi(steps)) / "state/train.json");
  };
  const std::int64_t first = run("6", 9)["best"]["step"];
  ASSERT_GT(first, 0);
  const nlohmann::json second = run("12", 40, "1");  // which ruins the model: its numbers are all worse
  EXPECT_GT(second["best"]["step"], 6);
  EXPECT_EQ(second["were_best"], nlohmann::json::array({first}));
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / test::step_folder(first)));
}

}  // namespace
}  // namespace hone::training
