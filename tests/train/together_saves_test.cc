// Checkpoints that several ranks write together: they go on with any number of ranks, and a rank that cannot write
// costs the checkpoint, not the run.
#include <gtest/gtest.h>

#include "base/env.h"
#include "io/checkpoints.h"
#include "train/together.h"

namespace hone {
namespace {

using test::Together;

TEST_F(Together, GoesOnWithAnyNumberOfRanks) {
  const test::Overrides twelve{{"trainer.batch_size", "1"}, {"trainer.accumulate", "12"}, {"trainer.save.every", "3"}};
  run(1, "straight", twelve);
  run(4, "broken", twelve);
  const auto from_step_3 = [&](int ranks) {
    TrainOptions options;
    options.resume = "3";
    const Summary summary = run(ranks, "broken", twelve, options);
    EXPECT_EQ(summary.resumed_from, 3);
    expect_close_weights(in("straight"), in("broken"), 8, 1e-10);
    expect_close(in("straight"), in("broken"), 1e-11);
  };
  for (const int ranks : {1, 3, 4, 2}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    from_step_3(ranks);
  }
}

TEST_F(Together, ABrokenRunOfTheSameRanksHasTheSameBits) {
  const test::Overrides bf16{{"trainer.precision", "bf16"}, {"trainer.save.every", "3"}};
  run(2, "straight", bf16);
  run(2, "broken", bf16);
  TrainOptions options;
  options.resume = "6";
  run(2, "broken", bf16, options);
  test::expect_equal_runs(in("straight"), in("broken"), 8);
}

// Saved by four that have shares, gone on with by others, whole and in shares; and back.
TEST_F(Together, SharesGoOnWithAnyNumberOfRanks) {
  const test::Overrides bf16{{"trainer.precision", "bf16"},
                             {"trainer.save.every", "3"},
                             {"trainer.batch_size", "1"},
                             {"trainer.accumulate", "12"}};
  test::Overrides shares = bf16;
  shares.emplace_back("parallel.fsdp", "-1");
  TrainOptions options;
  options.resume = "3";
  run(2, "straight", shares);
  run(2, "broken", shares);
  run(2, "broken", shares, options);
  test::expect_equal_runs(in("straight"), in("broken"), 8);
  run(4, "many", shares);
  for (const auto& [ranks, how] : {std::pair{1, &bf16}, {3, &shares}, {2, &bf16}, {3, &bf16}, {4, &shares}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    EXPECT_EQ(run(ranks, "many", *how, options).resumed_from, 3);
    expect_close_weights(in("straight"), in("many"), 8, 0.05);
  }
}

// Fails the n-th operation on files of the checkpoint of step 3.
class BrokenAtStep3 final : public Env {
 public:
  explicit BrokenAtStep3(int at) : at_(at) {}
  int before(Operation& operation) override {
    if (operation.path.string().find(".tmp-step-00000003") == std::string::npos) return 0;
    return ++count_ == at_ ? ENOSPC : 0;
  }
  int count() const { return count_; }

 private:
  int at_, count_ = 0;
};

TEST_F(Together, ARankThatCannotWriteCostsTheCheckpointNotTheRun) {
  const test::Overrides shares{
      {"trainer.save.every", "3"}, {"trainer.steps", "6"}, {"parallel.fsdp", "-1"}, {"data.eval.held_out", "0"}};
  std::string said;
  log::set_sink([&](log::Level level, std::string_view text) {
    if (level == log::Level::error) said += std::string(text) + "\n";
  });
  for (int at = 1; at < 100; ++at) {
    BrokenAtStep3 env(at);
    broken_env_ = &env, broken_rank_ = 1, said.clear();
    const std::string name = fmt::format("run{}", at);
    const Summary summary = run(2, name, shares);
    EXPECT_EQ(summary.step, 6);
    const auto found = io::Checkpoints(Env::process().open_folder(in(name) / "checkpoints")).scan(io::Verify::full);
    for (const io::Checkpoint& one : found) EXPECT_TRUE(one.whole()) << at << ": " << one.problems[0];
    if (env.count() < at) {
      EXPECT_EQ(found.size(), 2U);
      EXPECT_GT(at, 10);
      log::set_sink({});
      return;
    }
    EXPECT_EQ(summary.failed_saves, 1) << at;
    EXPECT_EQ(found.size(), 1U) << at;
    EXPECT_NE(said.find("checkpoint of step 3 failed: rank 1: "), std::string::npos) << said;
    EXPECT_NE(said.find("No space left on device; needs"), std::string::npos) << said;
  }
  FAIL() << "no end of operations";
}

}  // namespace
}  // namespace hone
