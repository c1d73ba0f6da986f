// NaN and Inf: which tensor was the first, how a step is made once more, and how many updates may be left out.
#include <gtest/gtest.h>

#include "train/hooks_for_tests.h"
#include "train/resources.h"
#include "train/together.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

// In the steps that it names all elements of a weight are this, and then their own again.
class Flicker final : public Callback {
 public:
  struct Config {
    std::vector<std::int64_t> steps;
    std::string weight = "layers.1.mlp.up_proj";
    double value = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("steps", &C::steps, "When."), field("weight", &C::weight, "Part of its name."),
                        field("value", &C::value, "What they are; 0: NaN.")};
    }
  };
  explicit Flicker(const Config& config) : config_(config) {}
  CallbackTimes times() const override { return {.main_process_only = false}; }
  void on_step_start(const TrainView& view) override {
    if (std::find(config_.steps.begin(), config_.steps.end(), view.step + 1) == config_.steps.end()) return;
    view.model.each_weight([&](const std::string& name, Weight& weight) {
      if (name.find(config_.weight) == name.npos) return;
      at_ = weight.value().detach();
      before_ = at_.clone();
      at_.fill_(config_.value == 0 ? NAN : config_.value);
    });
  }
  Action on_step_end(const TrainView&, Metrics&) override {
    if (before_.defined()) at_.copy_(before_), before_ = at::Tensor();
    return Action::go_on;
  }

 private:
  Config config_;
  at::Tensor before_, at_;
};

// Its loss is finite, and its gradient with respect to what the model gave is not.
class BadBackward final : public Objective {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  explicit BadBackward(const Config&) {
    const auto& known = registries().objectives;
    inner_ = known.make("causal_lm", *known.options("causal_lm"));
  }
  std::vector<std::string> evaluations() const override { return {}; }
  Sums sums(const Batch& batch) const override { return inner_->sums(batch); }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    LossTerms terms = inner_->loss(model, output, batch, pass);
    terms.terms[0].sum = terms.terms[0].sum + at::sqrt(output.hidden_BTD.square() * 0).sum();
    return terms;
  }

 private:
  std::unique_ptr<Objective> inner_;
};

void register_bad_things() {
  test::register_test_callbacks();
  static const bool done = [] {
    registries().callbacks.add<Flicker>("flicker", "Another value for a step.");
    registries().objectives.add<BadBackward>("bad_backward", "A gradient that is none.");
    return true;
  }();
  static_cast<void>(done);
}

// Everything in a folder, and when it was written.
std::map<std::string, std::string> all_of(const fs::path& folder) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    found[entry.path().string()] =
        fmt::format("{} {}", entry.last_write_time().time_since_epoch().count(),
                    entry.is_regular_file() ? test::read_text(entry.path()) : std::string("no file"));
  return found;
}

class NotFinite : public ::testing::Test {
 protected:
  NotFinite() {
    register_bad_things();
    log::set_sink([this](log::Level level, std::string_view text) {
      if (level >= log::Level::warning) messages_ += std::string(text) + "\n";
    });
  }
  ~NotFinite() override { log::set_sink({}); }
  Recipe recipe(test::Overrides overrides) {
    overrides.emplace_back("run.folder", (folder_ / "run").string());
    return test::small_recipe(folder_, overrides);
  }
  std::string error_of(const test::Overrides& overrides, TrainOptions options = test::quiet_options()) {
    try {
      train(recipe(overrides), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::not_finite) << error.what();
      return error.what();
    }
    return "";
  }
  nlohmann::json dump(int step) {
    return test::read_json(folder_ / "run" / ("nonfinite-step-" + std::to_string(step) + ".json"));
  }
  test::TempFolder folder_;
  std::string messages_;
};

std::string until_stop(const std::string& text) { return text.substr(0, text.find("; stopped")); }

TEST_F(NotFinite, TheFirstBadTensorIsNamedInTheOrderOfComputation) {
  const auto first = [&](const test::Overrides& overrides) {
    fs::remove_all(folder_ / "run");
    const std::string text = error_of(overrides);
    const auto begin = text.find("first not finite: ");
    EXPECT_NE(begin, text.npos) << text;
    return text.substr(begin + 18, text.find(';', begin) - begin - 18);
  };
  EXPECT_EQ(first({{"callbacks", "[{type: flicker, steps: [3]}]"}}), "weight model.layers.1.mlp.up_proj.weight");
  const std::string huge = ", value: 3e38}]";
  EXPECT_EQ(first({{"callbacks", "[{type: flicker, steps: [3], weight: layers.1.mlp.up_proj" + huge}}),
            "value layers.1.output, micro-batch 0");
  EXPECT_EQ(dump(3)["first"]["name"], "layers.1.output");
  EXPECT_EQ(first({{"callbacks", "[{type: flicker, steps: [3], weight: layers.0.self_attn.v_proj" + huge}}),
            "value layers.0.attention, micro-batch 0");
  EXPECT_EQ(first({{"objective", "bad_backward"}, {"trainer.eval_every", "0"}, {"data.eval.held_out", "0"}}),
            "gradient model.norm.weight");
}

TEST_F(NotFinite, AReplayFindsTheSameAndLeavesNoTrace) {
  for (const char* saves : {"4", "0"}) {  // from a checkpoint, and from the start
    SCOPED_TRACE(saves);
    fs::remove_all(folder_ / "run");
    const test::Overrides overrides{
        {"callbacks",
         "[{type: flicker, steps: [7], weight: layers.1.mlp.up_proj, value: 3e38}, {type: histograms, every: 1}]"},
        {"trainer.save.every", saves}};
    const std::string told = error_of(overrides);
    EXPECT_NE(told.find("step 7"), told.npos) << told;
    EXPECT_EQ(dump(7)["checkpoint"], std::string(saves) == "4" ? 4 : -1);
    const auto before = all_of(folder_ / "run");
    TrainOptions options = test::quiet_options();
    options.replay = 7;
    EXPECT_EQ(until_stop(error_of(overrides, options)), until_stop(told));
    options.replay = 6;
    const Summary fine = train(recipe(overrides), options);
    EXPECT_EQ(fine.reason, StopReason::replayed);
    EXPECT_EQ(fine.step, 6);
    EXPECT_EQ(all_of(folder_ / "run"), before);
  }
}

TEST_F(NotFinite, SoManyUpdatesMayBeLeftOut) {
  const std::string callbacks = "[{type: flicker, steps: [3, 5]}]";
  test::Overrides overrides{{"callbacks", callbacks}, {"trainer.save.every", "1"}, {"trainer.skip_not_finite", "2"}};
  EXPECT_EQ(train(recipe(overrides), test::quiet_options()).step, 10);
  EXPECT_NE(messages_.find("step 5: loss nan"), messages_.npos) << messages_;
  EXPECT_NE(messages_.find("no update, 2 of at most 2"), messages_.npos) << messages_;
  const auto weights = [&](std::int64_t step) {
    return test::read_tensors(folder_ / "run" / test::step_folder(step) / "model.safetensors").at("lm_head.weight");
  };
  EXPECT_TRUE(at::equal(weights(2), weights(3)));
  EXPECT_FALSE(at::equal(weights(3), weights(4)));
  const auto state = test::read_json(folder_ / "run" / test::step_folder(10) / "state/train.json");
  EXPECT_EQ(state["not_finite"], 2);
  EXPECT_EQ(state["updates"], 8);
  const auto lines = test::metrics_of(folder_ / "run");
  EXPECT_FALSE(lines[2]["loss"].is_number()) << lines[2];  // what was not finite is not hidden
  TrainOptions options = test::quiet_options();
  options.replay = 5;  // although the run went on
  EXPECT_NE(error_of(overrides, options).find("step 5: loss nan"), std::string::npos);

  const fs::path whole = folder_ / "whole";
  fs::rename(folder_ / "run", whole);
  overrides.back().second = "1";
  const std::string text = error_of(overrides);
  EXPECT_NE(text.find("stopped before the update, after 1 that were left out, the last checkpoint is step 4"),
            std::string::npos)
      << text;
  overrides.back().second = "2";
  train(recipe(overrides), test::quiet_options());  // it counts on where it was
  test::expect_equal_runs(whole, folder_ / "run", 10);
}

TEST_F(NotFinite, ARunGoesOnFromTheCheckpointOfAStepThatWasLeftOut) {
  const test::Overrides overrides{{"callbacks", "[{type: flicker, steps: [5]}]"}, {"trainer.save.every", "5"},
                                  {"trainer.log_every", "3"}, {"trainer.skip_not_finite", "1"}};
  train(recipe(overrides), test::quiet_options());
  const fs::path whole = folder_ / "whole";
  fs::copy(folder_ / "run", whole, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::remove_all(folder_ / "run" / test::step_folder(10));  // as if it had been killed after step 5
  EXPECT_EQ(train(recipe(overrides), test::quiet_options()).resumed_from, 5);
  test::expect_equal_runs(whole, folder_ / "run", 10);
}

// A run whose weights become infinite in an update, and that saves before anybody sees it.
TEST_F(NotFinite, ACheckpointThatIsNotFiniteIsNeitherLatestNorBest) {
  const test::Overrides overrides{{"optimizer", "{type: sgd, learning_rate: 1e60, schedule: constant}"},
                                  {"trainer.max_grad_norm", "0"},
                                  {"trainer.eval_every", "2"},
                                  {"trainer.save.every", "1"}};
  test::Overrides good = overrides;
  good[0].second = "{type: sgd, learning_rate: 1e-3, schedule: constant}";
  good.emplace_back("trainer.steps", "2");
  train(recipe(good), test::quiet_options());
  EXPECT_NE(error_of(overrides), "");
  EXPECT_FALSE(test::read_json(folder_ / "run" / test::step_folder(3) / "MANIFEST.json")["finite"].get<bool>());
  EXPECT_NE(messages_.find("step 3: its weights are not finite: it is neither latest nor best"), messages_.npos)
      << messages_;
  EXPECT_EQ(fs::read_symlink(folder_ / "run/latest"), fs::path("checkpoints/step-00000002"));
  EXPECT_NE(fs::read_symlink(folder_ / "run/best"), fs::path("checkpoints/step-00000003"));
  good.back().second = "4";
  EXPECT_EQ(train(recipe(good), test::quiet_options()).resumed_from, 2);
}

class NotFiniteTogether : public test::Together {};

TEST_F(NotFiniteTogether, RanksAgreeWhatWasFirstAndWhatIsLeftOut) {
  register_bad_things();
  for (const char* fsdp : {"1", "2"}) {
    SCOPED_TRACE(fsdp);
    const std::string name = std::string("run") + fsdp;
    const test::Overrides overrides{
        {"optimizer.learning_rate", "1e300"}, {"trainer.precision", "fp32"}, {"parallel.fsdp", fsdp}};
    EXPECT_HONE_ERROR(run(2, name, overrides), not_finite, "first not finite: ");
    nlohmann::json dump;
    for (const auto& entry : fs::directory_iterator(in(name)))
      if (entry.path().filename().string().starts_with("nonfinite")) dump = test::read_json(entry.path());
    EXPECT_NE(dump["first"]["what"], "") << dump;
    EXPECT_EQ(dump["ranks"], 2);
    TrainOptions options;
    options.replay = dump["step"].get<std::int64_t>();
    const auto before = all_of(in(name));
    EXPECT_HONE_ERROR(run(2, name, overrides, options), not_finite, "first not finite: ");
    EXPECT_EQ(all_of(in(name)), before);
  }
  const test::Overrides skipping{{"callbacks", "[{type: flicker, steps: [2]}]"}, {"trainer.skip_not_finite", "1"}};
  EXPECT_EQ(run(2, "skips", skipping).step, 8);
}

}  // namespace
}  // namespace hone
