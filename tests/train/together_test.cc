// Whole runs on several ranks: what one process would have made, written once.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>

#include "dist/ranks.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

class Together : public ::testing::Test {
 protected:
  test::Overrides with(const test::Overrides& more) {
    test::Overrides all{{"trainer.batch_size", "2"},
                        {"trainer.accumulate", "4"},
                        {"trainer.precision", "fp64"},
                        {"trainer.steps", "8"},
                        {"data.packing", "none"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::filesystem::path in(const std::string& name) { return folder_.path() / name; }

  // Into the folder `name`; what rank 0's train() gave.
  Summary run(int ranks, const std::string& name, const test::Overrides& more = {}, TrainOptions options = {}) {
    test::Overrides all = with(more);
    all.emplace_back("run.folder", in(name).string());
    const Recipe recipe = test::small_recipe(folder_, all);
    options.quiet = true, options.handle_signals = false;
    log::set_level(log::Level::warning);
    if (ranks == 1) return train(recipe, options);
    Summary made;
    std::vector<Summary> summaries(static_cast<std::size_t>(ranks));
    test::on_ranks(ranks, [&](const World& world) {
      TrainOptions own = options;
      own.world = world;
      summaries[static_cast<std::size_t>(world.rank())] = train(recipe, own);
    });
    for (const Summary& one : summaries) {
      EXPECT_EQ(one.step, summaries[0].step);
      EXPECT_EQ(one.reason, summaries[0].reason);
      EXPECT_EQ(one.tokens, summaries[0].tokens);
    }
    return summaries[0];
  }

  // Numbers of the log, as far as they are the same in equal runs.
  static void expect_close(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance) {
    const auto one = test::metrics_of(a), other = test::metrics_of(b);
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      for (const auto& [name, value] : one[i].items()) {
        const auto& varying = nondeterministic_metrics();
        if (std::find(varying.begin(), varying.end(), name) != varying.end()) continue;
        ASSERT_TRUE(other[i].contains(name)) << name;
        const double number = value.get<double>();
        EXPECT_NEAR(number, other[i][name].get<double>(), tolerance * std::max(1.0, std::abs(number)))
            << name << " of line " << i + 1;
      }
  }
  static void expect_close_weights(const std::filesystem::path& a, const std::filesystem::path& b, std::int64_t step,
                                   double tolerance) {
    const auto one = test::read_tensors(a / test::step_folder(step) / "model.safetensors"),
               other = test::read_tensors(b / test::step_folder(step) / "model.safetensors");
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [name, value] : one)
      EXPECT_LT((value - other.at(name)).abs().max().item<double>(), tolerance) << name;
  }
  // All ranks fail with an error of this kind; rank 0's text.
  std::string fails(int ranks, const test::Overrides& more, ErrorKind kind) {
    test::Overrides all = with(more);
    const Recipe recipe = test::small_recipe(folder_, all);
    std::mutex mutex;
    std::string first;
    int failed = 0;
    test::on_ranks(ranks, [&](const World& world) {
      TrainOptions own = test::quiet_options();
      own.handle_signals = false, own.world = world;
      try {
        train(recipe, own);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        EXPECT_EQ(error.kind(), kind) << error.what();
        if (world.is_first()) first = error.what();
        ++failed;
      }
    });
    EXPECT_EQ(failed, ranks);
    return first;
  }
  test::TempFolder folder_;
};

TEST_F(Together, ARunIsWhatOneProcessMakes) {
  run(1, "one");
  run(2, "two");
  run(4, "four");
  for (const char* name : {"two", "four"}) {
    SCOPED_TRACE(name);
    expect_close(in("one"), in(name), 1e-11);
    expect_close_weights(in("one"), in(name), 8, 1e-10);
    EXPECT_EQ(test::read_json(in("one") / test::step_folder(8) / "trainer_state.json")["log_history"].size(),
              test::read_json(in(name) / test::step_folder(8) / "trainer_state.json")["log_history"].size());
  }
}

TEST_F(Together, SharesOfAModelAreSavedAsOneProcessWould) {
  const test::Overrides shares{{"parallel.fsdp", "-1"}};
  run(1, "one");
  run(2, "two", shares);
  run(4, "four", shares);
  for (const char* name : {"two", "four"}) {
    SCOPED_TRACE(name);
    expect_close(in("one"), in(name), 1e-11);
    expect_close_weights(in("one"), in(name), 8, 1e-10);
    const std::filesystem::path file =
        std::filesystem::path(test::step_folder(8)) / "state" / "optimizer-00000-of-00001.safetensors";
    const auto one = test::read_tensors(in("one") / file), other = test::read_tensors(in(name) / file);
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [tensor, value] : one)
      EXPECT_LT((value - other.at(tensor)).abs().max().item<double>(), 1e-10) << tensor;
  }
}

TEST_F(Together, TheSameRanksGiveTheSameBits) {
  run(2, "a", {{"trainer.precision", "bf16"}});
  run(2, "b", {{"trainer.precision", "bf16"}});
  test::expect_equal_runs(in("a"), in("b"), 8);
}

TEST_F(Together, GoesOnWithAnyNumberOfRanks) {
  run(1, "straight", {{"trainer.steps", "8"}});
  run(4, "broken", {{"trainer.steps", "8"}, {"trainer.save.every", "3"}});
  const auto from_step_3 = [&](int ranks) {
    TrainOptions options;
    options.resume = "3";
    const Summary summary = run(ranks, "broken", {{"trainer.save.every", "3"}}, options);
    EXPECT_EQ(summary.resumed_from, 3);
    expect_close_weights(in("straight"), in("broken"), 8, 1e-10);
    expect_close(in("straight"), in("broken"), 1e-11);
  };
  for (const int ranks : {1, 2, 4}) {
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
  const test::Overrides bf16{{"trainer.precision", "bf16"}, {"trainer.save.every", "3"}};
  test::Overrides shares = bf16;
  shares.emplace_back("parallel.fsdp", "-1");
  TrainOptions options;
  options.resume = "3";
  run(2, "straight", shares);
  run(2, "broken", shares);
  run(2, "broken", shares, options);
  test::expect_equal_runs(in("straight"), in("broken"), 8);
  run(4, "many", shares);
  for (const auto& [ranks, how] : {std::pair{1, &bf16}, {2, &bf16}, {2, &shares}, {4, &shares}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    EXPECT_EQ(run(ranks, "many", *how, options).resumed_from, 3);
    expect_close_weights(in("straight"), in("many"), 8, 0.05);
  }
}

TEST_F(Together, AnAdapterIsSharedOut) {
  const std::string base = test::golden("train/dpo").string();
  test::Overrides lora{{"data.train", base + "/pairs.jsonl"},
                       {"data.max_length", "256"},
                       {"model", base},
                       {"tokenizer", "bytes"},
                       {"objective", "dpo"},
                       {"adapter", "{type: lora, rank: 4, dora: true, modules_to_save: [lm_head]}"}};
  run(1, "one", lora);
  lora.emplace_back("parallel.fsdp", "-1");
  run(2, "two", lora);
  expect_close(in("one"), in("two"), 1e-11);
  const auto file = std::filesystem::path(test::step_folder(8)) / "adapter_model.safetensors";
  const auto one = test::read_tensors(in("one") / file), two = test::read_tensors(in("two") / file);
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [name, value] : one) EXPECT_LT((value - two.at(name)).abs().max().item<double>(), 1e-10) << name;
}

TEST_F(Together, AShareOfSomeRanksIsRefused) {
  EXPECT_NE(
      fails(2, {{"parallel.fsdp", "3"}}, ErrorKind::config).find("parallel.fsdp: got 3, expected 1, or all ranks: 2"),
      std::string::npos);
}

TEST_F(Together, WhatRanksCannotShareIsRefused) {
  const std::string text = fails(2, {{"trainer.accumulate", "3"}}, ErrorKind::config);
  EXPECT_NE(text.find("trainer.accumulate: a step's 3 micro-batches cannot be shared evenly among 2 ranks; numbers "
                      "of ranks that fit: 1, 3"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("trainer.batch_size=1 and trainer.accumulate=6 train on the same 6 rows a step"),
            std::string::npos)
      << text;
  EXPECT_FALSE(std::filesystem::exists(in("run")));
}

TEST_F(Together, RanksWithOtherRecipesAreRefused) {
  std::mutex mutex;
  std::vector<std::string> texts(2);
  test::on_ranks(2, [&](const World& world) {
    const Recipe recipe = test::small_recipe(folder_, with({{"run.seed", world.is_first() ? "3" : "4"}}));
    TrainOptions own = test::quiet_options();
    own.handle_signals = false, own.world = world;
    try {
      train(recipe, own);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      texts[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_NE(texts[0].find("the ranks are not alike; another one says how"), std::string::npos) << texts[0];
  EXPECT_NE(texts[1].find("not the recipe of rank 0: run.seed: 4 here, 3 there"), std::string::npos) << texts[1];
}

TEST_F(Together, WhatIsNotFiniteStopsAllOfThemAndNamesRecordsOfAll) {
  const std::string text =
      fails(2, {{"optimizer.learning_rate", "1e300"}, {"trainer.precision", "fp32"}}, ErrorKind::not_finite);
  EXPECT_NE(text.find("there is no checkpoint yet"), std::string::npos) << text;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(in("run")))
    if (entry.path().filename().string().starts_with("nonfinite-step-")) {
      ++files;
      EXPECT_GT(test::read_json(entry.path())["records"].size(), 4U);  // a rank has four rows
    }
  EXPECT_EQ(files, 1U);
}

TEST_F(Together, ACallbackOfRankZeroStopsAll) {
  const Summary summary = run(
      2, "run", {{"callbacks", "[{type: early_stopping, patience: 1, min_drop: 100}]"}, {"trainer.eval_every", "2"}});
  EXPECT_EQ(summary.reason, StopReason::callback);
  EXPECT_LT(summary.step, 8);
}

// Tokenised once: whoever is not rank 0 finds it in the cache. Numbers of documents by all ranks, each its share.
TEST_F(Together, NumbersOfDocumentsAreSharedOut) {
  const std::string base = test::golden("train/dpo").string();
  const test::Overrides pairs{{"data.train", base + "/pairs.jsonl"},
                              {"data.max_length", "256"},
                              {"model", base},
                              {"tokenizer", "bytes"},
                              {"objective", "{type: dpo, precompute_reference: true}"}};
  run(1, "one", pairs);
  run(2, "two", pairs);
  expect_close(in("one"), in("two"), 1e-11);
}

TEST_F(Together, AStreamIsReadByAll) {
  const test::Overrides stream{
      {"data.train", fmt::format("[{{path: {}/train.jsonl, stream: true}}]", folder_.path().string())},
      {"data.eval.held_out", "0"},
      {"trainer.steps", "40"}};
  folder_.write("train.jsonl", test::story_lines(60));
  const Summary one = run(1, "one", stream), two = run(2, "two", stream);
  EXPECT_EQ(one.step, two.step);
  EXPECT_EQ(one.reason, StopReason::steps);
  expect_close(in("one"), in("two"), 1e-11);
}

}  // namespace
}  // namespace hone
