// Checkpoints that are written while training goes on, or without what a run goes on from.
#include <dirent.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "base/env.h"
#include "hone/registry.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class Saves : public ::testing::Test {
 protected:
  Saves() { test::register_test_callbacks(); }
  Summary run(const std::string& name, test::Overrides overrides, TrainOptions options = test::quiet_options()) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return train(test::small_recipe(folder_, overrides), options);
  }
  test::TempFolder folder_;
};

// Every file of a checkpoint but what carries times.
void expect_same_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b, std::int64_t step) {
  for (const char* name : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors", "trainer_state.json",
                           "state/train.json", "config.json"}) {
    SCOPED_TRACE(fmt::format("{} of step {}", name, step));
    const std::string one = test::read_text(a / test::step_folder(step) / name);
    EXPECT_FALSE(one.empty());
    EXPECT_TRUE(one == test::read_text(b / test::step_folder(step) / name));
  }
}

// What is trained on changes while the checkpoint is written: none of that is in it.
TEST_F(Saves, BesideTrainingAreThoseBetweenSteps) {
  const std::vector<test::Overrides> kinds{
      {},
      {{"trainer.precision", "bf16"}},
      {{"trainer.precision", "bf16"}, {"trainer.save.dtype", "fp32"}},
      {{"trainer.ema", "0.9"}, {"optimizer", "{type: lion, learning_rate: 1e-2}"}},
  };
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    test::Overrides overrides = kinds[i];
    overrides.emplace_back("trainer.save.every", "1");
    const std::string one = fmt::format("between-{}", i), other = fmt::format("beside-{}", i);
    run(one, overrides);
    overrides.emplace_back("trainer.save.asynchronous", "true");
    run(other, overrides);
    for (std::int64_t step = 1; step <= 10; ++step) expect_same_checkpoints(folder_ / one, folder_ / other, step);
    EXPECT_EQ(std::filesystem::read_symlink(folder_ / one / "best"),
              std::filesystem::read_symlink(folder_ / other / "best"));
    EXPECT_EQ(test::fixed_metrics_of(folder_ / one), test::fixed_metrics_of(folder_ / other));
  }
}

TEST_F(Saves, BesideTrainingResumeBitForBit) {
  const test::Overrides overrides{{"trainer.save.asynchronous", "true"}, {"trainer.save.every", "1"}};
  run("whole", overrides);
  for (const int step : {3, 5, 8}) {
    test::Overrides stopped = overrides;
    stopped.emplace_back("callbacks", fmt::format("[{{type: raise_at, step: {}}}]", step));
    EXPECT_TRUE(run("parts", stopped).interrupted());
  }
  run("parts", overrides);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
}

// The disk is full while the checkpoint of step 4 is written, whenever that is.
class FullAtStep4 final : public Env {
 public:
  int before(Operation& operation) override {
    const std::string path = operation.path.string();
    const auto has = [&](const char* part) { return path.find(part) != std::string::npos; };
    return has("step-00000004") && has("model.safetensors") ? ENOSPC : 0;
  }
};

TEST_F(Saves, BesideTrainingAFullDiskCostsTheCheckpointAlone) {
  FullAtStep4 env;
  TrainOptions options = test::quiet_options();
  options.env = &env;
  log::set_level(log::Level::silent);
  const Summary summary = run("run", {{"trainer.save.asynchronous", "true"}, {"trainer.save.every", "4"}}, options);
  log::set_level(log::Level::warning);
  EXPECT_EQ(summary.failed_saves, 1);
  EXPECT_EQ(summary.step, 10);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / test::step_folder(4)));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / test::step_folder(8) / "MANIFEST.json"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/checkpoints"))
    EXPECT_NE(entry.path().filename().string().front(), '.') << entry.path();
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  DIR* opened = ::opendir(folder);
  while (::readdir(opened)) ++count;
  ::closedir(opened);
  return count;
}

// Handles, threads and memory at two steps of a run that saves at each one.
struct Held {
  std::size_t handles = 0, threads = 0, bytes = 0;
  static Held now() {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0, resident = 0;
    file >> all >> resident;
    return {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), resident * 4096};
  }
};
Held held_early, held_late;

class Watching final : public Callback {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Watching(const Config&) {}
  Action on_step_end(const TrainView& view, Metrics&) override {
    if (view.step == 20) held_early = Held::now();
    if (view.step == 200) held_late = Held::now();
    return Action::go_on;
  }
};

TEST_F(Saves, TwoHundredLeaveNothingBehind) {
  static const bool once = (registries().callbacks.add<Watching>("watching", "Counts handles."), true);
  static_cast<void>(once);
  for (const char* beside : {"false", "true"}) {
    SCOPED_TRACE(beside);
    run(fmt::format("run-{}", beside), {{"trainer.steps", "201"},
                                        {"trainer.save.every", "1"},
                                        {"trainer.save.keep", "2"},
                                        {"trainer.eval_every", "0"},
                                        {"trainer.save.asynchronous", beside},
                                        {"callbacks", "[watching]"}});
    const bool under_way = std::string_view(beside) == "true";
    EXPECT_LE(held_late.handles, held_early.handles + (under_way ? 6 : 0));
    EXPECT_LE(held_late.threads, held_early.threads + 8);  // teams of OpenMP come and go; a leak would be 180
    EXPECT_LE(held_late.bytes, held_early.bytes + held_early.bytes / 100);
  }
}

TEST_F(Saves, WithoutOptimizerNoRunGoesOnFromThem) {
  const test::Overrides overrides{{"trainer.save.optimizer", "false"}};
  const Summary summary = run("alone", overrides);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(summary.checkpoint) / "state" /
                                       "optimizer-00000-of-00001.safetensors"));
  EXPECT_EQ(run("alone", overrides).reason, StopReason::already_finished);
  test::Overrides more = overrides;
  more.emplace_back("trainer.steps", "12");
  EXPECT_HONE_ERROR(run("alone", more), checkpoint, "trainer.save.optimizer: false");
}

TEST_F(Saves, AnInterruptionsCheckpointIsWhole) {
  const test::Overrides overrides{{"trainer.save.optimizer", "false"}, {"trainer.save.every", "2"}};
  run("whole", {{"trainer.save.every", "2"}});
  for (const std::string step : {"5", "4"}) {  // 4: that was just saved without
    test::Overrides stopped = overrides;
    stopped.emplace_back("callbacks", "[{type: raise_at, step: " + step + "}]");
    EXPECT_TRUE(run("parts" + step, stopped).interrupted());
    run("parts" + step, overrides);
    EXPECT_TRUE(test::read_text(folder_ / "whole" / test::step_folder(10) / "model.safetensors") ==
                test::read_text(folder_ / ("parts" + step) / test::step_folder(10) / "model.safetensors"));
  }
}

// What stands in the way of the file comes in after the run has looked.
TEST_F(Saves, StepsBeforeGradientsThatCannotBeWrittenAreKept) {
  TrainOptions options = test::quiet_options();
  options.gradients = (folder_ / "gradients.safetensors").string();
  folder_.write(".new-gradients.safetensors/in the way", "");
  EXPECT_HONE_ERROR(run("lost", {{"trainer.steps", "5"}, {"trainer.save.every", "0"}}, options), checkpoint,
                    "gradients.safetensors");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "lost" / test::step_folder(4)));
}

// A new run from weights and optimizer of another: its first step is the step that the other would have made.
TEST_F(Saves, ANewRunTakesWeightsAndOptimizer) {
  const test::Overrides same{{"optimizer", "{type: adamw, learning_rate: 1e-2, schedule: constant}"},
                             {"data.eval", "{}"},
                             {"trainer.eval_every", "0"},
                             {"trainer.batch_size", "60"},  // all rows in each step
                             {"data.max_length", "256"},
                             {"data.shuffle", "false"},
                             {"data.packing", "none"},
                             {"trainer.save.every", "1"}};
  const auto with = [&](test::Overrides more) {
    more.insert(more.begin(), same.begin(), same.end());
    return more;
  };
  const std::string path = (folder_ / "old").string();
  run("old", with({{"trainer.steps", "5"}}));
  const auto from = [&](const std::string& load) {
    return with({{"trainer.steps", "1"}, {"model", fmt::format("{{path: {}, load: {}}}", path, load)}});
  };
  run("new", from("{checkpoint: 4, optimizer: true}"));
  const auto weights = [&](const std::string& run, std::int64_t step) {
    return test::read_text(folder_ / run / test::step_folder(step) / "model.safetensors");
  };
  EXPECT_TRUE(weights("new", 1) == weights("old", 5));
  run("cold", from("{checkpoint: 4}"));
  EXPECT_FALSE(weights("cold", 1) == weights("old", 5));
  run("latest", from("latest"));
  EXPECT_FALSE(weights("latest", 1) == weights("cold", 1));
}

TEST_F(Saves, TheBestCheckpointIsLoadedByName) {
  const Summary old =
      run("old", {{"trainer.eval_every", "1"}, {"trainer.save.every", "1"}, {"optimizer.learning_rate", "0.3"}});
  const auto state = test::read_json(std::filesystem::path(old.checkpoint) / "state/train.json");
  const std::int64_t best = state["best"]["step"];
  ASSERT_NE(best, 10);
  const auto first_weights = [&](const std::string& load) {
    const std::string name = "from-" + load;
    run(name, {{"model", fmt::format("{{path: {}, load: {}}}", (folder_ / "old").string(), load)},
               {"trainer.steps", "1"},
               {"optimizer.learning_rate", "1e-30"}});
    return test::read_tensors(folder_ / name / test::step_folder(1) / "model.safetensors");
  };
  const auto by_name = first_weights("best"), by_step = first_weights(std::to_string(best));
  for (const auto& [name, tensor] : by_step) EXPECT_TRUE(at::equal(by_name.at(name), tensor)) << name;
  EXPECT_FALSE(at::equal(by_name.at("lm_head.weight"), first_weights("latest").at("lm_head.weight")));
  EXPECT_HONE_ERROR(first_weights("77"), checkpoint, "step");
}

TEST_F(Saves, ChangesOfALoadedConfiguration) {
  const std::string old = run("old", {{"trainer.steps", "1"}}).checkpoint;
  const auto with = [&](const std::string& more) {
    return run("new", {{"model", fmt::format("{{path: {}{}}}", old, more)}, {"trainer.steps", "1"}}, [] {
      TrainOptions options = test::quiet_options();
      options.fresh = true;
      return options;
    }());
  };
  with(", rope_theta: 5000, attention_dropout: 0.1");
  const auto config = test::read_json(folder_ / "new" / test::step_folder(1) / "config.json");
  EXPECT_EQ(config["attention_dropout"], 0.1);
  EXPECT_EQ(config["rope_parameters"]["rope_theta"], 5000.0);
  EXPECT_HONE_ERROR(with(", hidden_size: 64"), checkpoint, "got shape");
  EXPECT_HONE_ERROR(with(", rope_thet: 1"), config, "rope_thet");
  EXPECT_HONE_ERROR(with(", use_cache: false"), config, "changes nothing");
  EXPECT_HONE_ERROR(with(", type: llama"), config, "whose config.json says it");
}

TEST_F(Saves, ChangesOfAFreshModelsConfigurationWithinARun) {
  run("a", {{"trainer.steps", "1"}});
  const auto on = [&](const std::string& option, const std::string& value, const std::string& steps) {
    TrainOptions options = test::quiet_options();
    options.override_keys = {"model"};
    return run("a", {{option, value}, {"trainer.steps", steps}}, options);
  };
  EXPECT_HONE_ERROR(on("model.hidden_size", "64", "2"), checkpoint, "got shape");
  EXPECT_HONE_ERROR(on("model.type", "qwen2", "2"), config, "model.type: is llama in this run");
  EXPECT_HONE_ERROR(on("model.use_cache", "false", "2"), config, "changes nothing");
  const auto theta = [&](std::int64_t step) {
    const auto config = test::read_json(folder_ / "a" / test::step_folder(step) / "config.json");
    return config["rope_parameters"]["rope_theta"].get<double>();
  };
  EXPECT_EQ(theta(1), 10000.0);
  on("model.rope_theta", "10", "2");
  EXPECT_EQ(theta(2), 10.0);
  EXPECT_HONE_ERROR(run("a", {{"trainer.steps", "3"}}), config, "model.rope_theta");
  TrainOptions all = test::quiet_options();
  all.override_keys = {"all"};
  EXPECT_HONE_ERROR(run("a", {{"trainer.precision", "fp64"}, {"trainer.steps", "3"}}, all), config,
                    "trainer.precision: fp32 -> fp64  (cannot change within a run)");
  on("model.rope_theta", "10", "3");
  EXPECT_EQ(theta(3), 10.0);
}

TEST_F(Saves, NotSoStrictly) {
  const std::string old = run("old", {{"trainer.steps", "1"}}).checkpoint;
  const auto with = [&](const std::string& more) {
    return run("new", {{"model", fmt::format("{{path: {}, {}}}", old, more)}, {"trainer.steps", "1"}}, [] {
      TrainOptions options = test::quiet_options();
      options.fresh = true;
      return options;
    }());
  };
  EXPECT_HONE_ERROR(with("num_hidden_layers: 3"), checkpoint, "missing");
  EXPECT_HONE_ERROR(with("num_hidden_layers: 1"), checkpoint, "not the model's");
  EXPECT_GT(with("num_hidden_layers: 3, load: {strict: false}").warnings, 0);
  with("num_hidden_layers: 1, load: {strict: false}");
  const auto tensors = test::read_tensors(folder_ / "new" / test::step_folder(1) / "model.safetensors");
  EXPECT_FALSE(tensors.contains("model.layers.1.mlp.up_proj.weight"));
}

}  // namespace
}  // namespace hone
