// The test of a run.
#include "train/test.h"

#include "base/signals.h"
#include "train/complete.h"
#include "train/evaluate.h"
#include "train/inputs.h"
#include "train/stepper.h"

namespace hone::training {
namespace {

// Of the recipe what an evaluation needs: nothing that it trains on is read.
Recipe for_test(const Recipe& given) {
  Recipe recipe = given;
  recipe.data.eval = {};
  recipe.data.eval.files = recipe.data.test.files;
  recipe.data.train = recipe.data.test.files.begin()->second;
  recipe.data.test = {};
  recipe.data.stream_window = DataSection().stream_window;  // a test set is no stream
  recipe.data.cache = "none";
  TrainerSection& trainer = recipe.trainer;
  trainer.eval_every = trainer.eval_every_epochs = 0;
  trainer.eval_sets.clear();
  trainer.max_eval_batches.reset();
  trainer.eval_batch_size = trainer.eval_batch_size.value_or(trainer.batch_size);
  trainer.batch_size = trainer.accumulate = 1;
  trainer.batch_warmup.clear();
  recipe.data.length_warmup = {};
  for (TrainableWeights& one : recipe.model.trainable) one.from = 0, one.until.reset();
  trainer.step_rows.reset();
  trainer.steps = trainer.steps.value_or(std::int64_t{1} << 30);
  trainer.epochs.reset();
  trainer.tokens.reset();
  trainer.save = {};  // nothing is saved, by whatever metric
  trainer.ema = {};  // the checkpoint's weights are the average
  recipe.callbacks.clear();
  recipe.optimizer = {"sgd", nullptr};  // no moments: nothing is updated
  recipe.optimizer = read_recipe(write_recipe(recipe)).optimizer;
  return recipe;
}

}  // namespace

Metrics test(const Recipe& given, const std::filesystem::path& checkpoint) {
  if (given.data.test.files.empty())
    throw Error(ErrorKind::config, "data.test: the run's recipe names no test set").hint("--data name=file names one");
  const Recipe recipe = completed_for_preview(for_test(given));
  Inputs inputs = load_inputs(recipe, checkpoint);
  fill_weights(inputs, recipe, /*resumed=*/true);
  Frame frame;
  frame.model = inputs.model;
  frame.chosen = recipe.optimizer;
  frame.tokenizer = inputs.tokenizer;
  frame.precision = recipe.trainer.precision;
  frame.init();
  Stepper stepper(recipe, frame, loader_options(recipe, inputs), inputs.train);
  EvaluateOptions options = evaluate_options(recipe, inputs);
  DocumentNumbers::Data data{{}, options, ""};
  for (const EvalSet& set : inputs.evals) data.sets.push_back(set.data.get());
  stepper.begin(data);
  options.before = [](std::int64_t, std::int64_t) {
    StopSignal::check("testing");
    return true;
  };
  options.complete = [&](Batch* batch) { stepper.complete(batch, *inputs.model); };
  const Evaluations evaluations = make_evaluations(stepper.objective(), recipe);
  const auto found = evaluate_sets(*inputs.model, evaluations, inputs.evals, options);
  Metrics named;
  for (const auto& [name, value] : *found) named["test_" + name.substr(std::string_view("eval_").size())] = value;
  return named;
}

}  // namespace hone::training
