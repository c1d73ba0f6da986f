// Errors of one rank, or of all, between steps: the last whole step is saved by all of them, and the same command goes
// on from it to the bits of the unbroken run.
#include <atomic>

#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/reward.h"
#include "hone/world.h"
#include "train/together.h"

namespace hone {
namespace {

// Ends the run with an error on a rank, or on all of them (-1).
class FailOnRank final : public Callback {
 public:
  struct Config {
    std::int64_t step = 1, rank = -1;
    std::string when = "end";
    static constexpr auto fields() {
      return std::tuple{field("step", &Config::step, "When."), field("rank", &Config::rank, "Where."),
                        field("when", &Config::when, "start, gradients, update, evaluation, end or save.")};
    }
  };
  explicit FailOnRank(const Config& config) : config_(config) {}
  CallbackTimes times() const override { return {.main_process_only = false}; }
  void on_step_start(const TrainView& view) override { fail("start", view); }
  void on_gradients(const TrainView& view, Metrics&) override { fail("gradients", view); }
  void after_update(const TrainView& view, WeightEdit&) override { fail("update", view); }
  void on_evaluation_start(const TrainView& view) override { fail("evaluation", view); }
  Action on_step_end(const TrainView& view, Metrics&) override {
    fail("end", view);
    return Action::go_on;
  }
  void on_save(const TrainView& view, const std::string&) override { fail("save", view); }

 private:
  void fail(const std::string& when, const TrainView& view) const {
    if (when != config_.when || view.step != config_.step) return;
    if (config_.rank < 0 || config_.rank == view.world->rank()) throw Error(ErrorKind::data, "it fails on purpose");
  }
  Config config_;
};

// Fails once in the step: on one rank.
class FailingReward final : public Reward {
 public:
  struct Config {
    std::int64_t step = 1;
    static constexpr auto fields() { return std::tuple{field("step", &Config::step, "When.")}; }
  };
  static inline std::atomic<bool> armed{false};
  explicit FailingReward(const Config& config) : config_(config) {}
  std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                           const RewardContext& context) const override {
    if (context.step + 1 == config_.step && armed.exchange(false)) throw Error(ErrorKind::data, "it fails on purpose");
    std::vector<std::optional<double>> all;
    for (const Answer& one : answers) all.emplace_back(static_cast<double>(one.text.size() % 3));
    return all;
  }

 private:
  Config config_;
};

class WholeSteps : public test::Together {
 protected:
  WholeSteps() {
    static const bool once = [] {
      registries().callbacks.add<FailOnRank>("fail_on_rank", "End with an error.");
      registries().rewards.add<FailingReward>("failing", "Fail once.");
      return true;
    }();
    static_cast<void>(once);
  }
  // The errors of all ranks.
  std::vector<std::string> fail(int ranks, const std::string& name, const test::Overrides& more) {
    test::Overrides all = with(more);
    all.emplace_back("run.folder", in(name).string());
    const Recipe recipe = test::small_recipe(folder_, all);
    std::vector<std::string> texts(static_cast<std::size_t>(ranks));
    test::on_ranks(ranks, [&](const World& world) {
      TrainOptions own = test::quiet_options();
      own.handle_signals = false, own.world = world;
      try {
        train(recipe, own);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
        texts[static_cast<std::size_t>(world.rank())] = error.what();
      }
    });
    return texts;
  }
  static test::Overrides failing(test::Overrides more, const std::string& when, std::int64_t step, int rank) {
    more.emplace_back("callbacks", fmt::format("[{{type: fail_on_rank, when: {}, step: {}, rank: {}}}]", when, step,
                                               rank));
    return more;
  }
  bool has_step(const std::string& name, std::int64_t step) {
    return std::filesystem::exists(in(name) / test::step_folder(step) / "MANIFEST.json");
  }
  // Ended by an error, it has saved `step`, and goes on from there to the bits of the run in `straight`.
  void expect_saved(int ranks, const std::string& straight, const test::Overrides& more, const std::string& when,
                    std::int64_t at, int rank, std::int64_t step) {
    SCOPED_TRACE(fmt::format("{} ranks, {} at step {}, rank {}", ranks, when, at, rank));
    const std::string name = fmt::format("broken{}", number_++);
    const std::vector<std::string> texts = fail(ranks, name, failing(more, when, at, rank));
    for (int one = 0; one < ranks; ++one) {
      const std::string& text = texts[static_cast<std::size_t>(one)];
      EXPECT_NE(text.find("it fails on purpose"), std::string::npos) << "rank " << one << ": " << text;
      if (rank >= 0) EXPECT_EQ(text.starts_with(fmt::format("rank {}: ", rank)), one != rank) << text;
    }
    ASSERT_TRUE(has_step(name, step));
    EXPECT_EQ(run(ranks, name, more).resumed_from, step);
    test::expect_equal_runs(in(straight), in(name), 8);
  }
  int number_ = 0;
};

const test::Overrides kPlain{{"trainer.precision", "bf16"}, {"trainer.eval_every", "3"}, {"trainer.save.every", "4"},
                             {"data.eval.held_out", "0.2"}};

TEST_F(WholeSteps, OfTwoRanksAreSavedWhereverOneFails) {
  run(2, "straight", kPlain);
  expect_saved(2, "straight", kPlain, "start", 5, 1, 5);
  expect_saved(2, "straight", kPlain, "evaluation", 6, 1, 6);
  expect_saved(2, "straight", kPlain, "evaluation", 8, 0, 8);
}

// The step's line of the log was not written yet: the next one has its numbers, too. What was learnt is the same.
TEST_F(WholeSteps, AreSavedWhereACallbackFailsAtTheirEnd) {
  run(2, "straight", kPlain);
  for (const std::string& text : fail(2, "broken", failing(kPlain, "end", 5, 0)))
    EXPECT_NE(text.find("it fails on purpose"), std::string::npos) << text;
  ASSERT_TRUE(has_step("broken", 5));
  EXPECT_EQ(run(2, "broken", kPlain).resumed_from, 5);
  for (const char* name : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
    EXPECT_TRUE(test::read_text(in("straight") / test::step_folder(8) / name) ==
                test::read_text(in("broken") / test::step_folder(8) / name))
        << name;
}

TEST_F(WholeSteps, OfTwoRanksAreSavedWhereAllFail) {
  run(2, "straight", kPlain);
  expect_saved(2, "straight", kPlain, "start", 6, -1, 6);
  expect_saved(2, "straight", kPlain, "gradients", 7, -1, 6);
  expect_saved(2, "straight", kPlain, "evaluation", 3, -1, 3);
}

// The others are in the middle of a pass, with weights of others on their way.
TEST_F(WholeSteps, OfSharesAreSaved) {
  for (const int ranks : {2, 4}) {
    test::Overrides shares = kPlain;
    shares.emplace_back("parallel.fsdp", "-1");
    shares.emplace_back("trainer.ema", "{decay: 0.9}");
    const std::string straight = fmt::format("straight{}", ranks);
    run(ranks, straight, shares);
    expect_saved(ranks, straight, shares, "evaluation", 6, ranks - 1, 6);
    expect_saved(ranks, straight, shares, "start", 5, 0, 5);
  }
}

TEST_F(WholeSteps, OfRanksThatShareABatchAreSaved) {
  test::Overrides context = kPlain;
  context.emplace_back("parallel.context", "2");
  run(4, "straight", context);
  expect_saved(4, "straight", context, "start", 5, 3, 5);
  expect_saved(4, "straight", context, "evaluation", 6, 2, 6);
}

// Half an update is no step, on whichever rank it is.
TEST_F(WholeSteps, AreNotSavedWithinAnUpdate) {
  const auto fails = [&](const test::Overrides& more, const std::string& name) {
    const std::vector<std::string> texts = fail(2, name, more);
    EXPECT_FALSE(has_step(name, 6) || has_step(name, 7));
    EXPECT_TRUE(has_step(name, 4));
    return texts;
  };
  fails(failing(kPlain, "gradients", 7, 1), "other");  // rank 0 has made the update
  const std::vector<std::string> all = fails(failing(kPlain, "update", 7, -1), "all");
  for (const std::string& text : all) EXPECT_TRUE(text.starts_with("it fails on purpose")) << text;
}

TEST_F(WholeSteps, AreThereAlreadyWhereACallbackFailsOnTheirSave) {
  run(2, "straight", kPlain);
  expect_saved(2, "straight", kPlain, "save", 4, 0, 4);
}

TEST_F(WholeSteps, AreSavedWhereARewardFails) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += fmt::format("{{\"prompt\": \"{}+{}=\"}}\n", i % 10, i % 7);
  const test::Overrides asked{{"data.train", folder_.write("asked.jsonl", lines).string()},
                              {"data.max_length", "12"},
                              {"objective", "{type: grpo, rewards: [{type: failing, step: 6}], num_generations: 4, "
                                            "max_completion_length: 6}"},
                              {"trainer.batch_size", "4"},
                              {"trainer.accumulate", "2"},
                              {"trainer.eval_every", "0"},
                              {"trainer.save.every", "3"}};
  run(2, "straight", asked);
  FailingReward::armed = true;
  const std::vector<std::string> texts = fail(2, "broken", asked);
  for (const std::string& text : texts) EXPECT_NE(text.find("it fails on purpose"), std::string::npos) << text;
  ASSERT_TRUE(has_step("broken", 5));
  EXPECT_EQ(run(2, "broken", asked).resumed_from, 5);
  test::expect_equal_runs(in("straight"), in("broken"), 8);
}

// What the objective has learnt of a step that came to nothing is not saved with the steps before it: the coefficient
// moves once in each step, and by so much that all that follows would differ.
TEST_F(WholeSteps, AreSavedWithWhatTheObjectiveKnewThen) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += fmt::format("{{\"prompt\": \"{}+{}=\"}}\n", i % 10, i % 7);
  const test::Overrides adaptive{{"data.train", folder_.write("asked.jsonl", lines).string()},
                                 {"data.max_length", "12"},
                                 {"objective", "{type: grpo, rewards: [{type: failing}], num_generations: 4, "
                                               "max_completion_length: 6, use_adaptive_entropy: true, "
                                               "entropy_coef: 0.1, entropy_coef_delta: 0.1, entropy_coef_max: 5, "
                                               "entropy_target: 100}"},
                                 {"trainer.batch_size", "4"},
                                 {"trainer.accumulate", "2"},
                                 {"trainer.eval_every", "0"},
                                 {"trainer.save.every", "4"}};
  run(2, "straight", adaptive);
  const std::vector<double> coefficients = test::values(in("straight"), "entropy_coef");
  ASSERT_GT(coefficients.back(), coefficients.front());
  expect_saved(2, "straight", adaptive, "gradients", 6, -1, 5);
}

// Of a stream that all of them read: the error is in a line that comes late.
TEST_F(WholeSteps, AreSavedWhereTheDataAreBad) {
  std::string lines = test::story_lines(80);
  const auto bad = [&] {
    std::size_t at = 0;
    for (int line = 0; line < 45; ++line) at = lines.find('\n', at) + 1;
    std::string broken = lines;
    return broken.insert(at, "{\"text\": }\n");
  }();
  const std::filesystem::path file = folder_.write("stream.jsonl", bad);
  const test::Overrides stream{{"data.train", "[{path: " + file.string() + ", stream: true}]"},
                               {"data.stream_window", "5"},
                               {"data.eval.held_out", "0"},
                               {"trainer.eval_every", "0"},
                               {"trainer.save.every", "100"}};
  const std::vector<std::string> texts = fail(2, "broken", stream);
  for (const std::string& text : texts) EXPECT_NE(text.find("stream.jsonl:46"), std::string::npos) << text;
  int saved = 0;
  for (std::int64_t step = 1; step <= 8; ++step) saved += has_step("broken", step);
  EXPECT_EQ(saved, 1);
}

}  // namespace
}  // namespace hone
