// A run that is stopped and started again is the run that was never stopped, bit for bit.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/signals.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

struct Case {
  std::string name;
  Overrides overrides;
  std::string callback = "";
};

class ResumedRun : public ::testing::TestWithParam<Case> {
 protected:
  ResumedRun() { test::register_test_callbacks(); }
  // The run in `name`, with a signal after `signal_step` (0: none) by a callback behind the case's own.
  Summary run(const std::string& name, std::int64_t signal_step, TrainOptions options = test::quiet_options()) {
    Overrides overrides = overrides_;
    overrides.emplace_back("run.folder", (folder_ / name).string());
    const std::string signal = signal_step > 0 ? fmt::format("{{type: raise_at, step: {}}}", signal_step) : "";
    overrides.emplace_back("callbacks", fmt::format("[{}{}]", callback_.empty() ? "" : callback_ + ", ", signal));
    return train(test::small_recipe(folder_, overrides), options);
  }
  test::TempFolder folder_;
  Overrides overrides_;
  std::string callback_;
};

TEST_P(ResumedRun, EqualsTheUninterruptedRun) {
  overrides_ = GetParam().overrides;
  callback_ = GetParam().callback;
  const Summary whole = run("whole", 0);
  EXPECT_EQ(whole.step, 10);
  EXPECT_EQ(whole.reason, StopReason::steps);
  const Summary first = run("parts", 3);
  EXPECT_TRUE(first.interrupted());
  EXPECT_EQ(first.step, 3);
  EXPECT_EQ(first.stopped_by, "SIGTERM");
  const Summary second = run("parts", 5);  // at an evaluation: it is made up for after the restart
  EXPECT_EQ(second.resumed_from, 3);
  EXPECT_EQ(second.step, 5);
  const Summary third = run("parts", 0);
  EXPECT_EQ(third.resumed_from, 5);
  EXPECT_EQ(third.step, 10);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ResumedRun,
    ::testing::Values(
        Case{"adamw_fp32", {}}, Case{"adamw_bf16", {{"trainer.precision", "bf16"}}},
        Case{"adamw_fp64", {{"trainer.precision", "fp64"}}},
        Case{"accumulate_4", {{"trainer.accumulate", "4"}, {"trainer.batch_size", "2"}}},
        Case{"bf16_accumulate_4", {{"trainer.accumulate", "4"}, {"trainer.precision", "bf16"}}},
        Case{"sgd_momentum", {{"optimizer", "{type: sgd, learning_rate: 0.1, momentum: 0.9}"}}},
        Case{"sgd_bf16",
             {{"optimizer", "{type: sgd, learning_rate: 0.1, momentum: 0.9}"}, {"trainer.precision", "bf16"}}},
        Case{"bf16_saved_in_fp32", {{"trainer.precision", "bf16"}, {"trainer.save.dtype", "fp32"}}},
        Case{"fp32_saved_in_bf16", {{"trainer.save.dtype", "bf16"}}},
        Case{"fp64_saved_in_fp32", {{"trainer.precision", "fp64"}, {"trainer.save.dtype", "fp32"}}},
        Case{"concat", {{"data.packing", "concat"}}}, Case{"unpacked", {{"data.packing", "none"}}},
        Case{"in_file_order", {{"data.shuffle", "false"}}}, Case{"log_every_4", {{"trainer.log_every", "4"}}},
        Case{"checkpointed_blocks", {{"trainer.checkpoint_blocks", "true"}}},
        Case{"experts_bf16",
             {{"model", test::routed_model(", output_router_logits: true")},
              {"trainer.precision", "bf16"},
              {"trainer.accumulate", "2"}}},
        Case{"callback_with_tensors", {{"trainer.precision", "bf16"}}, "{type: weight_mean}"},
        Case{"callback_with_early_tensors", {}, "{type: weight_mean, early: true}"},
        Case{"dropout", {{"model.attention_dropout", "0.2"}, {"trainer.accumulate", "2"}}}),
    [](const auto& info) { return info.param.name; });

// All optimizers, in fp32 and bf16; with an average of the weights, with accumulation, packed or not, by turns.
std::vector<Case> optimizer_cases() {
  std::vector<Case> cases;
  for (const std::string& type : registries().optimizers.names()) {
    const std::string options = type == "groups"    ? "groups: [{name: a, match: mlp, optimizer: lion}, {name: b}]"
                                : type == "sophia"  ? "update_period: 2"
                                : type == "prodigy" ? "d0: 1e-3"
                                                    : "learning_rate: 1e-2";
    for (const std::string precision : {"fp32", "bf16"}) {
      Overrides overrides{{"optimizer", fmt::format("{{type: {}, {}}}", type, options)},
                          {"trainer.precision", precision}};
      const std::size_t turn = cases.size();
      if (turn % 2 == 1) overrides.emplace_back("trainer.accumulate", "2");
      if (turn % 3 == 1) overrides.emplace_back("data.packing", "none");
      if (turn % 4 == 1 && type != "adamw_schedule_free") overrides.emplace_back("trainer.ema", "0.9");
      if (turn % 5 == 1) overrides.emplace_back("trainer.skip_spikes", "{sigma: 0.5, window: 3}");
      cases.push_back({type + "_" + precision, overrides});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ResumedRun, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& info) { return info.param.name; });

class Again : public ::testing::Test {
 protected:
  Again() { test::register_test_callbacks(); }
  Recipe recipe(const Overrides& overrides = {}) { return test::small_recipe(folder_, overrides); }
  std::filesystem::path run_folder() const { return folder_ / "run"; }
  test::TempFolder folder_;
  TrainOptions options_ = test::quiet_options();
};

TEST_F(Again, AFinishedRunDoesNothing) {
  const Summary first = train(recipe(), options_);
  const std::string metrics = test::read_text(run_folder() / "metrics.jsonl");
  const Summary second = train(recipe(), options_);
  EXPECT_EQ(second.reason, StopReason::already_finished);
  EXPECT_EQ(second.step, 10);
  EXPECT_EQ(second.metrics.at("loss"), first.metrics.at("loss"));
  EXPECT_EQ(test::read_text(run_folder() / "metrics.jsonl"), metrics);
}

TEST_F(Again, ResumingAFinishedRunWarnsThatNothingIsLeft) {
  const Overrides no_eval{{"data.eval", "{}"}, {"trainer.eval_every", "0"}};
  const Summary first = train(recipe(no_eval), options_);
  options_.resume = "latest";
  const Summary again = train(recipe(no_eval), options_);
  EXPECT_EQ(again.step, 10);
  EXPECT_EQ(again.warnings, first.warnings + 1);
}

TEST_F(Again, MoreStepsGoOn) {
  train(recipe(), options_);
  const Summary more = train(recipe({{"trainer.steps", "12"}}), options_);
  EXPECT_EQ(more.resumed_from, 10);
  EXPECT_EQ(more.step, 12);
  const nlohmann::json state = test::read_json(run_folder() / test::step_folder(12) / "state/train.json");
  EXPECT_EQ(state["changes"][0]["option"], "trainer.steps");
  EXPECT_EQ(state["changes"][0]["after"], "12");
}

TEST_F(Again, AnotherNumberOfThreadsIsSaid) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  const std::int64_t warnings = train(recipe({{"trainer.steps", "4"}}), options_).warnings;
  EXPECT_EQ(train(recipe({{"trainer.steps", "5"}}), options_).warnings, warnings + 1);  // of the changed steps
  at::set_num_threads(1);
  EXPECT_EQ(train(recipe({{"trainer.steps", "6"}}), options_).warnings, warnings + 2);
  at::set_num_threads(before);
  EXPECT_EQ(test::read_json(run_folder() / test::step_folder(6) / "state/train.json")["threads"], 1);
}

TEST_F(Again, AChangedRecipeIsRefusedWithTheDiff) {
  train(recipe(), options_);
  EXPECT_HONE_ERROR(train(recipe({{"data.max_length", "32"}}), options_), config,
                    "data.max_length: 64 -> 32  (refused)");
  EXPECT_HONE_ERROR(train(recipe({{"run.seed", "4"}}), options_), config, "run.seed: 3 -> 4");
}

TEST_F(Again, OverrideAllowsTheNamedChange) {
  train(recipe({{"trainer.steps", "4"}}), options_);
  options_.override_keys = {"trainer.accumulate"};
  EXPECT_HONE_ERROR(train(recipe({{"trainer.accumulate", "2"}, {"trainer.batch_size", "2"}}), options_), config,
                    "trainer.batch_size");
  const Summary more = train(recipe({{"trainer.accumulate", "2"}}), options_);
  EXPECT_EQ(more.resumed_from, 4);
}

// As a new run from the checkpoint's weights would go on, but for its schedule and data.
TEST_F(Again, AnotherOptimizerBeginsAfreshFromTheSameWeights) {
  for (const char* type : {"lion", "sgd", "adamw_8bit", "adamw_schedule_free", "adam"}) {
    SCOPED_TRACE(type);
    std::filesystem::remove_all(folder_ / "run");
    train(recipe({{"trainer.steps", "4"}}), options_);
    const test::Overrides other{{"optimizer", type}, {"trainer.steps", "6"}};
    options_.override_keys = {};
    EXPECT_HONE_ERROR(train(recipe(other), options_), config, "(refused)");
    options_.override_keys = {"optimizer"};
    const Summary more = train(recipe(other), options_);
    EXPECT_EQ(more.resumed_from, 4);
    EXPECT_EQ(more.step, 6);
    const bool same_state = type == std::string("adam");
    EXPECT_EQ(test::read_json(folder_ / "run" / test::step_folder(6) / "state/train.json")["updates"],
              same_state ? 6 : 2);
    options_.override_keys = {};
  }
}

// Options that give the same optimizer other state: what it lacks begins afresh, and the rest goes on.
TEST_F(Again, AnOptionThatNeedsOtherStateMayChange) {
  struct Case {
    const char *before, *after;
    std::vector<std::string> override_keys, young;  // the latter: parts of the names of weights whose state is all new
  };
  const std::vector<Case> cases{
      {"{type: sgd}", "{type: sgd, momentum: 0.9}", {}, {""}},
      {"{type: sgd, momentum: 0.9}", "{type: sgd}", {}, {}},
      {"{type: rmsprop}", "{type: rmsprop, centered: true, momentum: 0.5}", {}, {}},
      {"{type: adafactor, beta1: 0.9}", "{type: adafactor}", {}, {}},
      {"{type: muon}", "{type: muon, adamw_for: down_proj}", {"optimizer.adamw_for"}, {"down_proj", "lm_head"}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.after);
    std::filesystem::remove_all(folder_ / "run");
    train(recipe({{"trainer.steps", "4"}, {"optimizer", one.before}}), options_);
    options_.override_keys = one.override_keys;
    const Summary more = train(recipe({{"trainer.steps", "6"}, {"optimizer", one.after}}), options_);
    options_.override_keys = {};
    EXPECT_EQ(more.resumed_from, 4);
    const nlohmann::json state = test::read_json(folder_ / "run" / test::step_folder(6) / "state/train.json");
    EXPECT_EQ(state["updates"], 6);
    EXPECT_EQ(state.contains("own_updates"), !one.young.empty());
    const nlohmann::json own = state.value("own_updates", nlohmann::json::object());
    for (const auto& [weight, updates] : own.items()) {
      EXPECT_EQ(updates, 2) << weight;
      EXPECT_TRUE(std::any_of(one.young.begin(), one.young.end(), [&weight = weight](const std::string& part) {
        return weight.find(part) != std::string::npos;
      })) << weight;
    }
  }
}

TEST_F(Again, FreeOptionsMayChange) {
  train(recipe({{"trainer.steps", "4"}}), options_);
  const Summary more = train(recipe({{"trainer.save.every", "1"}, {"trainer.log_every", "2"}}), options_);
  EXPECT_EQ(more.step, 10);
}

TEST_F(Again, ChangedDataIsRefusedByName) {
  train(recipe({{"trainer.steps", "4"}}), options_);
  folder_.write("train.jsonl", test::story_lines(61));
  EXPECT_HONE_ERROR(train(recipe(), options_), data, "train.jsonl");
  options_.override_keys = {"data"};
  EXPECT_EQ(train(recipe(), options_).step, 10);
}

TEST_F(Again, AChangedTokenizerIsNamed) {
  const auto bytes = load_tokenizer("bytes");
  for (const auto& [name, content] : bytes->files) folder_.write("tok/" + name, content);
  const Overrides own{{"tokenizer", (folder_ / "tok").string()}};
  train(recipe({own[0], {"trainer.steps", "4"}}), options_);
  std::string changed = test::read_text(folder_ / "tok/tokenizer_config.json");
  changed.replace(changed.find("<|eos|>"), 7, "<|pad|>");
  folder_.write("tok/tokenizer_config.json", changed);
  EXPECT_HONE_ERROR(train(recipe(own), options_), data, "the tokenizer is not the one the run was trained with");
  options_.override_keys = {"data", "tokenizer"};
  EXPECT_EQ(train(recipe(own), options_).step, 10);
}

TEST_F(Again, NewMovesTheOldFolderAside) {
  train(recipe({{"trainer.steps", "4"}}), options_);
  options_.fresh = true;
  const Summary fresh = train(recipe({{"data.max_length", "32"}}), options_);
  EXPECT_FALSE(fresh.resumed_from);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.old-0") || std::filesystem::exists(folder_ / "run.old-1"));
}

TEST_F(Again, NewKeepsTheOldFolderWhenTheDataIsBad) {
  train(recipe({{"trainer.steps", "4"}}), options_);
  options_.fresh = true;
  EXPECT_HONE_ERROR(train(recipe({{"data.train", "no/such.jsonl"}}), options_), data, "no/such.jsonl");
  EXPECT_TRUE(std::filesystem::exists(run_folder() / test::step_folder(4) / "MANIFEST.json"));
}

TEST_F(Again, ResumeOfAMissingStepIsAnError) {
  options_.resume = "7";
  EXPECT_HONE_ERROR(train(recipe(), options_), checkpoint, "no run to resume");
  options_.resume.reset();
  train(recipe(), options_);
  options_.resume = "7";
  EXPECT_HONE_ERROR(train(recipe(), options_), checkpoint, "7");
  options_.resume = "seven";
  EXPECT_HONE_ERROR(train(recipe(), options_), usage, "seven");
}

TEST_F(Again, ResumeOfAnEarlierStepSetsTheOldFutureAside) {
  train(recipe(), options_);
  const std::string model = test::read_text(run_folder() / test::step_folder(10) / "model.safetensors");
  const auto metrics = test::fixed_metrics_of(run_folder());
  options_.resume = "4";
  const Summary again = train(recipe(), options_);
  EXPECT_EQ(again.resumed_from, 4);
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "superseded-0/step-00000010"));
  EXPECT_TRUE(test::read_text(run_folder() / test::step_folder(10) / "model.safetensors") == model);
  EXPECT_EQ(test::fixed_metrics_of(run_folder()), metrics);
}

TEST_F(Again, WhatTheOldFutureSaidOfItselfIsSetAsideToo) {
  const Overrides more{{"callbacks", "[{type: samples, every: 4, prompts: [The]}, {type: histograms, every: 4}]"},
                       {"trackers", "[csv]"}};
  train(recipe(more), options_);
  folder_.write("run/test.jsonl", "{\"step\": 4, \"test_loss\": 1}\n{\"step\": 10, \"test_loss\": 2}\n");
  std::map<std::string, std::string> before;
  for (const char* name : {"metrics.jsonl", "samples.jsonl", "histograms.jsonl", "metrics.csv", "test.jsonl"})
    before[name] = test::read_text(run_folder() / name);
  options_.resume = "4";
  Overrides other = more;
  other.emplace_back("optimizer.learning_rate", "1e-3");
  train(recipe(other), options_);
  for (const auto& [name, text] : before)
    EXPECT_EQ(test::read_text(run_folder() / "superseded-0" / name), text) << name;
  EXPECT_EQ(test::read_text(run_folder() / "test.jsonl"), "{\"step\": 4, \"test_loss\": 1}\n");
}

// Neither its optimizer's state nor anything else of it gives way, whatever the recipe says of saves now.
TEST_F(Again, ARunWithNothingToDoLeavesItsCheckpointAndItsLogAsTheyAre) {
  const Overrides constant{{"trainer.log_every", "4"}, {"optimizer.schedule", "constant"}};
  train(recipe(constant), options_);
  const auto files = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run_folder() / test::step_folder(10)))
      if (entry.is_regular_file()) all[entry.path().string()] = test::read_text(entry.path());
    all["metrics"] = test::read_text(run_folder() / "metrics.jsonl");
    return all;
  };
  const auto before = files();
  const std::vector<Overrides> targets{
      {{"trainer.steps", "10"}}, {{"trainer.steps", "7"}}, {{"trainer.steps", "null"}, {"trainer.epochs", "0.1"}}};
  for (const Overrides& target : targets) {
    Overrides all = constant;
    all.insert(all.end(), target.begin(), target.end());
    all.emplace_back("trainer.save.optimizer", "false");
    options_.resume = "latest";
    options_.override_keys = {"all"};
    EXPECT_EQ(train(recipe(all), options_).reason, StopReason::already_finished);
    EXPECT_EQ(files(), before);
  }
}

TEST_F(Again, AResumeThatIsRefusedMovesNothing) {
  train(recipe(), options_);
  options_.resume = "4";
  EXPECT_HONE_ERROR(train(recipe({{"data.max_length", "32"}}), options_), config, "refused");
  folder_.write("train.jsonl", test::story_lines(61));
  EXPECT_HONE_ERROR(train(recipe(), options_), data, "train.jsonl");
  EXPECT_TRUE(std::filesystem::exists(run_folder() / test::step_folder(10) / "MANIFEST.json"));
  EXPECT_FALSE(std::filesystem::exists(run_folder() / "superseded-0"));
}

TEST_F(Again, AfterAResumeNoMoreThanKeepStayBesidesTheOneResumedFrom) {
  const auto names_after = [&](const char* steps, std::optional<std::int64_t> from) {
    EXPECT_EQ(train(recipe({{"trainer.save.every", "1"},
                            {"trainer.save.keep", "2"},
                            {"data.eval.held_out", "0"},
                            {"trainer.steps", steps}}),
                    options_)
                  .resumed_from,
              from);
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(run_folder() / "checkpoints"))
      names.insert(entry.path().filename().string());
    return names;
  };
  names_after("4", std::nullopt);
  EXPECT_EQ(names_after("8", 4), (std::set<std::string>{"step-00000004", "step-00000007", "step-00000008"}));
  EXPECT_EQ(names_after("10", 8), (std::set<std::string>{"step-00000008", "step-00000009", "step-00000010"}));
  EXPECT_EQ(names_after("11", 10), (std::set<std::string>{"step-00000010", "step-00000011"}));
}

TEST_F(Again, CheckpointsThatVanishedAreNoFreshStart) {
  train(recipe({{"trainer.steps", "4"}}), options_);
  for (const char* gone : {"checkpoints/step-00000004", "checkpoints", "latest"}) {
    std::filesystem::remove_all(run_folder() / gone);
    EXPECT_HONE_ERROR(train(recipe(), options_), checkpoint,
                      "checkpoints of this run have been saved, but there is none");
  }
  options_.fresh = true;
  EXPECT_EQ(train(recipe(), options_).step, 10);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.old-1/config.yaml"));
}

TEST_F(Again, ARunWhoseOwnFilesAreGoneResumesFromItsCheckpoint) {
  train(recipe(), options_);
  const std::string model = test::read_text(run_folder() / test::step_folder(10) / "model.safetensors");
  for (const char* gone : {"run.json", "config.yaml", "metrics.jsonl", "latest", "checkpoints/step-00000010"})
    std::filesystem::remove_all(run_folder() / gone);
  std::string said;
  log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
  options_.resume = "latest";
  EXPECT_EQ(train(recipe(), options_).resumed_from, 8);
  log::set_sink({});
  EXPECT_NE(said.find("metrics.jsonl: 0 of 9 lines up to step 8 there"), std::string::npos) << said;
  EXPECT_TRUE(test::read_text(run_folder() / test::step_folder(10) / "model.safetensors") == model);
}

TEST_F(Again, ADamagedNewestCheckpointFallsBack) {
  train(recipe(), options_);
  const auto metrics = test::fixed_metrics_of(run_folder());
  const std::filesystem::path model = run_folder() / test::step_folder(10) / "model.safetensors";
  const std::string good = test::read_text(model);
  std::string bytes = good;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(model, std::ios::binary) << bytes;
  options_.strict_resume = true;
  EXPECT_HONE_ERROR(train(recipe(), options_), checkpoint, "model.safetensors");
  options_.strict_resume = false;
  const Summary again = train(recipe(), options_);
  EXPECT_EQ(again.resumed_from, 8);
  EXPECT_TRUE(test::read_text(model) == good);
  EXPECT_EQ(test::fixed_metrics_of(run_folder()), metrics);
}

TEST_F(Again, OnlyDamagedCheckpointsAreNoFreshStart) {
  train(recipe({{"trainer.save.every", "0"}}), options_);
  std::ofstream(run_folder() / test::step_folder(10) / "model.safetensors", std::ios::binary) << "x";
  EXPECT_HONE_ERROR(train(recipe({{"trainer.save.every", "0"}}), options_), checkpoint, "step-00000010");
}

TEST_F(Again, TheRunsOwnConfigIsARecipe) {
  const Summary first = train(recipe({{"trainer.precision", "auto"}}), options_);
  const Recipe own = read_recipe((run_folder() / "config.yaml").string());
  EXPECT_NE(own.trainer.precision, Precision::automatic);
  EXPECT_EQ(train(own, options_).reason, StopReason::already_finished);
  EXPECT_EQ(first.folder, run_folder().string());
}

TEST_F(Again, ARunByNameIsNumbered) {
  const std::filesystem::path old = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const Overrides named{{"run", "{name: tiny}"}, {"trainer.steps", "2"}};
  const Summary first = train(recipe(named), options_), second = train(recipe(named), options_);
  options_.resume = "latest";
  const Summary third = train(recipe({{"run", "{name: tiny}"}, {"trainer.steps", "3"}}), options_);
  std::filesystem::current_path(old);
  EXPECT_NE(first.folder, second.folder);
  EXPECT_EQ(third.folder, second.folder);
  EXPECT_EQ(third.resumed_from, 2);
}

}  // namespace
}  // namespace hone
