// What a run's progress line says beside what its metrics.jsonl has.
#include <gmock/gmock.h>

#include "base/strings.h"
#include "train/support.h"

namespace hone {
namespace {

using testing::HasSubstr;

TEST(ProgressLine, EndsWithTheLastStepsNumbers) {
  const test::TempFolder folder;
  const auto recipe = test::small_recipe(folder, {{"run.folder", (folder / "run").string()},
                                                  {"trainer.steps", "5"},
                                                  {"trainer.log_every", "3"},
                                                  {"trainer.eval_every", "0"},
                                                  {"trackers", "[{type: terminal, plain_every_s: 0}]"}});
  log::set_level(log::Level::info);
  testing::internal::CaptureStderr();
  train(recipe, {});
  const std::string said = testing::internal::GetCapturedStderr();
  const auto norms = test::values(folder / "run", "grad_norm");
  ASSERT_EQ(norms.size(), 2u);
  const auto line = [&](const std::string& begin) {
    const std::size_t at = said.find(begin);
    return at == std::string::npos ? said : said.substr(at, said.find('\n', at) - at);
  };
  EXPECT_THAT(line("train 3/5"), HasSubstr("grad_norm " + four_digits(norms[0]) + "  ["));
  EXPECT_THAT(line("train 4/5"), HasSubstr("grad_norm " + four_digits(norms[0]) + " (step 3)"));
  EXPECT_THAT(line("train 5/5"), HasSubstr("grad_norm " + four_digits(norms[1]) + "  ["));
}

}  // namespace
}  // namespace hone
