// state/train.json: what is written is read back, and nothing else is.
#include "train/state.h"

#include <gtest/gtest.h>

#include "harness/errors.h"

namespace hone::training {
namespace {

TEST(TrainStateText, SurvivesItsOwnText) {
  RunState state;
  state.step = 7;
  state.tokens = 1234;
  state.threads = 2;
  state.best = {{"eval_loss", -std::numeric_limits<double>::infinity(), 4}, {"eval_loss", 0.5, 2}};
  state.callbacks["0.early_stopping"]["waited"] = 2.0;
  const RunState again = state_from_json(to_json(state), "train.json");
  EXPECT_EQ(to_json(again), to_json(state));
  ASSERT_EQ(again.best.size(), 2u);
  EXPECT_EQ(again.best[0].value, state.best[0].value);
  EXPECT_EQ(again.best[1].step, 2);
}

TEST(TrainStateText, WithTheNormsOfTheLongestWindowIsReadAgain) {
  RunState state;
  for (int i = 0; i < 1 << 20; ++i) state.norms.push_back(1 / (3.0 + i));  // the most that skip_spikes.window takes
  const std::string text = to_json(state);
  ASSERT_GT(text.size(), 16'000'000u);
  EXPECT_EQ(state_from_json(text, "train.json").norms, state.norms);
}

TEST(TrainStateText, OfBeforeUpdatesWereCountedHasOneForEachStep) {
  RunState state;
  state.step = 7;
  nlohmann::json old = nlohmann::json::parse(to_json(state));
  old.erase("updates");
  EXPECT_EQ(state_from_json(old.dump(), "train.json").updates, 7);
}

TEST(TrainStateText, OfBeforeThreadsWereRecordedIsRead) {
  nlohmann::json old = nlohmann::json::parse(to_json(RunState()));
  old.erase("threads");
  EXPECT_EQ(state_from_json(old.dump(), "train.json").threads, 0);
}

TEST(TrainStateText, HostileOnesAreRefused) {
  const nlohmann::json good = nlohmann::json::parse(to_json(RunState()));
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[key] = value;
    return state_from_json(bad.dump(), "train.json");
  };
  EXPECT_HONE_ERROR(with("computed_by", 3), checkpoint, "not the state of a run");
  for (const char* key : {"step", "tokens", "skipped_steps", "updates", "threads"}) {
    EXPECT_HONE_ERROR(with(key, -5), checkpoint, std::string("train.json: ") + key + ": got -5, expected a count");
    EXPECT_HONE_ERROR(with(key, 1.5), checkpoint, "expected a count");
    EXPECT_HONE_ERROR(with(key, true), checkpoint, "expected a count");
    EXPECT_HONE_ERROR(with(key, std::uint64_t{1} << 63), checkpoint, "expected a count");
    EXPECT_HONE_ERROR(with(key, nullptr), checkpoint, "expected a count");
  }
  EXPECT_HONE_ERROR(with("version", 3), checkpoint, "version 3");
  EXPECT_HONE_ERROR(with("best", 3), checkpoint, "not the state of a run");
  EXPECT_HONE_ERROR(state_from_json("[]", "train.json"), checkpoint, "not the state of a run");
  EXPECT_HONE_ERROR(state_from_json("{", "train.json"), checkpoint, "not JSON");
}

}  // namespace
}  // namespace hone::training
