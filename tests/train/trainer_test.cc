// hone::Trainer: models, states and data in memory; the parts of a run, replaced; evaluations batch by batch.
#include "hone/trainer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "hone/data_in_memory.h"
#include "hone/layers.h"
#include "train/by_hand.h"

namespace hone {
namespace {

using test::Overrides;
using test::Pieces;

const TrainOptions kQuiet = test::quiet_options();

std::vector<Record> records(int count, int first = 0) {
  std::vector<Record> all;
  for (const auto& line : [&] {
         std::vector<nlohmann::json> lines;
         std::istringstream text(test::story_lines(first + count));
         for (std::string one; std::getline(text, one);) lines.push_back(nlohmann::json::parse(one));
         return lines;
       }())
    all.push_back({TextRecord{line["text"].get<std::string>()}});
  return {all.begin() + first, all.end()};
}

class TrainerParts : public ::testing::Test {
 protected:
  Recipe recipe(const Overrides& overrides = {}, const std::string& run = "run") {
    Overrides all{{"run.folder", (folder_ / run).string()}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return test::small_recipe(folder_, all);
  }
  // The same without what is given in memory.
  Recipe bare(const Overrides& overrides = {}, const std::string& run = "memory") {
    Recipe made = recipe(overrides, run);
    made.model = {}, made.tokenizer.clear(), made.data.train.clear(), made.data.eval = {};
    return made;
  }
  TrainerInputs inputs(const Recipe& of) {
    const Pieces pieces(of);
    TrainerInputs given;
    given.model = pieces.model;
    given.tokenizer = pieces.tokenizer;
    const auto [held_out, rest] = pieces.data->split(0.2, of.run.seed);
    given.train = rest;
    given.evals = {{"lines", held_out}};
    return given;
  }
  void expect_same(const std::string& a, const std::string& b, std::int64_t step = 10) {
    for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
      EXPECT_TRUE(test::read_text(folder_ / a / test::step_folder(step) / file) ==
                  test::read_text(folder_ / b / test::step_folder(step) / file))
          << file;
    EXPECT_EQ(test::fixed_metrics_of(folder_ / a), test::fixed_metrics_of(folder_ / b));
  }
  test::TempFolder folder_;
};

TEST_F(TrainerParts, InMemoryIsAsFromTheRecipe) {
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string named = std::string("named_") + precision, memory = std::string("memory_") + precision;
    const Overrides overrides{{"trainer.precision", precision}};
    train(recipe(overrides, named), kQuiet);
    TrainOutput output = Trainer(bare(overrides, memory), inputs(recipe(overrides)), kQuiet).run();
    expect_same(named, memory);
    EXPECT_EQ(output.summary.step, 10);
    ASSERT_TRUE(output.state.has_value());
    EXPECT_EQ(output.state->step(), 10);
    EXPECT_EQ(output.checkpoint_path, (folder_ / memory / test::step_folder(10)).string());
    EXPECT_EQ(output.last_save_file_name, "step-00000010");
    EXPECT_GT(output.summary.prepare_seconds, 0);
    // What is in memory is what was saved.
    const auto saved = test::read_tensors(folder_ / memory / test::step_folder(10) / "model.safetensors");
    output.state->model().each_weight([&](const std::string& name, Weight& weight) {
      EXPECT_TRUE(at::equal(weight.use(), saved.at(name))) << name;
    });
  }
}

TEST_F(TrainerParts, ARunInMemoryIsResumed) {
  const Recipe whole = recipe({}, "whole");
  Trainer(bare({}, "whole"), inputs(whole), kQuiet).run();
  const auto part = [&](std::int64_t steps) {
    Recipe some = bare({}, "parts");
    some.trainer.steps = 10;
    Trainer trainer(some, inputs(whole), kQuiet);
    if (steps < 10) {
      RunFunctions functions = trainer.configure_functions();
      std::int64_t done = 0;
      functions.training_step = [&, own = functions.training_step](TrainState& state, const Group& group) mutable {
        if (done++ == steps) throw Error(ErrorKind::peer, "pulled the plug");
        return own(state, group);
      };
      trainer.replace(functions);
    }
    return trainer.run();
  };
  EXPECT_HONE_ERROR(part(5), peer, "pulled the plug");
  const TrainOutput output = part(10);
  EXPECT_EQ(output.summary.resumed_from, 4);
  for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
    EXPECT_TRUE(test::read_text(folder_ / "whole" / test::step_folder(10) / file) ==
                test::read_text(folder_ / "parts" / test::step_folder(10) / file))
        << file;
  const TrainOutput again = part(10);
  EXPECT_EQ(again.summary.reason, StopReason::already_finished);
  EXPECT_FALSE(again.state.has_value());
  EXPECT_HONE_ERROR(train(read_recipe((folder_ / "parts/config.yaml").string()), kQuiet), config, "a program had it");
}

TEST_F(TrainerParts, AStateGoesOnFromWhereItIs) {
  const Overrides blind{{"data.eval.held_out", "0"}};
  train(recipe(blind, "whole"), kQuiet);
  const Pieces pieces(recipe(blind));
  TrainState state = TrainState::create(pieces.parts());
  test::train_by_hand(pieces, state, 4);
  Recipe rest = recipe(blind, "rest");
  rest.model = {};
  TrainerInputs given;
  given.state = std::move(state);
  const TrainOutput output = Trainer(rest, std::move(given), kQuiet).run();
  EXPECT_EQ(output.state->step(), 10);
  for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
    EXPECT_TRUE(test::read_text(folder_ / "whole" / test::step_folder(10) / file) ==
                test::read_text(folder_ / "rest" / test::step_folder(10) / file))
        << file;
}

TEST_F(TrainerParts, TakesAModelOrAState) {
  const Recipe whole = recipe();
  TrainerInputs both = inputs(whole);
  both.state = TrainState::create({.model = both.model});
  EXPECT_HONE_ERROR(Trainer(bare(), std::move(both), kQuiet), usage, "a model and a state");
  TrainerInputs neither = inputs(whole);
  neither.model = nullptr;
  Recipe without = bare();
  EXPECT_HONE_ERROR(Trainer(without, std::move(neither), kQuiet).run(), config, "model.path: missing");
  EXPECT_HONE_ERROR(Trainer(recipe(), inputs(whole), kQuiet).run(), usage, "model: in the recipe and in memory");
  TrainerInputs unnamed = inputs(whole);
  unnamed.tokenizer = nullptr;
  EXPECT_HONE_ERROR(Trainer(bare(), std::move(unnamed), kQuiet).run(), config, "tokenizer: missing");
  TrainerInputs share = inputs(whole);
  share.evals[0].name = "held_out";
  EXPECT_HONE_ERROR(Trainer(bare(), std::move(share), kQuiet).run(), usage, "evals: held_out");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "memory"));
}

TEST_F(TrainerParts, SetsThatShareANameAreRefused) {
  TrainerInputs twice = inputs(recipe());
  twice.evals.push_back(twice.evals[0]);
  EXPECT_HONE_ERROR(Trainer(bare(), std::move(twice), kQuiet).run(), usage, "evals: two sets are called \"lines\"");
  Trainer trainer(recipe(), kQuiet);
  RunData data = trainer.configure_dataloaders();
  data.evals.push_back(data.evals.at(0));
  EXPECT_HONE_ERROR(trainer.replace(data), usage, "evals: two sets are called \"held_out\"");
}

TEST_F(TrainerParts, AnEvaluationThatIsNullIsRefused) {
  Trainer trainer(recipe(), kQuiet);
  RunFunctions functions = trainer.configure_functions();
  functions.evaluations.push_back(nullptr);
  EXPECT_HONE_ERROR(trainer.replace(functions), usage, "evaluations.1: null; expected an evaluation");
}

TEST_F(TrainerParts, PartsAreMadeInTheDocumentedOrder) {
  Trainer trainer(recipe(), kQuiet);
  const RunData data = trainer.configure_dataloaders();
  EXPECT_EQ(data.max_training_steps, 10);
  EXPECT_EQ(data.evals.at(0).name, "held_out");
  EXPECT_FALSE(data.max_evaluation_steps);
  const RunModel model = trainer.configure_model();
  EXPECT_EQ(model.optimizer.type, "adamw");
  EXPECT_EQ(model.scheduler.type, "cosine");
  EXPECT_EQ(model.config.find("model_type")->text(), "llama");
  EXPECT_HONE_ERROR(trainer.replace(data), usage, "the data: what depends on it has been made");
  const RunFunctions functions = trainer.configure_functions();
  EXPECT_HONE_ERROR(trainer.replace(model), usage, "the model: what depends on it has been made");
  EXPECT_EQ(functions.world.size(), 1);
  EXPECT_EQ(functions.checkpoints.every, 4);
  EXPECT_EQ(functions.evaluations.size(), 1U);
  EXPECT_EQ(trainer.run().summary.step, 10);
  EXPECT_HONE_ERROR(trainer.run(), usage, "run: once");
  EXPECT_HONE_ERROR(trainer.replace(functions), usage, "the functions: what depends on it has been made");
}

TEST_F(TrainerParts, HowLongTheyTookIsSaidApartFromTheFirstStep) {
  std::vector<std::string> lines;
  log::set_level(log::Level::info);
  log::set_sink([&](log::Level, std::string_view message) { lines.emplace_back(message); });
  const Summary summary = train(recipe({{"trainer.steps", "1"}}), kQuiet);
  log::set_sink({});
  log::set_level(log::Level::warning);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("prepared in ") && line.find("data ") != std::string::npos &&
           line.find("model ") != std::string::npos;
  }));
  EXPECT_GT(summary.prepare_seconds, 0);
}

// Replaced parts make the run that a recipe with these options makes, and its config.yaml says so.
TEST_F(TrainerParts, ReplacedPartsAreUsed) {
  const Overrides wanted{{"trainer.steps", "8"},
                         {"trainer.max_eval_batches", "1"},
                         {"optimizer", "{type: adamw, learning_rate: 2e-3, schedule: {type: linear}}"},
                         {"trainer.save.every", "3"}};
  train(recipe(wanted, "wanted"), kQuiet);
  Trainer trainer(recipe({}, "replaced"), kQuiet);
  trainer.replace(trainer.configure_dataloaders().replace([](RunData& data) {
    data.max_training_steps = 8, data.max_evaluation_steps = 1;
  }));
  trainer.replace(trainer.configure_model().replace([](RunModel& model) {
    model.optimizer = read_optimizer("{type: adamw, learning_rate: 2e-3}");
    model.scheduler.type = "linear", model.scheduler.options = nullptr;
  }));
  trainer.replace(
      trainer.configure_functions().replace([](RunFunctions& functions) { functions.checkpoints.every = 3; }));
  EXPECT_EQ(trainer.run().summary.steps, 8);
  expect_same("wanted", "replaced", 8);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "replaced" / test::step_folder(3)));
  std::string config = test::read_text(folder_ / "replaced/config.yaml");
  const std::size_t at = config.find("replaced");
  config.replace(at, 8, "wanted");
  EXPECT_EQ(config, test::read_text(folder_ / "wanted/config.yaml"));
}

TEST_F(TrainerParts, ReplacedDataAndModelsAreUsed) {
  const Pieces pieces(recipe());
  Trainer trainer(recipe(), kQuiet);
  RunData data = trainer.configure_dataloaders();
  Dataset::Options options;
  options.max_length = 64;
  data.evals = {{"fresh", make_dataset(records(10, 60), "fresh", *pieces.tokenizer, options)}};
  trainer.replace(data);
  RunModel model = trainer.configure_model();
  std::shared_ptr<Model> other = TrainState::create({.model = pieces.model}).merge(
      TrainState::create({.model = model.model}).split().weights);
  model.model = other;
  trainer.replace(model);
  const TrainOutput output = trainer.run();
  EXPECT_EQ(&output.state->model(), other.get());
  EXPECT_TRUE(output.summary.metrics.contains("eval_loss"));
  const std::string config = test::read_text(folder_ / "run/config.yaml");
  EXPECT_NE(config.find("(in memory)"), std::string::npos);
  EXPECT_EQ(config.find("held_out"), std::string::npos);
}

TEST_F(TrainerParts, AreWrittenAndReadBack) {
  Trainer trainer(recipe(), kQuiet);
  const RunData data = trainer.configure_dataloaders();
  RunData again = RunData::from_json(data.to_json());
  EXPECT_EQ(again.max_training_steps, 10);
  EXPECT_EQ(again.evals.at(0).name, "held_out");
  EXPECT_EQ(again.train, nullptr);
  again.max_training_steps = 6;
  trainer.replace(again);  // what is not in it stays
  const RunModel model = RunModel::from_json(trainer.configure_model().to_json());
  EXPECT_EQ(model.to_json(), trainer.configure_model().to_json());
  trainer.replace(model);
  const RunFunctions functions = RunFunctions::from_json(trainer.configure_functions().to_json());
  EXPECT_EQ(functions.checkpoints.every, 4);
  trainer.replace(functions);
  const Summary summary = trainer.run().summary;
  EXPECT_EQ(summary.step, 6);
  const Summary read = Summary::from_json(summary.to_json());
  EXPECT_EQ(read.to_json(), summary.to_json());
  EXPECT_EQ(read.metrics, summary.metrics);
  EXPECT_EQ(read.reason, StopReason::steps);
  EXPECT_EQ(summary.replace([](Summary& one) { one.step = 3; }).step, 3);
  EXPECT_HONE_ERROR(Summary::from_json("{\"folder\": \"a\", \"step\": 1, \"reason\": \"steps\", \"more\": 1}"), config,
                    "more");
  EXPECT_HONE_ERROR(RunData::from_json("{\"max_training_step\": 1}"), config, "max_training_steps");
  RunData other = data;
  other.train = nullptr, other.train_fingerprint = "another";
  Trainer fresh(recipe({}, "fresh"), kQuiet);
  EXPECT_HONE_ERROR(fresh.replace(other), data, "other training data");
  const auto none = [](RunData& one) { one.max_training_steps = 0; };
  EXPECT_HONE_ERROR(fresh.replace(fresh.configure_dataloaders().replace(none)), config, "max_training_steps: got 0");
}

// A step of one's own, by the library's means.
TrainingStep made_by_hand(const Pieces& pieces) {
  return [&pieces](TrainState& state, const Group& group) {
    double targets = 0, sum = 0;
    for (const Batch& batch : group) targets += pieces.objective->sums(batch).at("targets");
    for (std::size_t i = 0; i < group.size(); ++i) {
      Pass pass(group[i]);
      pass.training = true;
      pass.seed = state.pass_seed(i);
      const Output output = state.model().forward(group[i], pass);
      const LossTerms terms = pieces.objective->loss(state.model(), output, group[i], pass);
      state.backward(terms.terms.at(0).sum / targets);
      sum += terms.terms.at(0).sum.item<double>();
    }
    state.apply_gradients({.max_grad_norm = 1});
    return Metrics{{"loss", sum / targets}};
  };
}

// It is the trainer's, also where weights are trained in some steps only, each with updates of its own number.
TEST_F(TrainerParts, AStepOfOnesOwnIsTakenForTheTrainers) {
  TrainOptions options = kQuiet;
  options.fresh = true;
  for (const char* trainable : {"[]", "[{match: 'layers\\.1\\.', from: 3, until: 8}, embed, lm_head]"}) {
    SCOPED_TRACE(trainable);
    const Overrides overrides{{"model.trainable", trainable}};
    train(recipe(overrides, "own"), options);
    const Pieces pieces(recipe());
    Trainer trainer(recipe(overrides, "mine"), options);
    trainer.replace(trainer.configure_functions().replace(
        [&](RunFunctions& functions) { functions.training_step = made_by_hand(pieces); }));
    trainer.run();
    for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
      EXPECT_TRUE(test::read_text(folder_ / "own" / test::step_folder(10) / file) ==
                  test::read_text(folder_ / "mine" / test::step_folder(10) / file))
          << file;
    const auto updates = [&](const char* run) {
      const auto state =
          nlohmann::json::parse(test::read_text(folder_ / run / test::step_folder(10) / "state/train.json"));
      return state.value("trained_updates", nlohmann::json());
    };
    EXPECT_EQ(updates("own"), updates("mine"));
    const auto own = test::metrics_of(folder_ / "own"), mine = test::metrics_of(folder_ / "mine");
    ASSERT_EQ(own.size(), mine.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      for (const char* name : {"step", "tokens", "grad_norm", "learning_rate", "eval_loss", "trained_parameters"})
        EXPECT_EQ(own[i].contains(name) ? own[i][name] : nlohmann::json(),
                  mine[i].contains(name) ? mine[i][name] : nlohmann::json())
            << name << " in line " << i;
  }
}

// Not for want of tokens: the user hears what was not done.
TEST_F(TrainerParts, AStepThatMakesNoUpdateSaysWhy) {
  std::string said;
  log::set_sink([&](log::Level, std::string_view line) { said += std::string(line) + "\n"; });
  Trainer trainer(recipe({{"trainer.steps", "2"}}), kQuiet);
  trainer.replace(trainer.configure_functions().replace([](RunFunctions& functions) {
    functions.training_step = [](TrainState& state, const Group&) {
      if (state.step() == 1) state.skip_step();
      return Metrics{{"loss", 1}};
    };
  }));
  const TrainOutput output = trainer.run();
  log::set_sink({});
  EXPECT_EQ(output.summary.skipped_steps, 2);
  EXPECT_NE(said.find("step 1: training_step returned without apply_gradients() and skip_step(), no update"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("step 2: training_step has called skip_step(), no update"), std::string::npos) << said;
}

TEST_F(TrainerParts, AStepAroundTheTrainersChangesWhatIsLogged) {
  Trainer trainer(recipe(), kQuiet);
  trainer.replace(trainer.configure_functions().replace([](RunFunctions& functions) {
    functions.training_step = [own = functions.training_step](TrainState& state, const Group& group) {
      Metrics metrics = own(state, group);
      metrics["loss"] = 7, metrics["twice"] = 2.0 * static_cast<double>(state.step());
      return metrics;
    };
  }));
  trainer.run();
  const auto lines = test::metrics_of(folder_ / "run");
  EXPECT_EQ(lines.at(0)["loss"], 7.0);
  EXPECT_EQ(lines.at(1)["twice"], 2.0);
  Trainer silent(recipe({}, "silent"), kQuiet);
  silent.replace(silent.configure_functions().replace([](RunFunctions& functions) {
    functions.training_step = [](TrainState& state, const Group&) {
      state.skip_step();
      return Metrics{};
    };
  }));
  EXPECT_HONE_ERROR(silent.run(), usage, "no \"loss\"");
}

TEST_F(TrainerParts, AnEvaluationTellsOfEachBatch) {
  Trainer trainer(recipe({{"trainer.eval_batch_size", "3"}}), kQuiet);
  std::vector<EvaluationStep> steps;
  const Metrics before = trainer.evaluate([&](const EvaluationStep& step) { steps.push_back(step); });
  const std::int64_t rows = trainer.configure_dataloaders().evals.at(0).data->rows();
  ASSERT_EQ(std::ssize(steps), (rows + 2) / 3);
  EXPECT_EQ(steps.back().mean, before);
  EXPECT_EQ(steps.front().metrics, steps.front().mean);
  EXPECT_EQ(steps.back().rows, rows);
  // Weighted: the total is not the mean of the batches' means.
  double sum = 0, tokens = 0, plain = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(steps[i].set, "held_out");
    sum += steps[i].metrics.at("eval_loss") * steps[i].metrics.at("eval_tokens");
    tokens += steps[i].metrics.at("eval_tokens");
    plain += steps[i].metrics.at("eval_loss") / static_cast<double>(steps.size());
    EXPECT_NEAR(steps[i].mean.at("eval_loss"), sum / tokens, 1e-6);
  }
  EXPECT_NEAR(before.at("eval_loss"), sum / tokens, 1e-6);
  EXPECT_GT(std::abs(before.at("eval_loss") - plain), 1e-7);
  TrainOutput output = trainer.run();
  EXPECT_HONE_ERROR(trainer.evaluate(), usage, "evaluate(state)");
  EXPECT_EQ(trainer.evaluate(*output.state).at("eval_loss"), output.summary.metrics.at("eval_loss"));
  EXPECT_LT(output.summary.metrics.at("eval_loss"), before.at("eval_loss"));
}

}  // namespace
}  // namespace hone
