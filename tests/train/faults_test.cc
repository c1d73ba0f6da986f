// Runs that something goes wrong with: NaN, signals, full disks, locks, early ends.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/signals.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "io/run_folder.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

// Fails chosen operations, as a full disk would.
class BrokenEnv final : public Env {
 public:
  std::function<int(const Operation&)> rule;
  int before(Operation& operation) override { return rule ? rule(operation) : 0; }
};

class Faults : public ::testing::Test {
 protected:
  Faults() {
    test::register_test_callbacks();
    log::set_sink([this](log::Level level, std::string_view text) {
      if (level >= log::Level::warning) messages_ += std::string(text) + "\n";
    });
  }
  ~Faults() override { log::set_sink({}); }
  Recipe recipe(const Overrides& overrides = {}) { return test::small_recipe(folder_, overrides); }
  std::filesystem::path run_folder() const { return folder_ / "run"; }
  bool has_step(std::int64_t step) const {
    return std::filesystem::exists(run_folder() / test::step_folder(step) / "MANIFEST.json");
  }
  test::TempFolder folder_;
  TrainOptions options_ = test::quiet_options();
  std::string messages_;
};

TEST_F(Faults, NaNStopsBeforeTheUpdateAndNamesStepParameterAndRecords) {
  const Recipe poisoned = recipe({{"callbacks", "[{type: poison, step: 6}]"}});
  try {
    train(poisoned, options_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_finite);
    const std::string text = error.what();
    for (const char* part :
         {"step 7", "nan", "train.jsonl:", "first bad gradient: model.", "last checkpoint is step 4"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_TRUE(has_step(4));
  EXPECT_FALSE(has_step(8));
  EXPECT_EQ(test::read_json(run_folder() / "nonfinite-step-7.json")["step"], 7);
  const nlohmann::json told = test::metrics_of(run_folder()).back();
  EXPECT_EQ(told["step"], 7);
  EXPECT_EQ(told["loss"], "nan");
  EXPECT_EQ(train(recipe(), options_).resumed_from, 4);  // without the poison it goes on
}

// What was learnt before is not lost: the same command goes on from the last whole step, to the same bits.
TEST_F(Faults, AnErrorBetweenStepsLeavesThemSaved) {
  const auto weights = [&](std::int64_t step) {
    return test::read_text(run_folder() / test::step_folder(step) / "model.safetensors");
  };
  train(recipe(), options_);
  const std::string expected = weights(10);
  const std::vector<std::pair<std::string, std::int64_t>> cases = {
      {"{type: fail_at, step: 6, when: end}", 6},
      {"{type: fail_at, step: 7, when: gradients}", 6},
      {"{type: fail_at, step: 5, when: evaluation}", 5},
      {"{type: fail_at, step: 10, when: evaluation}", 10}};
  for (const auto& [callback, step] : cases) {
    std::filesystem::remove_all(run_folder());
    EXPECT_HONE_ERROR(train(recipe({{"callbacks", "[" + callback + "]"}}), options_), data, "it fails on purpose");
    EXPECT_TRUE(has_step(step)) << callback;
    EXPECT_EQ(train(recipe(), options_).resumed_from, step) << callback;
    EXPECT_EQ(weights(10), expected) << callback;
  }
}

// Half an update is no step.
TEST_F(Faults, AnErrorWithinAnUpdateSavesNothing) {
  EXPECT_HONE_ERROR(train(recipe({{"callbacks", "[{type: fail_at, step: 7, when: update}]"}}), options_), data,
                    "it fails on purpose");
  EXPECT_TRUE(has_step(4));
  for (const std::int64_t step : {6, 7}) EXPECT_FALSE(has_step(step));
}

// The last checkpoint has the bad weights, is known to, and takes no good one's place.
TEST_F(Faults, WeightsThatAreNoNumbersPushNoGoodCheckpointOut) {
  for (const char* beside : {"false", "true"}) {
    const Overrides saves{
        {"trainer.save.every", "2"}, {"trainer.save.keep", "1"}, {"trainer.save.asynchronous", beside}};
    Overrides poisoned = saves;
    poisoned.emplace_back("callbacks", "[{type: poison, step: 4}]");
    EXPECT_HONE_ERROR(train(recipe(poisoned), options_), not_finite, "step 5");
    EXPECT_TRUE(has_step(2));
    EXPECT_TRUE(has_step(4)) << "the bad weights were not saved, so nothing was tested";
    messages_.clear();
    EXPECT_EQ(train(recipe(saves), options_).resumed_from, 2);
    EXPECT_NE(messages_.find("step-00000004 is not used: its weights are not finite; going back to step 2"),
              std::string::npos)
        << messages_;
    std::filesystem::remove_all(run_folder());
  }
}

TEST_F(Faults, ASaveThatDoesNotFitTheGraceIsWarnedOf) {
  train(recipe({{"trainer.save.grace_seconds", "0.000001"}}), options_);
  EXPECT_NE(messages_.find("it may not fit between SIGTERM and SIGKILL (trainer.save.grace_seconds)"),
            std::string::npos)
      << messages_;
}

TEST_F(Faults, AFullDiskDuringASaveKeepsTheLastCheckpointAndTrainsOn) {
  BrokenEnv env;
  env.rule = [](const Operation& operation) {
    const bool hit = operation.kind == Operation::Kind::write &&
                     operation.path.string().find("step-00000008") != std::string::npos &&
                     operation.path.filename() == "model.safetensors";
    return hit ? ENOSPC : 0;
  };
  options_.env = &env;
  const Summary summary = train(recipe(), options_);
  EXPECT_EQ(summary.failed_saves, 1);
  EXPECT_EQ(summary.step, 10);
  for (const char* part : {"checkpoint of step 8 failed", "model.safetensors", "No space left on device", "kept step 4",
                           "training continues"})
    EXPECT_NE(messages_.find(part), std::string::npos) << part << " is not in\n" << messages_;
  EXPECT_TRUE(has_step(4));
  EXPECT_FALSE(has_step(8));
  EXPECT_TRUE(has_step(10));
}

int fails_last_save(const Operation& operation) {
  const bool hit = operation.kind == Operation::Kind::sync &&
                   operation.path.string().find("step-00000010") != std::string::npos;
  return hit ? EIO : 0;
}

TEST_F(Faults, AFailedFinalSaveIsAnErrorAndKeepsTheLastCheckpoint) {
  BrokenEnv env;
  env.rule = fails_last_save;
  options_.env = &env;
  EXPECT_HONE_ERROR(train(recipe(), options_), checkpoint, "saving the last checkpoint; kept step 8");
  EXPECT_TRUE(has_step(8));
  options_.env = nullptr;
  EXPECT_EQ(train(recipe(), options_).resumed_from, 8);
}

class Ended final : public Tracker {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  static inline int times = 0;
  Ended(const Config&, const RunInfo&) {}
  void log(std::int64_t, const Metrics&) override {}
  void finish() override { ++times; }
};

// Who shows runs to others shows none as finished that is not saved.
TEST_F(Faults, TrackersFinishOnlyWhatIsSaved) {
  static const bool once = (registries().trackers.add<Ended>("ended", "Counts."), true);
  static_cast<void>(once);
  BrokenEnv env;
  env.rule = fails_last_save;
  options_.env = &env;
  EXPECT_HONE_ERROR(train(recipe({{"trackers", "[ended]"}}), options_), checkpoint, "saving the last checkpoint");
  EXPECT_EQ(Ended::times, 0);
  options_.env = nullptr;
  train(recipe({{"trackers", "[ended]"}}), options_);
  EXPECT_EQ(Ended::times, 1);
}

TEST_F(Faults, AFolderDeletedMeanwhileIsToldAndTrainingGoesOn) {
  BrokenEnv env;
  env.rule = [&](const Operation& operation) {
    if (operation.path.filename() == "model.safetensors" && has_step(4))
      std::filesystem::remove_all(run_folder() / "checkpoints");
    return 0;
  };
  options_.env = &env;
  EXPECT_EQ(train(recipe(), options_).failed_saves, 1);
  for (const char* part : {"checkpoint of step 8 failed", "No such file or directory", "training continues",
                           "checkpoints: was gone, and is made anew; what had been saved there is lost"})
    EXPECT_NE(messages_.find(part), std::string::npos) << part << " is not in\n" << messages_;
  EXPECT_TRUE(has_step(10));
}

// At the end of the run, when there is nothing left but what was trained.
TEST_F(Faults, CheckpointsThatAreRemovedMeanwhileAreMadeAnew) {
  BrokenEnv env;
  bool removed = false;
  env.rule = [&](const Operation&) {
    if (!removed && has_step(8)) std::filesystem::remove_all(run_folder() / "checkpoints"), removed = true;
    return 0;
  };
  options_.env = &env;
  EXPECT_EQ(train(recipe(), options_).step, 10);
  EXPECT_TRUE(removed);
  EXPECT_TRUE(has_step(10));
  options_.env = nullptr;
  EXPECT_EQ(train(recipe({{"trainer.steps", "12"}}), options_).resumed_from, 10);
}

// Whoever learns of the checkpoint fails, not the save.
TEST_F(Faults, ACallbackThatFailsOnTheLastSaveIsNoFailedSave) {
  try {
    train(recipe({{"callbacks", "[{type: fail_at, step: 10, when: save}]"}}), options_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("while saving"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(has_step(10));
  EXPECT_EQ(train(recipe(), options_).reason, StopReason::already_finished);
}

// A plug-in that throws what is no hone::Error.
TEST_F(Faults, AnyExceptionOfACallbackLeavesTheStepsSaved) {
  EXPECT_HONE_ERROR(train(recipe({{"callbacks", "[{type: fail_at, step: 6, when: otherwise}]"}}), options_), bug,
                    "it fails otherwise");
  EXPECT_TRUE(has_step(6));
}

TEST_F(Faults, AFolderThatIsRenamedMeanwhileGetsItsCheckpoints) {
  const std::filesystem::path moved = folder_ / "moved";
  for (const char* beside : {"false", "true"}) {
    BrokenEnv env;
    env.rule = [&](const Operation& operation) {
      if (operation.path.filename() == "model.safetensors" && has_step(4)) std::filesystem::rename(run_folder(), moved);
      return 0;
    };
    options_.env = &env;
    EXPECT_EQ(train(recipe({{"trainer.save.asynchronous", beside}}), options_).failed_saves, 0);
    for (const std::int64_t step : {4, 8, 10})
      EXPECT_TRUE(std::filesystem::exists(moved / test::step_folder(step) / "MANIFEST.json")) << step << messages_;
    EXPECT_FALSE(std::filesystem::exists(run_folder()));
    std::filesystem::remove_all(moved);
  }
}

TEST_F(Faults, ADiskThatCannotHoldTheCheckpointsIsRefusedAtTheStart) {
  io::RunFolder run(Env::process(), folder_ / "other");
  EXPECT_HONE_ERROR(run.check_space(std::uint64_t{1} << 60, 4), checkpoint, "");
}

TEST_F(Faults, AFolderInThePlaceOfALinkForPeopleIsNoFailedSave) {
  folder_.write("run/latest/mine.txt", "precious");
  const Summary summary = train(recipe(), options_);
  EXPECT_EQ(summary.failed_saves, 0);
  EXPECT_TRUE(has_step(4) && has_step(8) && has_step(10));
  EXPECT_EQ(test::read_text(run_folder() / "latest/mine.txt"), "precious");
  EXPECT_NE(messages_.find("latest: is there already, and no link that hone made"), std::string::npos) << messages_;
}

TEST_F(Faults, OldCheckpointsThatCannotBeRemovedAreNoFailedSave) {
  BrokenEnv env;
  env.rule = [](const Operation& operation) {
    return operation.target.filename().string().starts_with(".trash-") ? EACCES : 0;
  };
  options_.env = &env;
  const Summary summary = train(recipe({{"trainer.save.keep", "1"}}), options_);
  EXPECT_EQ(summary.failed_saves, 0);
  EXPECT_TRUE(has_step(4) && has_step(8) && has_step(10));
  EXPECT_NE(messages_.find("older checkpoints are not removed: "), std::string::npos) << messages_;
}

TEST_F(Faults, ASecondRunInTheSameFolderIsLockedOut) {
  io::RunFolder first(Env::process(), run_folder());
  EXPECT_HONE_ERROR(train(recipe(), options_), locked, "run");
}

TEST_F(Faults, SigtermFinishesTheStepAndSaves) {
  const Summary summary = train(recipe({{"callbacks", "[{type: raise_at, step: 3}]"}}), options_);
  EXPECT_TRUE(summary.interrupted());
  EXPECT_EQ(summary.step, 3);
  EXPECT_TRUE(has_step(3));
}

TEST_F(Faults, Sigusr1SavesAndGoesOn) {
  const Summary summary =
      train(recipe({{"callbacks", fmt::format("[{{type: raise_at, step: 3, number: {}}}]", SIGUSR1)}}), options_);
  EXPECT_EQ(summary.reason, StopReason::steps);
  EXPECT_TRUE(has_step(3));
  EXPECT_EQ(summary.step, 10);
}

TEST_F(Faults, ASecondSignalEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs this program again: a fork would have no OpenMP threads
  ASSERT_EXIT(train(recipe({{"callbacks", "[{type: raise_at, step: 3}, {type: raise_at, step: 3}]"}}), options_),
              ::testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST_F(Faults, TheLastStepIsLoggedEvenWhenItIsNotDue) {
  train(recipe({{"trainer.log_every", "7"}}), options_);
  std::vector<std::int64_t> steps;
  for (const nlohmann::json& line : test::metrics_of(run_folder()))
    if (line.contains("loss")) steps.push_back(line["step"]);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{7, 10}));
}

TEST_F(Faults, TheStepsBeforeACallbacksStopAreLogged) {
  const Overrides early{{"callbacks", "[{type: early_stopping, patience: 1, min_drop: 100}]"},
                        {"trainer.eval_every", "4"}, {"trainer.log_every", "3"}, {"trainer.report_every", "5"}};
  EXPECT_EQ(train(recipe(early), options_).step, 8);
  std::vector<std::int64_t> steps;
  for (const nlohmann::json& line : test::metrics_of(run_folder()))
    if (line.contains("loss")) steps.push_back(line["step"]);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 6, 8}));
}

TEST_F(Faults, EarlyStoppingEndsTheRunAndStaysEnded) {
  const Overrides early{{"callbacks", "[{type: early_stopping, patience: 1, min_drop: 100}]"}};
  const Summary summary = train(recipe(early), options_);
  EXPECT_EQ(summary.reason, StopReason::callback);
  EXPECT_EQ(summary.stopped_by, "early_stopping");
  EXPECT_EQ(summary.step, 10);  // the first evaluation is a best, the second is not
  EXPECT_EQ(train(recipe(early), options_).reason, StopReason::already_finished);
}

TEST_F(Faults, AnUnknownMetricOfEarlyStoppingNamesTheKnownOnes) {
  EXPECT_HONE_ERROR(train(recipe({{"callbacks", "[{type: early_stopping, metric: eval_los}]"}}), options_), config,
                    "eval_loss");
}

TEST_F(Faults, RetentionKeepsTheNewestAndTheBest) {
  train(recipe({{"trainer.save.every", "1"}, {"trainer.save.keep", "2"}, {"trainer.eval_every", "1"}}), options_);
  int kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run_folder() / "checkpoints"))
    kept += entry.path().filename().string().starts_with("step-");
  EXPECT_TRUE(has_step(10) && has_step(9));
  EXPECT_LE(kept, 3);
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "latest" / "config.json"));
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "best" / "config.json"));
}

TEST_F(Faults, CheckpointsHoldWhatTheFormatSays) {
  train(recipe(), options_);
  const std::filesystem::path folder = run_folder() / test::step_folder(10);
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors", "trainer_state.json",
        "MANIFEST.json", "state/train.json", "state/config.yaml", "state/optimizer-00000-of-00001.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  const nlohmann::json state = test::read_json(folder / "trainer_state.json");
  EXPECT_EQ(state["global_step"], 10);
  EXPECT_EQ(state["max_steps"], 10);
  const nlohmann::json& first = state["log_history"][0];
  for (const char* name : {"step", "loss", "grad_norm", "learning_rate", "epoch"})
    EXPECT_TRUE(first.contains(name)) << name;
  EXPECT_TRUE(state["log_history"].back().contains("eval_loss"));
}

TEST_F(Faults, BadDataLeavesNoRunBehind) {
  EXPECT_HONE_ERROR(
      train(recipe({{"data.train", folder_.write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": }\n").string()}}),
            options_),
      data, "bad.jsonl:2");
  EXPECT_FALSE(std::filesystem::exists(run_folder() / "config.yaml"));
}

TEST_F(Faults, UnusualDataIsWarnedOf) {
  train(recipe({{"data.overlong", "keep_start"}, {"data.max_length", "16"}, {"trainer.steps", "1"}}), options_);
  EXPECT_NE(messages_.find("% of the tokens are cut off"), std::string::npos) << messages_;
}

}  // namespace
}  // namespace hone
