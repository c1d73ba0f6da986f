// Whole runs on several ranks: what one process would have made, written once.
#include <gtest/gtest.h>

#include <mutex>

#include "train/together.h"

namespace hone {
namespace {

using test::Together;

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

// Those of a table that the head uses, too.
TEST_F(Together, RowsOfTokensAreSharedOut) {
  run(1, "tied", {{"model.tie_word_embeddings", "true"}});
  test::Overrides rows{{"model", in("tied").string()},
                       {"adapter", "{type: lora, rank: 4, trainable_token_indices: [101, 257]}"}};
  run(1, "one", rows);
  rows.emplace_back("parallel.fsdp", "-1");
  run(2, "two", rows);
  expect_close(in("one"), in("two"), 1e-11);
  const auto file = std::filesystem::path(test::step_folder(8)) / "adapter_model.safetensors";
  const auto one = test::read_tensors(in("one") / file), two = test::read_tensors(in("two") / file);
  EXPECT_TRUE(one.contains("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"));
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [name, value] : one) EXPECT_LT((value - two.at(name)).abs().max().item<double>(), 1e-10) << name;
}

// A reference that is not mapped from its file is shared out as well; evaluation has a batch too few for all ranks.
TEST_F(Together, AReferenceIsSharedOut) {
  const std::string base = test::golden("train/dpo").string();
  const test::Overrides pairs{
      {"data.train", base + "/pairs.jsonl"}, {"data.max_length", "256"}, {"model", base}, {"tokenizer", "bytes"},
      {"trainer.eval_batch_size", "3"},      {"trainer.eval_every", "3"}};
  test::Overrides start = pairs;
  start.emplace_back("objective", "dpo");
  run(1, "other", start);
  int number = 0;
  for (const std::string& reference : {std::string(), (in("other") / test::step_folder(8)).string()})
    for (const char* first : {"false", "true"}) {
      SCOPED_TRACE(fmt::format("precomputed: {}, reference: {}", first, reference));
      test::Overrides dpo = pairs;
      dpo.emplace_back("objective",
                       fmt::format("{{type: dpo, precompute_reference: {}, reference: '{}'}}", first, reference));
      const std::string one = fmt::format("one{}", ++number), four = fmt::format("four{}", number);
      run(1, one, dpo);
      dpo.emplace_back("parallel.fsdp", "-1");
      run(4, four, dpo);
      expect_close(in(one), in(four), 1e-11);
    }
}

// Passes that only tell how far the model is from its reference are made together, too; what is below an adapter is
// whole on each rank, and asked alone.
TEST_F(Together, JudgedAnswersAreLearntOnShares) {
  const std::string base = test::golden("train/dpo").string();
  for (const char* adapter : {"", "{type: lora, rank: 4}"}) {
    SCOPED_TRACE(adapter);
    test::Overrides judged{{"data.train", test::golden("train/kto/answers.jsonl").string()},
                           {"data.max_length", "256"},
                           {"model", base},
                           {"tokenizer", "bytes"},
                           {"objective", "{type: kto, beta: 0.5}"},
                           {"optimizer.learning_rate", "1e-2"},
                           {"trainer.eval_batch_size", "3"},
                           {"trainer.eval_every", "3"}};
    if (*adapter) judged.emplace_back("adapter", adapter);
    const std::string name = *adapter ? "lora" : "whole";
    run(1, name + "1", judged);
    judged.emplace_back("parallel.fsdp", "-1");
    run(4, name + "4", judged);
    expect_close(in(name + "1"), in(name + "4"), 1e-11);
  }
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
