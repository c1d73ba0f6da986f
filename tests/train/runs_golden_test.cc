// Whole runs against Hugging Face's Trainer (tools/golden/golden_train.py tiny, stories).
#include <gtest/gtest.h>

#include "train/golden_run.h"

namespace hone {
namespace {

// Rows with labels of their own, three epochs in file order; padded, packed and one by one.
TEST(Runs, TwelveStepsEqualHfTrainer) {
  const test::TempFolder folder;
  for (const auto& [batch, accumulate] : {std::pair(2, 3), std::pair(6, 1), std::pair(1, 6)}) {
    SCOPED_TRACE(fmt::format("batch {} x {}", batch, accumulate));
    const std::string sizes = fmt::format("batch_size: {}, accumulate: {}, steps: 12", batch, accumulate);
    const Recipe recipe =
        test::golden_recipe("models/llama", sizes, (folder / fmt::format("run{}", batch)).string());
    train(recipe, test::quiet_options());
    test::expect_golden_history(recipe.run.folder, "train/tiny_12_steps.json", 2e-5);
  }
}

}  // namespace
}  // namespace hone
