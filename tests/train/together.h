// Whole runs on several ranks, which are threads here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/log.h"
#include "dist/ranks.h"
#include "hone/trainer.h"
#include "train/support.h"

namespace hone::test {

// Each test trains small models into folders of its own.
class Together : public ::testing::Test {
 protected:
  Overrides with(const Overrides& more) {
    Overrides all{{"trainer.batch_size", "2"},
                  {"trainer.accumulate", "4"},
                  {"trainer.precision", "fp64"},
                  {"trainer.steps", "8"},
                  {"data.packing", "none"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::filesystem::path in(const std::string& name) { return folder_.path() / name; }

  // Prompts such as "3+4=", for an objective that answers by itself: with held-out prompts, in steps of two
  // micro-batches. answered: records say what is right.
  Overrides asking(const std::string& objective, const Overrides& more = {}, bool answered = false) {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += fmt::format("{{\"prompt\": \"{}+{}=\"{}}}\n", i % 10, i % 7,
                           answered ? fmt::format(", \"answer\": {}", i % 10 + i % 7) : "");
    Overrides all{{"data.train", folder_.write("asked.jsonl", lines).string()},
                  {"data.max_length", "12"},
                  {"objective", "{" + objective + "}"},
                  {"trainer.batch_size", "4"},
                  {"trainer.accumulate", "2"},
                  {"trainer.eval_every", "4"},
                  {"trainer.save.every", "3"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Into the folder `name`; what rank 0's train() gave.
  Summary run(int ranks, const std::string& name, const Overrides& more = {}, TrainOptions options = {}) {
    Overrides all = with(more);
    all.emplace_back("run.folder", in(name).string());
    const Recipe recipe = small_recipe(folder_, all);
    options.quiet = true, options.handle_signals = false;
    log::set_level(log::Level::warning);
    if (ranks == 1) return train(recipe, options);
    Summary made;
    std::vector<Summary> summaries(static_cast<std::size_t>(ranks));
    on_ranks(ranks, [&](const World& world) {
      TrainOptions own = options;
      own.world = world;
      if (world.rank() == broken_rank_) own.env = broken_env_;
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
    const auto one = metrics_of(a), other = metrics_of(b);
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
    const auto one = read_tensors(a / step_folder(step) / "model.safetensors"),
               other = read_tensors(b / step_folder(step) / "model.safetensors");
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [name, value] : one)
      EXPECT_LT((value - other.at(name)).abs().max().item<double>(), tolerance) << name;
  }
  // All ranks fail with an error of this kind; rank 0's text.
  std::string fails(int ranks, const Overrides& more, ErrorKind kind) {
    Overrides all = with(more);
    const Recipe recipe = small_recipe(folder_, all);
    std::mutex mutex;
    std::string first;
    int failed = 0;
    on_ranks(ranks, [&](const World& world) {
      TrainOptions own = quiet_options();
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
  TempFolder folder_;
  Env* broken_env_ = nullptr;  // of this rank
  int broken_rank_ = -1;
};

}  // namespace hone::test
