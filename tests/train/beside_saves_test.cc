// Checkpoints written beside training, when that goes wrong: too slow, no memory, a thread's exception.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <set>
#include <system_error>
#include <thread>

#include "base/env.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

std::atomic<std::int64_t> steps_made;
std::vector<std::string> told;  // of checkpoints

class Observing final : public Callback {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Observing(const Config&) {}
  Action on_step_end(const TrainView& view, Metrics&) override {
    steps_made = view.step;
    return Action::go_on;
  }
  void on_save(const TrainView&, const std::string& checkpoint) override { told.push_back(checkpoint); }
};

// Acts at operations of files, and counts the folders that are in the making at once.
class Acting final : public Env {
 public:
  std::function<void(const Operation&)> act;
  std::atomic<std::size_t> most = 0;
  int before(Operation& operation) override {
    const std::string name = operation.path.filename().string();
    if (name.starts_with(".tmp-step")) {
      const std::lock_guard lock(mutex_);
      if (operation.kind == Operation::Kind::make_folder) open_.insert(name);
      if (operation.kind == Operation::Kind::rename || operation.kind == Operation::Kind::remove_folder)
        open_.erase(name);
      most = std::max(most.load(), open_.size());
    }
    if (act) act(operation);
    return 0;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> open_;
};

bool writes(const Operation& operation, std::int64_t step) {
  return operation.kind == Operation::Kind::write && operation.path.filename() == "model.safetensors" &&
         operation.path.string().find(fmt::format("step-{:08d}", step)) != std::string::npos;
}

class BesideSaves : public ::testing::Test {
 protected:
  BesideSaves() {
    static const bool once = (registries().callbacks.add<Observing>("observing", "Looks on."), true);
    static_cast<void>(once);
    steps_made = 0;
    told.clear();
  }
  ~BesideSaves() override { log::set_sink({}); }
  Summary run(const std::string& beside) {
    TrainOptions options = test::quiet_options();
    options.env = &env_;
    log::set_level(log::Level::info);
    log::set_sink([this](log::Level, std::string_view text) { said_ += std::string(text) + "\n"; });
    return train(test::small_recipe(folder_, {{"trainer.save.asynchronous", beside}, {"callbacks", "[observing]"}}),
                 options);
  }
  bool has_step(std::int64_t step) const {
    return std::filesystem::exists(folder_ / "run" / test::step_folder(step) / "MANIFEST.json");
  }
  test::TempFolder folder_;
  Acting env_;
  std::string said_;
};

// The save of step 4 lasts until step 8 is made, whose own then waits for it.
TEST_F(BesideSaves, ASlowOneIsWaitedForAndNoneIsForgotten) {
  env_.act = [](const Operation& operation) {
    if (!writes(operation, 4)) return;
    while (steps_made < 8) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  };
  const Summary summary = run("true");
  EXPECT_EQ(summary.failed_saves, 0);
  EXPECT_EQ(env_.most, 1u);
  EXPECT_TRUE(has_step(4) && has_step(8) && has_step(10));
  EXPECT_THAT(said_, testing::ContainsRegex("step 8: waited .* for the checkpoint of step 4, which was still being "
                                            "written"));
  EXPECT_EQ(told, (std::vector<std::string>{"step-00000004", "step-00000008", "step-00000010"}));
}

// No memory, or no thread, is a failed save like any other; training goes on, and the next one is made.
TEST_F(BesideSaves, WhatIsThrownWhileSavingIsAFailedSave) {
  const std::vector<std::function<void()>> throws{
      [] { throw std::bad_alloc(); },
      [] { throw std::system_error(EAGAIN, std::generic_category(), "a thread"); }};
  for (const char* beside : {"true", "false"})
    for (const auto& throwing : throws) {
      std::filesystem::remove_all(folder_ / "run");
      said_.clear(), told.clear();
      env_.act = [&](const Operation& operation) {
        if (writes(operation, 4)) throwing();
      };
      const Summary summary = run(beside);
      EXPECT_EQ(summary.failed_saves, 1);
      EXPECT_EQ(summary.step, 10);
      EXPECT_THAT(said_, testing::ContainsRegex("checkpoint of step 4 failed: .*step-00000004: cannot save: .*"
                                                "no checkpoint yet; training continues"));
      EXPECT_FALSE(has_step(4));
      EXPECT_TRUE(has_step(8) && has_step(10));
      EXPECT_EQ(told, (std::vector<std::string>{"step-00000008", "step-00000010"}));
    }
}

// Whatever else a thread throws is not kept for the end: it ends the run at once, with its own kind.
TEST_F(BesideSaves, AnotherRunThatTookOverEndsThisOne) {
  env_.act = [](const Operation& operation) {
    if (writes(operation, 4)) throw Error(ErrorKind::locked, "taken over");
  };
  EXPECT_HONE_ERROR(run("true"), locked, "taken over");
  EXPECT_LE(steps_made, 8);
  EXPECT_FALSE(has_step(4) || has_step(8));
}

}  // namespace
}  // namespace hone
