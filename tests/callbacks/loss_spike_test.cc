// A run ends when its loss jumps up and stays there, or stays too high.
#include <gtest/gtest.h>

#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "train/callback_state.h"
#include "train/support.h"

namespace hone {
namespace {

class LossSpike : public ::testing::Test {
 protected:
  // The step after which the run ends, 0: it does not. A restart after `restart` steps.
  std::int64_t ends(const std::string& options, const std::vector<double>& losses, std::int64_t restart = -1) {
    const Recipe recipe = test::small_recipe(folder_, {{"callbacks", "[{type: loss_spike" + options + "}]"}});
    std::unique_ptr<Callback> callback = registries().callbacks.make(recipe.callbacks[0]);
    Problems problems;
    const config::Node config = config::parse_yaml(
        "{model_type: llama, hidden_size: 8, intermediate_size: 8, "
        "num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 8}",
        "test", problems);
    const std::unique_ptr<Model> model = build_model(config, "test");
    for (std::int64_t step = 1; step <= std::ssize(losses); ++step) {
      Metrics metrics{{"loss", losses[static_cast<std::size_t>(step - 1)]}};
      const std::string folder;
      const TrainView view{step, std::ssize(losses), 0, {}, *model, folder};
      if (callback->on_step_end(view, metrics) == Action::stop) return step;
      if (step != restart) continue;
      const training::CallbackState state = training::take_state(*callback, "0.loss_spike");
      callback = registries().callbacks.make(recipe.callbacks[0]);
      training::put_state(*callback, "0.loss_spike", state);
    }
    return 0;
  }
  test::TempFolder folder_;
};

TEST_F(LossSpike, EndsARunWhoseLossStaysHigh) {
  const std::vector<double> losses{3, 3, 3, 3, 3, 20, 20, 20, 20, 20};
  EXPECT_EQ(ends(", window: 4, cap: 0, patience: 2", losses), 0);  // the mean follows: two are too high
  EXPECT_EQ(ends(", window: 4, cap: 0, patience: 1", losses), 7);
  EXPECT_EQ(ends(", window: 4, cap: 0, patience: 0", losses), 6);
  EXPECT_EQ(ends(", window: 4, cap: 0, patience: 1", losses, 6), 7);  // over a restart
  EXPECT_EQ(ends(", window: 4, cap: 0, patience: 1, multiplier: 3", losses), 0);
  EXPECT_EQ(ends(", window: 4, cap: 0, patience: 1", {3, 3, 3, 3, 20, 3, 20, 3, 20, 3}), 0);
  EXPECT_EQ(ends(", window: 4, patience: 0", {1, 9, 1, 9}), 0);  // not before there is a window
  EXPECT_EQ(ends(", window: 4, patience: 0", {1, 1, 1, 1, NAN, 1, 1}), 0);
}

TEST_F(LossSpike, EndsARunWhoseLossNeverFalls) {
  const std::vector<double> losses(12, 11);
  EXPECT_EQ(ends(", window: 4", losses), 8);
  EXPECT_EQ(ends(", window: 4, cap: 12", losses), 0);
  EXPECT_EQ(ends(", window: 4, cap: 0", losses), 0);
}

}  // namespace
}  // namespace hone
