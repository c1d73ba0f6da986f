// When callbacks are called, what they may change, and what becomes of the numbers that they give.
#include <gtest/gtest.h>

#include <csignal>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "train/support.h"

namespace hone {
namespace {

std::vector<std::string> calls;  // by all of them, in order

// Writes down every call, as "step_end 3".
class Scribe final : public Callback {
 public:
  struct Config {
    std::int64_t every_n_steps = 1, every_n_epochs = 1;
    double scale = 1;
    std::string intermediates;
    std::int64_t signal_at = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("every_n_steps", &C::every_n_steps, "Steps."),
                        field("every_n_epochs", &C::every_n_epochs, "Epochs."),
                        field("scale", &C::scale, "Of the final norm, after each update."),
                        field("intermediates", &C::intermediates, "Regular expression."),
                        field("signal_at", &C::signal_at, "Raise SIGTERM there.")};
    }
  };
  explicit Scribe(const Config& config) : config_(config) {}
  CallbackTimes times() const override { return {config_.every_n_steps, config_.every_n_epochs, true}; }
  std::string intermediates() const override { return config_.intermediates; }

  void on_training_start(const TrainView& view) override { note("training_start", view.step); }
  void on_training_end(const TrainView& view) override { note("training_end", view.step); }
  void on_epoch_start(const TrainView&, std::int64_t epoch) override { note("epoch_start", epoch); }
  Action on_epoch_end(const TrainView&, std::int64_t epoch) override {
    note("epoch_end", epoch);
    return Action::go_on;
  }
  void on_step_start(const TrainView& view) override { note("step_start", view.step); }
  void on_gradients(const TrainView& view, Metrics& metrics) override {
    note("gradients", view.step);
    double squares = 0;
    view.weights->each_gradient([&](const std::string&, const at::Tensor& gradient) {
      squares += gradient.to(at::kDouble).square().sum().item<double>();
    });
    metrics["own_norm"] = std::sqrt(squares);
  }
  void after_update(const TrainView& view, WeightEdit& edit) override {
    note("updated", view.step);
    if (config_.scale == 1) return;
    edit.each([&](const std::string& name, at::Tensor& weight) {
      if (name == "model.norm.weight") weight.mul_(config_.scale);
    });
  }
  Action on_step_end(const TrainView& view, Metrics& metrics) override {
    note("step_end", view.step);
    metrics["learning_rate"] = static_cast<double>(view.step);
    metrics["difference"] = metrics.at("own_norm") - metrics.at("grad_norm");
    if (view.step == config_.signal_at) std::raise(SIGTERM);
    return Action::go_on;
  }
  void on_log(const TrainView& view, Metrics& line) override {
    note("log", view.step);
    line["lines"] = lines_ += 1;
  }
  void on_evaluation_start(const TrainView& view) override { note("evaluation_start", view.step); }
  Action on_evaluation_end(const TrainView& view, Metrics& metrics) override {
    note("evaluation_end", view.step);
    metrics["eval_half"] = metrics.at("eval_loss") / 2;
    EXPECT_EQ(view.eval_data.size(), 1u);
    EXPECT_NE(view.train_data, nullptr);
    EXPECT_NE(view.tokenizer, nullptr);
    return Action::go_on;
  }
  void on_save(const TrainView& view, const std::string&) override { note("save", view.step); }
  void on_signal(const TrainView&, const std::string& name) override { calls.push_back("signal " + name); }

 private:
  static void note(const std::string& what, std::int64_t number) {
    calls.push_back(fmt::format("{} {}", what, number));
  }
  Config config_;
  double lines_ = 0;
};

class Hooks : public ::testing::Test {
 protected:
  Hooks() {
    static const bool done = [] {
      registries().callbacks.add<Scribe>("scribe", "Write down every call.");
      return true;
    }();
    static_cast<void>(done);
    calls.clear();
  }
  Summary run(const std::string& options, test::Overrides overrides = {}, const std::string& folder = "run") {
    overrides.emplace_back("callbacks", "[{type: scribe" + options + "}]");
    overrides.emplace_back("run.folder", (folder_ / folder).string());
    return train(test::small_recipe(folder_, overrides), test::quiet_options());
  }
  std::map<std::string, at::Tensor> weights(std::int64_t step, const std::string& folder = "run") {
    return test::read_tensors(folder_ / folder / test::step_folder(step) / "model.safetensors");
  }
  test::TempFolder folder_;
};

std::vector<std::string> those(const std::string& what) {
  std::vector<std::string> found;
  for (const std::string& call : calls)
    if (call.starts_with(what)) found.push_back(call);
  return found;
}

TEST_F(Hooks, AreCalledInTheDocumentedOrder) {
  run("", {{"trainer.steps", "2"}, {"trainer.eval_every", "2"}, {"trainer.save.every", "1"}});
  EXPECT_EQ(calls, (std::vector<std::string>{"training_start 0", "epoch_start 1", "step_start 0", "gradients 1",
                                             "updated 1", "step_end 1", "log 1", "save 1", "step_start 1",
                                             "gradients 2", "updated 2", "step_end 2", "log 2", "evaluation_start 2",
                                             "evaluation_end 2", "save 2", "training_end 2"}));
}

TEST_F(Hooks, AreCalledAtTheStepsAndEpochsTheyAskFor) {
  run(", every_n_steps: 4, every_n_epochs: 2",
      {{"trainer.steps", "null"}, {"trainer.epochs", "4"}, {"data.packing", "none"}, {"trainer.log_every", "100"}});
  EXPECT_EQ(those("epoch_start"), (std::vector<std::string>{"epoch_start 2", "epoch_start 4"}));
  EXPECT_EQ(those("epoch_end"), (std::vector<std::string>{"epoch_end 2", "epoch_end 4"}));
  const std::vector<std::string> steps = those("step_end");
  ASSERT_GE(steps.size(), 3u);
  EXPECT_EQ(steps[0], "step_end 4");
  EXPECT_EQ(steps[1], "step_end 8");
  EXPECT_EQ(those("gradients")[0], "gradients 4");
}

TEST_F(Hooks, AddAndReplaceNumbers) {
  run("", {{"trainer.log_every", "2"}, {"trainer.steps", "4"}, {"trainer.eval_every", "4"}});
  const auto lines = test::metrics_of(folder_ / "run");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["learning_rate"], 3.5);  // the mean of two steps
  EXPECT_EQ(lines[1]["lines"], 2);
  EXPECT_NEAR(lines[0]["difference"].get<double>(), 0, 1e-6);
  EXPECT_EQ(lines[2]["eval_half"].get<double>(), lines[2]["eval_loss"].get<double>() / 2);
  const auto history = test::read_json(folder_ / "run" / test::step_folder(4) / "trainer_state.json")["log_history"];
  EXPECT_FALSE(history[0].contains("lines"));  // what is put in when a line is written is not in checkpoints
  EXPECT_TRUE(history[0].contains("difference"));
}

// Its numbers are settings, wherever it puts them in.
class Dial final : public Callback {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Dial(const Config&) {}
  bool gives_settings() const override { return true; }
  void on_gradients(const TrainView& view, Metrics& metrics) override {
    metrics["before"] = static_cast<double>(view.step);
  }
  Action on_step_end(const TrainView& view, Metrics& metrics) override {
    metrics["after"] = static_cast<double>(view.step);
    return Action::go_on;
  }
};

TEST_F(Hooks, OfSettingsALineHasTheLastOnes) {
  registries().callbacks.add<Dial>("dial", "Settings.");
  train(test::small_recipe(folder_, {{"callbacks", "[dial]"}, {"trainer.log_every", "5"}}), test::quiet_options());
  const auto lines = test::metrics_of(folder_ / "run");
  for (const char* name : {"before", "after"}) EXPECT_EQ(lines[0][name], 5) << name;
}

TEST_F(Hooks, ChangeWeightsInAllPrecisions) {
  for (const std::string precision : {"fp32", "bf16"}) {
    run("", {{"trainer.precision", precision}, {"trainer.steps", "1"}}, "kept" + precision);
    run(", scale: 0", {{"trainer.precision", precision}, {"trainer.steps", "1"}}, "zero" + precision);
    const auto kept = weights(1, "kept" + precision), zero = weights(1, "zero" + precision);
    EXPECT_GT(kept.at("model.norm.weight").abs().max().item<float>(), 0);
    EXPECT_EQ(zero.at("model.norm.weight").abs().max().item<float>(), 0);
    EXPECT_TRUE(at::equal(kept.at("lm_head.weight"), zero.at("lm_head.weight")));
  }
}

TEST_F(Hooks, HearOfASignal) {
  run(", signal_at: 3");
  EXPECT_EQ(those("signal"), std::vector<std::string>{"signal SIGTERM"});
  EXPECT_EQ(calls.back(), "training_end 3");
}

TEST_F(Hooks, IntermediatesAreLoggedAndChangeNothing) {
  run(", intermediates: 'layers\\.1\\.(attention|output)'", {{"trainer.steps", "3"}}, "wanted");
  run("", {{"trainer.steps", "3"}}, "plain");
  const auto lines = test::metrics_of(folder_ / "wanted");
  for (const char* name : {"layers.1.attention", "layers.1.output", "layers.1.output_rms"})
    EXPECT_TRUE(lines[0].contains(name)) << name;
  EXPECT_FALSE(lines[0].contains("layers.0.output"));
  EXPECT_GT(lines[0]["layers.1.output_rms"].get<double>(), std::abs(lines[0]["layers.1.output"].get<double>()));
  const auto wanted = weights(3, "wanted"), plain = weights(3, "plain");
  for (const auto& [name, tensor] : plain) EXPECT_TRUE(at::equal(tensor, wanted.at(name))) << name;
}

}  // namespace
}  // namespace hone
