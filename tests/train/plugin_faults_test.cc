// What becomes of a run whose plug-ins throw, name what is not there, or change weights in ways of their own.
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "hone/data.h"
#include "hone/evaluation.h"
#include "hone/objective.h"
#include "hone/random.h"
#include "hone/schedule.h"
#include "hone/source.h"
#include "train/hooks_for_tests.h"
#include "train/run_weights.h"
#include "train/together.h"

namespace hone {
namespace {

using test::Overrides;

[[noreturn]] void fail_as(const std::string& how) {
  if (how == "error") throw Error(ErrorKind::peer, "my own failure");
  if (how == "number") throw 42;
  throw std::runtime_error("my own failure");
}

// Fails in one hook, or gives names of a state that are not good.
class Chaos final : public Callback {
 public:
  struct Config {
    std::string hook, how = "exception";
    std::int64_t at = 3;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("hook", &C::hook, "Where."), field("how", &C::how, "What is thrown."),
                        field("at", &C::at, "In which step.")};
    }
  };
  explicit Chaos(const Config& config) : config_(config) {}
  void check(Model&, std::int64_t) const override { in("check"); }
  void on_step_start(const TrainView& view) override { in("on_step_start", view.step + 1); }
  void on_gradients(const TrainView& view, Metrics&) override { in("on_gradients", view.step); }
  void after_update(const TrainView& view, WeightEdit& edit) override {
    in("after_update", view.step);
    if (view.step != config_.at) return;
    edit.each([&](const std::string& name, at::Tensor& value) {
      if (name != "model.norm.weight") return;
      if (config_.hook == "shape") value = value.slice(0, 0, 3);
      if (config_.hook == "nan") value = value * NAN;
    });
  }
  Action on_step_end(const TrainView& view, Metrics&) override {
    in("on_step_end", view.step);
    if (config_.hook == "on_signal" && view.step == config_.at) std::raise(SIGTERM);
    return Action::go_on;
  }
  void on_signal(const TrainView&, const std::string&) override { in("on_signal"); }
  void visit_state(const StateVisitor& visit) override {
    in("visit_state");
    if (config_.hook == "slash") visit("a/b", number_);
    if (config_.hook == "twice") visit("a", number_), visit("a", number_);
  }

 private:
  void in(const std::string& hook, std::int64_t step = -1) const {
    if (hook == config_.hook && (step < 0 || step == config_.at)) fail_as(config_.how);
  }
  Config config_;
  double number_ = 0;
};

// Halves one weight in the way of those who assign.
class Halver final : public Callback {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Halver(const Config&) {}
  void after_update(const TrainView&, WeightEdit& edit) override {
    edit.each([](const std::string& name, at::Tensor& value) {
      if (name == "model.norm.weight") value = value * 0.5;
    });
  }
};

class BadTracker final : public Tracker {
 public:
  struct Config {
    std::int64_t at = 0;
    static constexpr auto fields() { return std::tuple{field("at", &Config::at, "In which step; 0: at the end.")}; }
  };
  explicit BadTracker(const Config& config) : at_(config.at) {}
  void log(std::int64_t step, const Metrics&) override {
    if (step == at_) throw std::runtime_error("no such host");
  }
  void finish() override {
    if (at_ == 0) throw Error(ErrorKind::peer, "no such host");
  }

 private:
  std::int64_t at_;
};

class BadCollator final : public Collator {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit BadCollator(const Config&) {}
  HostBatch collate(std::vector<HostRow>, const Random&) const override { throw 42; }
};

class BadSource final : public Source {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit BadSource(const Config&) {}
  bool next(Record&) override { throw std::length_error("line 3"); }
};

class BadEvaluation final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit BadEvaluation(const Config&) {}
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const override { throw std::out_of_range("at 7"); }
  Metrics result(const Sums&) const override { return {}; }
  std::vector<std::string> names() const override { return {"sense"}; }
};

class BadSchedule final : public Schedule {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit BadSchedule(const Config&) {}
  double factor(std::int64_t step, std::int64_t) const override {
    if (step == 2) throw std::domain_error("log of 0");
    return 1;
  }
};

// Causal LM and a term of hidden values where a byte is the label near a row's beginning, divided by how often it is.
class Rare final : public Objective {
 public:
  struct Config {
    std::int64_t byte = 1;
    std::vector<std::string> evaluations{"perplexity"};
    static constexpr auto fields() {
      return std::tuple{field("byte", &Config::byte, "Which."),
                        field("evaluations", &Config::evaluations, "What is measured.")};
    }
  };
  explicit Rare(const Config& config) : config_(config) {
    const auto& known = registries().objectives;
    inner_ = known.make("causal_lm", *known.options("causal_lm"));
  }
  std::vector<std::string> evaluations() const override { return config_.evaluations; }
  Sums sums(const Batch& batch) const override {
    Sums all = inner_->sums(batch);
    all["rare"] = is_there(batch).sum().item<double>();
    return all;
  }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    LossTerms terms = inner_->loss(model, output, batch, pass);
    terms.terms.push_back({"rare", (output.hidden_BTD.square().mean(-1) * is_there(batch)).sum(), "rare"});
    return terms;
  }

 private:
  at::Tensor is_there(const Batch& batch) const {
    const at::Tensor place_T = at::arange(batch.length());
    return batch.labels_BT.eq(config_.byte).logical_and(place_T.lt(5));
  }
  Config config_;
  std::unique_ptr<Objective> inner_;
};

class BadObjective final : public Objective {
 public:
  struct Config {
    std::string hook = "loss";
    static constexpr auto fields() { return std::tuple{field("hook", &Config::hook, "Where it fails.")}; }
  };
  explicit BadObjective(const Config& config) : config_(config) {
    const auto& known = registries().objectives;
    inner_ = known.make("causal_lm", *known.options("causal_lm"));
  }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }
  Groups prepare(Group group, StepContext& context) override {
    fail_in("prepare");
    return inner_->prepare(std::move(group), context);
  }
  Sums sums(const Batch& batch) const override {
    fail_in("sums");
    return inner_->sums(batch);
  }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    fail_in("loss");
    return inner_->loss(model, output, batch, pass);
  }
  void measure_step(const Sums&, std::map<std::string, Metric>&) const override { fail_in("measure_step"); }

 private:
  void fail_in(const std::string& hook) const {
    if (hook == config_.hook) throw std::invalid_argument("no such token");
  }
  Config config_;
  std::unique_ptr<Objective> inner_;
};

void register_faults() {
  static const bool done = [] {
    registries().callbacks.add<Chaos>("chaos", "Fails.");
    registries().callbacks.add<Halver>("halver", "Assigns.");
    registries().trackers.add<BadTracker>("bad_tracker", "Fails.");
    registries().collators.add<BadCollator>("bad_collator", "Fails.");
    registries().sources.add<BadSource>("bad_source", "Fails.");
    registries().evals.add<BadEvaluation>("bad_evaluation", "Fails.");
    registries().schedules.add<BadSchedule>("bad_schedule", "Fails.");
    registries().objectives.add<BadObjective>("bad_objective", "Fails.");
    registries().objectives.add<Rare>("rare", "A term that is seldom there.");
    return true;
  }();
  static_cast<void>(done);
}

class PluginFaults : public test::Together {
 protected:
  PluginFaults() {
    register_faults();
    log::set_sink([this](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      said_ += std::string(line) + "\n";
    });
  }
  ~PluginFaults() override { log::set_sink({}); }
  // Each in a folder of its own.
  Summary run_with(Overrides more) {
    run_ = folder_ / ("run" + std::to_string(++runs_));
    more.emplace_back("run.folder", run_.string());
    return train(test::small_recipe(folder_, more), test::quiet_options());
  }
  Summary run_chaos(const std::string& options) {
    return run_with({{"callbacks", "[{type: chaos, " + options + "}]"}});
  }
  bool has_checkpoint(std::int64_t step) {
    return std::filesystem::exists(run_ / test::step_folder(step) / "MANIFEST.json");
  }
  std::filesystem::path run_;  // the last one's
  int runs_ = 0;
  std::mutex mutex_;
  std::string said_;
};

TEST_F(PluginFaults, SayWhichCallbackAndHookAndStep) {
  for (const std::string hook : {"on_step_start", "on_gradients", "after_update", "on_step_end"}) {
    SCOPED_TRACE(hook);
    const std::string place = "callback chaos, " + hook + ", step 3";
    EXPECT_HONE_ERROR(run_chaos("hook: " + hook), bug, place + ": my own failure");
    EXPECT_HONE_ERROR(run_chaos("hook: " + hook + ", how: error"), peer, "my own failure\n  while " + place);
    EXPECT_HONE_ERROR(run_chaos("hook: " + hook + ", how: number"), bug,
                      place + ": it has thrown what is no std::exception");
  }
  EXPECT_HONE_ERROR(run_chaos("hook: check"), bug, "callback chaos, check: my own failure");
}

TEST_F(PluginFaults, SayWhichOfTheOthers) {
  EXPECT_HONE_ERROR(run_with({{"trackers", "[{type: bad_tracker, at: 2}]"}}), bug,
                    "tracker bad_tracker, log, step 2: no such host");
  EXPECT_HONE_ERROR(run_with({{"data.collator", "bad_collator"}}), bug,
                    "data.collator, collate: it has thrown what is no std::exception");
  EXPECT_HONE_ERROR(run_with({{"data.train", "[{source: {type: bad_source}}]"}, {"data.eval.held_out", "0"}}), bug,
                    "source bad_source, next: line 3");
  EXPECT_HONE_ERROR(run_with({{"objective", "{type: rare, evaluations: [bad_evaluation]}"}}), bug,
                    "evaluation of sense, measure: at 7");
  EXPECT_HONE_ERROR(run_with({{"optimizer.schedule", "bad_schedule"}}), bug,
                    "optimizer adamw, learning_rate, step 3: log of 0");
}

TEST_F(PluginFaults, SayWhatTheObjectiveWasAskedFor) {
  for (const std::string hook : {"prepare", "sums", "loss", "measure_step"})
    EXPECT_HONE_ERROR(run_with({{"objective", "{type: bad_objective, hook: " + hook + "}"}}), bug,
                      "objective bad_objective, " + hook + ", step 1: no such token");
}

TEST_F(PluginFaults, ATrackerThatCannotFinishCostsNoCheckpoint) {
  const Summary summary = run_with({{"trackers", "[bad_tracker]"}});
  EXPECT_EQ(summary.reason, StopReason::steps);
  EXPECT_TRUE(has_checkpoint(10));
  EXPECT_NE(said_.find("tracker bad_tracker, finish: no such host"), std::string::npos) << said_;
}

TEST_F(PluginFaults, ACallbackThatFailsAtASignalCostsNoCheckpoint) {
  const Summary summary = run_chaos("hook: on_signal, how: number");
  EXPECT_EQ(summary.reason, StopReason::signal);
  EXPECT_TRUE(has_checkpoint(3));
  EXPECT_NE(said_.find("callback chaos, on_signal, step 3: it has thrown what is no std::exception"), std::string::npos)
      << said_;
}

TEST_F(PluginFaults, BadNamesOfAStateAreFoundBeforeTheRunBegins) {
  EXPECT_HONE_ERROR(run_chaos("hook: slash"), bug, "callback chaos: \"a/b\": expected a name without \"/\"");
  EXPECT_FALSE(std::filesystem::exists(run_ / "config.yaml"));
  EXPECT_HONE_ERROR(run_chaos("hook: twice"), bug, "callback chaos: \"a\": this name is given twice");
  EXPECT_FALSE(std::filesystem::exists(run_ / "config.yaml"));
}

TEST_F(PluginFaults, WeightsThatAreMadeNaNInARunAreNoDamagedFile) {
  try {
    run_chaos("hook: nan, at: 5");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::not_finite);
    EXPECT_NE(text.find("weight model.norm.weight"), std::string::npos) << text;
    EXPECT_NE(text.find("while evaluating after step 5"), std::string::npos) << text;
    EXPECT_NE(text.find("the last checkpoint is step 4"), std::string::npos) << text;
    EXPECT_EQ(text.find("file"), std::string::npos) << text;
  }
}

TEST_F(PluginFaults, WeightsThatAreMadeNaNInARunOfRanksThatShareThemAreNamed) {
  const std::string text =
      fails(2, {{"parallel", "{fsdp: -1}"}, {"callbacks", "[{type: chaos, hook: nan, at: 5}]"}}, ErrorKind::not_finite);
  EXPECT_NE(text.find("step 5, where weight model.norm.weight is not finite"), std::string::npos) << text;
  EXPECT_EQ(text.find("every weight"), std::string::npos) << text;
}

TEST_F(PluginFaults, WhatIsAssignedToAWeightGoesIntoIt) {
  const auto assign = [](at::Tensor value, const at::Tensor& other) {
    training::visit_to_change("w", value, [&](const std::string&, at::Tensor& weight) { weight = other; });
    return value;
  };
  const at::Tensor weight = at::arange(4, at::kFloat).view({2, 2});
  const at::Tensor given = assign(weight, at::full({2, 2}, 7, at::kDouble));
  EXPECT_TRUE(given.is_same(weight));
  EXPECT_TRUE(at::equal(weight, at::full({2, 2}, 7, at::kFloat)));
  weight.copy_(at::arange(4).view({2, 2}));
  assign(weight, weight.t());
  EXPECT_TRUE(at::equal(weight, at::tensor({0.0f, 2.0f, 1.0f, 3.0f}).view({2, 2}))) << weight;
  EXPECT_HONE_ERROR(assign(weight, at::zeros({4})), bug, "w: got [4], expected [2, 2]");
  EXPECT_HONE_ERROR(assign(weight, at::Tensor()), bug, "w: got no tensor, expected [2, 2]");
  EXPECT_HONE_ERROR(assign(weight, at::zeros({2, 2}, at::kLong)), bug, "w: got int64, expected float32");
  EXPECT_HONE_ERROR(run_chaos("hook: shape"), bug,
                    "model.norm.weight: got [3], expected [32]\n  while callback chaos, after_update, step 3");
}

// It does not ask to be called on every rank.
TEST_F(PluginFaults, RanksChangeWeightsAlike) {
  const Overrides halved{{"callbacks", "[halver]"}};
  run(1, "one", halved);
  run(1, "plain");
  for (const char* shares : {"1", "-1"}) {
    SCOPED_TRACE(shares);
    const std::string name = std::string("two") + shares;
    Overrides two = halved;
    two.emplace_back("parallel.fsdp", shares);
    run(2, name, two);
    expect_close(in("one"), in(name), 1e-11);
    expect_close_weights(in("one"), in(name), 8, 1e-10);
  }
  EXPECT_NE(test::metrics_of(in("one"))[3]["loss"], test::metrics_of(in("plain"))[3]["loss"]);
}

TEST_F(PluginFaults, ATermOfNothingIsAsOneThatIsNotThere) {
  run(1, "plain");
  run(1, "never", {{"objective", "{type: rare, byte: 1}"}});
  expect_close_weights(in("plain"), in("never"), 8, 1e-14);
  Overrides seldom{{"objective", "{type: rare, byte: 57}"}, {"trainer.batch_size", "1"}, {"trainer.accumulate", "2"}};
  run(1, "one", seldom);
  run(2, "two", seldom);
  seldom.emplace_back("parallel.fsdp", "-1");
  run(2, "shares", seldom);
  int with = 0, without = 0;
  for (const auto& line : test::metrics_of(in("one")))
    if (line.contains("loss")) line.contains("rare") ? ++with : ++without;
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
  for (const char* name : {"two", "shares"}) {
    SCOPED_TRACE(name);
    expect_close(in("one"), in(name), 1e-11);
    expect_close_weights(in("one"), in(name), 8, 1e-10);
  }
}

TEST_F(PluginFaults, EvaluationsThatAreNotThereAreSaidBeforeTheRunBegins) {
  EXPECT_HONE_ERROR(run_with({{"objective", "{type: rare, evaluations: [nosuch]}"}}), config,
                    "objective rare: no evaluation \"nosuch\"; there are ");
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(PluginFaults, AnObjectiveWithoutEvaluationsTrainsWithoutABestCheckpoint) {
  const Summary summary = run_with({{"objective", "{type: rare, evaluations: []}"}});
  EXPECT_EQ(summary.step, 10);
  EXPECT_NE(said_.find("objective rare: names no evaluation: nothing is measured on 1 evaluation set"),
            std::string::npos)
      << said_;
  EXPECT_FALSE(std::filesystem::exists(run_ / "checkpoints/best"));
}

}  // namespace
}  // namespace hone
