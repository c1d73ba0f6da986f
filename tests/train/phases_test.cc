// Signals in every phase of a run: it stops after its step and goes on bit for bit, or saves and goes on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <random>

#include "base/env.h"
#include "harness/scale.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

// What is raised, and where.
struct Raise {
  std::string phase;
  int number = SIGTERM;
  std::int64_t step = 4;
  int raised = 0;
  void in(std::string_view where, std::int64_t at) {
    static std::mutex mutex;  // files are written by a thread of their own
    const std::lock_guard lock(mutex);
    if (raised > 0 || where != phase || at < step) return;
    raised += 1;
    ::kill(::getpid(), number);
  }
};
Raise raise_now;

class Phases final : public Callback {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Phases(const Config&) {}
  void on_training_start(const TrainView&) override { raise_now.in("training start", raise_now.step); }
  void on_epoch_start(const TrainView&, std::int64_t) override { raise_now.in("epoch", raise_now.step); }
  void on_step_start(const TrainView& view) override { raise_now.in("step start", view.step + 1); }
  void on_gradients(const TrainView& view, Metrics&) override { raise_now.in("gradients", view.step); }
  void after_update(const TrainView& view, WeightEdit&) override { raise_now.in("update", view.step); }
  Action on_step_end(const TrainView& view, Metrics&) override {
    raise_now.in("step end", view.step);
    return Action::go_on;
  }
  void on_log(const TrainView& view, Metrics&) override { raise_now.in("log", view.step); }
  void on_evaluation_start(const TrainView& view) override { raise_now.in("evaluation", view.step); }
  Action on_evaluation_end(const TrainView& view, Metrics&) override {
    raise_now.in("evaluation end", view.step);
    return Action::go_on;
  }
  void on_save(const TrainView& view, const std::string&) override { raise_now.in("saved", view.step); }
};

// In the middle of what is done to files: the phase is the operation and a part of its path.
class RaisingEnv final : public Env {
 public:
  std::int64_t at = 0;  // or at this operation
  int before(Operation& operation) override {
    if (++count_ == at) ::kill(::getpid(), raise_now.number);
    const std::string what = std::string(name_of(operation.kind)) + " ";
    for (const std::string& path : {operation.path.string(), operation.target.string()})
      for (const char* part : {"model.safetensors", "MANIFEST", ".tmp-step", ".trash", "metrics.jsonl", "latest"})
        if (path.find(part) != std::string::npos) raise_now.in(what + part, raise_now.step);
    return 0;
  }
  std::int64_t count() const { return count_; }

 private:
  std::atomic<std::int64_t> count_ = 0;
};

class SignalPhases : public ::testing::Test {
 protected:
  SignalPhases() {
    static const bool once = (registries().callbacks.add<Phases>("phases", "Raises a signal."), true);
    static_cast<void>(once);
  }
  Summary run(const std::string& name, const Overrides& more, Env* env = nullptr) {
    Overrides overrides{{"run.folder", (folder_ / name).string()},
                        {"trainer.eval_every", "3"},
                        {"trainer.save.every", "3"},
                        {"trainer.save.keep", "2"},
                        {"callbacks", "[phases]"}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    TrainOptions options = test::quiet_options();
    options.env = env;
    return train(test::small_recipe(folder_, overrides), options);
  }
  void expect_goes_on(const Summary& first, const Overrides& more) {
    const bool early = first.checkpoint.empty();  // before there was anything to keep
    if (!early) {
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(first.checkpoint) / "MANIFEST.json"));
    }
    if (raise_now.number == SIGUSR1) {
      EXPECT_EQ(first.reason, StopReason::steps);
      EXPECT_EQ(first.step, 10);
    } else if (first.step < 10) {
      EXPECT_TRUE(first.interrupted());
      EXPECT_EQ(first.stopped_by, raise_now.number == SIGINT ? "SIGINT" : "SIGTERM");
      EXPECT_TRUE(early || first.checkpoint.ends_with(fmt::format("step-{:08d}", first.step))) << first.checkpoint;
    }
    raise_now.phase = "";
    const Summary last = run("parts", more);
    EXPECT_EQ(last.step, 10);
    test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
    std::filesystem::remove_all(folder_ / "parts");
  }
  void expect_everywhere(const Overrides& more) {
    raise_now = {};
    run("whole", more);
    for (const char* phase :
         {"training start", "epoch", "step start", "gradients", "update", "step end", "log", "evaluation",
          "evaluation end", "saved", "write model.safetensors", "sync MANIFEST", "rename .tmp-step", "rename .trash",
          "remove_folder .trash", "write metrics.jsonl", "replace latest", "make_folder .tmp-step"})
      for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
        SCOPED_TRACE(fmt::format("signal {} at {}", number, phase));
        raise_now = {phase, number, 4, 0};
        RaisingEnv env;
        const Summary first = run("parts", more, &env);
        EXPECT_EQ(raise_now.raised, 1);
        if (phase == std::string("evaluation") && number != SIGUSR1) {  // nobody waits for its end
          EXPECT_FALSE(test::metrics_of(folder_ / "parts").back().contains("eval_loss"));
        }
        expect_goes_on(first, more);
        if (HasFailure()) return;
      }
  }
  test::TempFolder folder_;
};

TEST_F(SignalPhases, InEachOfThemARunGoesOnBitForBit) { expect_everywhere({}); }

TEST_F(SignalPhases, WhileItSavesBesideTrainingToo) { expect_everywhere({{"trainer.save.asynchronous", "true"}}); }

TEST_F(SignalPhases, AtAnyOperationOfItsFiles) {
  raise_now = {};
  RaisingEnv counting;
  run("whole", {}, &counting);
  std::mt19937 random(9);
  for (int i = 0; i < test::scaled(20, 200); ++i) {
    raise_now = {"", std::array{SIGTERM, SIGINT, SIGUSR1}[random() % 3], 0, 0};
    RaisingEnv env;
    env.at = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(counting.count()));
    SCOPED_TRACE(fmt::format("signal {} at operation {}", raise_now.number, env.at));
    expect_goes_on(run("parts", {}, &env), {});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hone
