// What a run will be.
#include "train/plan.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/env.h"
#include "base/log.h"
#include "base/strings.h"
#include "nn/flops.h"
#include "train/batch_size.h"
#include "train/bench.h"
#include "train/ceilings.h"
#include "train/check_context.h"
#include "train/check_tensor.h"
#include "train/complete.h"
#include "train/drawn_texts.h"
#include "train/inputs.h"
#include "train/layers.h"
#include "train/make_objective.h"
#include "train/placement.h"
#include "train/ranks.h"
#include "train/resources.h"
#include "train/saver.h"
#include "train/step_plan.h"
#include "train/stream_records.h"
#include "train/trainable.h"

namespace hone::training {
namespace {

constexpr double kDiskRate = 0.7e9;          // bytes a second of a checkpoint, with its hashes
constexpr double kShareOfCeiling = 0.6;      // of the best product that a step reaches where none is measured
constexpr double kMarginToMeasure = 0.95;    // of the memory there is

double number(std::int64_t count) { return static_cast<double>(count); }

struct Averages {
  double row = 0, document = 1, supervised = 1;  // tokens, tokens, share of tokens
};

// Of streams little is known: rows are full, of as many documents as their records have. Answers are as long as may be.
Averages averages_of(const Recipe& recipe, const Inputs& inputs) {
  const Dataset* data = inputs.train->as_dataset();
  const double length = number(recipe.data.max_length);
  const Needs needs = make_objective(recipe)->needs();
  const bool known = data && data->rows() > 0;
  if (needs.answers > 0) {
    const double prompt = known ? number(data->report().tokens) / number(data->rows()) : length,
                 answer = number(needs.answer_tokens);
    return {number(needs.iterations * needs.answers) * (prompt + answer), prompt + answer, answer / (prompt + answer)};
  }
  if (!known && needs.records == RecordKind::seq2seq) {
    const double target = number(needs.max_target_length.value_or(recipe.data.max_length));
    return {length + target, (length + target) / 2, target / (length + target)};
  }
  if (needs.draws_texts) {
    const double documents = known ? number(data->report().pieces) / number(data->rows())
                                   : stream_records(needs, *inputs.train, inputs.evals).mean;
    const double each = known ? number(data->report().tokens) / number(data->report().pieces) : length;
    const DrawnTokens tokens = drawn_tokens(*needs.draws_texts, recipe, documents - 1, each);
    return {tokens.row, std::max(1.0, tokens.pair), 1};
  }
  if (!known) return {data ? length : stream_records(needs, *inputs.train, inputs.evals).mean * length, length, 1};
  const DataReport& report = data->report();
  const double tokens = number(report.tokens), documents = number(std::max<std::int64_t>(1, report.records));
  return {tokens / number(data->rows()), std::max(1.0, std::min(length, tokens / documents)),
          std::clamp(number(report.supervised) / std::max(1.0, tokens), 0.0, 1.0)};
}

std::int64_t count_evaluations(const TrainerSection& trainer, const RunPlan& plan) {
  std::int64_t count = 1 + (trainer.eval_at_start ? 1 : 0);
  const std::int64_t last = std::max<std::int64_t>(0, plan.steps - 1);
  const std::int64_t before = std::clamp<std::int64_t>(trainer.eval_delay - 1, 0, last);
  if (trainer.eval_every > 0) count += (plan.steps - 1) / trainer.eval_every - before / trainer.eval_every;
  if (trainer.eval_every_epochs > 0 && plan.epochs) {
    const double all = *plan.epochs / number(trainer.eval_every_epochs);
    count += static_cast<std::int64_t>(all) - static_cast<std::int64_t>(all * number(before) / number(plan.steps));
  }
  return count;
}

// What a checkpoint holds besides its model's files and the optimizer's state, at most: the recipe, the run's counts,
// the log, and what a file system gives each file that does not fill its last block. Callbacks' states are not known.
std::uint64_t beside_tensors(const RunPlan& plan, std::size_t sets) {
  constexpr std::uint64_t kFiles = 24, kBlock = 4096, kCounts = 16384, kLine = 1024, kLongLine = 4096;
  const TrainerSection& trainer = plan.recipe.trainer;
  const auto count = [](std::int64_t number) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number)); };
  const bool long_lines = make_objective(plan.recipe)->needs().answers > 0 || !plan.recipe.callbacks.empty() ||
                          plan.recipe.objective.type != "causal_lm";
  const std::uint64_t line = long_lines ? kLongLine : kLine;
  const std::uint64_t lines = count(plan.steps / std::max<std::int64_t>(1, trainer.log_every)) + 2;
  return kFiles * kBlock + kCounts + recipe_file(plan.recipe).size() + lines * line +
         count(plan.evaluations) * (1 + sets) * line;
}

void plan_disk(RunPlan& plan, std::size_t sets) {
  const SaveSection& save = plan.recipe.trainer.save;
  plan.saves = 1 + (save.every > 0 ? (plan.steps - 1) / save.every : 0) +
               (save.after_evaluation ? std::max<std::int64_t>(0, plan.evaluations - 1) : 0);
  plan.checkpoints = save.keep > 0 ? std::min(plan.saves, most_at_once(save, plan.evaluations > 0)) : plan.saves;
  plan.memory.checkpoint += beside_tensors(plan, sets);
  plan.disk = plan.memory.checkpoint * static_cast<std::uint64_t>(plan.checkpoints);
  std::filesystem::path place = std::filesystem::absolute(
      plan.recipe.run.folder.empty() ? std::filesystem::path("runs") : std::filesystem::path(plan.recipe.run.folder));
  std::error_code ignored;
  while (place.has_relative_path() && !std::filesystem::exists(place, ignored)) place = place.parent_path();
  plan.disk_free = Env::process().free_bytes(place);
}

void plan_work(RunPlan& plan, const Inputs& inputs, const Averages& average) {
  const TrainerSection& trainer = plan.recipe.trainer;
  const Dataset* data = inputs.train->as_dataset();
  plan.steps = steps_of(plan.recipe, inputs);
  const Needs needs = make_objective(plan.recipe)->needs();
  if (!data) plan.stream_records = told(stream_records(needs, *inputs.train, inputs.evals));
  plan.rows_per_step = trainer.rows_per_step();
  plan.rows = step_sizes(trainer).rows_before(plan.steps);
  if (data) {
    plan.data_rows = data->epoch_rows();
    plan.epochs = number(plan.rows) / number(data->epoch_rows());
  }
  plan.tokens_per_step = average.row * number(plan.rows_per_step);
  plan.tokens = average.row * number(plan.rows);
}

struct Work {
  double training = 0, evaluation = 0;  // of a token, what is computed again with it
};

Work work_of(RunPlan& plan, const Model& model, const Averages& average) {
  const nn::TokenFlops flops =
      nn::flops_per_token(model, {.document_length = average.document, .supervised = average.supervised});
  plan.flops_per_token = flops.training();
  plan.flops_per_step = plan.flops_per_token * plan.tokens_per_step;
  plan.flops = plan.flops_per_token * plan.tokens;
  const double again = plan.recipe.trainer.checkpoint_blocks ? flops.forward : 0;
  return {flops.training() + again, flops.forward};
}

double evaluated_tokens(const RunPlan& plan, const Inputs& inputs) {
  double tokens = 0;
  const TrainerSection& trainer = plan.recipe.trainer;
  const Needs needs = make_objective(plan.recipe)->needs();
  for (const EvalSet& set : inputs.evals) {
    const double rows = number(set.data->rows());
    const double most = trainer.max_eval_batches ? number(*trainer.max_eval_batches *
                                                          trainer.eval_batch_size.value_or(trainer.batch_size))
                                                 : rows;
    const double all = number(set.data->report().tokens) + rows * number(needs.answer_tokens);
    const double each = number(std::max<std::int64_t>(1, needs.evaluation_answers));
    if (rows > 0) tokens += each * all * std::min(1.0, most / rows);
  }
  return tokens;
}

// A step of one micro-batch, and what of it is the update.
void measure(RunPlan& plan, const Inputs& inputs, const RunPlanOptions& options, double tokens) {
  Recipe one = plan.recipe;
  const Needs needs = make_objective(one)->needs();
  one.trainer.accumulate = needs.updates;
  one.parallel = {};  // one process measures
  if (needs.answers > 0)
    log::info("timing {}, with answers of at most {} as in the run; --no-measure only counts",
              counted(options.steps + 1, "step"), counted(needs.answer_tokens, "token"));
  const BenchReport report = bench(one, {.warmup = 1, .steps = options.steps, .train = inputs.train});
  const auto optimizer = static_cast<std::size_t>(sections::Section::optimizer);
  plan.time.measured = true;
  plan.time.start = report.load_seconds;
  plan.time.update = report.totals.seconds[optimizer] / number(report.steps);
  const double passes = std::max(0.0, report.step_seconds - plan.time.update);
  plan.time.micro_batch = passes * tokens / std::max(1.0, number(report.tokens_per_step));
}

// Texts that are compared across micro-batches: all of a step's are embedded without a graph first.
bool embeds_twice(const RunPlan& plan) {
  const Needs needs = make_objective(plan.recipe)->needs();
  return needs.records == RecordKind::embedding && needs.compares_records && needs.labels.empty() &&
         plan.recipe.trainer.accumulate > 1;
}

void plan_time(RunPlan& plan, const Inputs& inputs, const Work& work, const RunPlanOptions& options) {
  TimePlan& time = plan.time;
  const TrainerSection& trainer = plan.recipe.trainer;
  const double tokens = plan.tokens_per_step / number(trainer.accumulate);
  const auto room = static_cast<std::uint64_t>(kMarginToMeasure * number(static_cast<std::int64_t>(plan.available)));
  if (!options.measure) return;
  if (plan.memory.peak < room && inputs.train->as_dataset()) {
    measure(plan, inputs, options, tokens);
  } else {
    const double rate = kShareOfCeiling * product_ceiling(trainer.precision, device_of(plan.recipe));
    time.micro_batch = work.training * tokens / rate;
    time.update = 0;
  }
  const double more = embeds_twice(plan) ? 1 + work.evaluation / std::max(1.0, work.training) : 1;
  const auto passes = [&](double rows) {
    return more * time.micro_batch * rows / number(trainer.batch_size.rows) / number(plan.ranks);
  };
  time.step = passes(number(plan.rows_per_step)) + time.update;
  time.steps = passes(number(plan.rows)) + time.update * number(plan.steps);
  const double token = time.micro_batch / std::max(1.0, tokens) * work.evaluation / std::max(1.0, work.training);
  time.evaluations = token * evaluated_tokens(plan, inputs) * number(plan.evaluations) / number(plan.ranks);
  time.saves = number(static_cast<std::int64_t>(plan.memory.checkpoint)) / kDiskRate * number(plan.saves);
  time.total = time.start + time.steps + time.evaluations + time.saves;
}

}  // namespace

RunPlan plan_run(const Recipe& given, const RunPlanOptions& options) {
  RunPlan plan;
  plan.recipe = completed_for_preview(given);
  plan.ranks = options.ranks;
  check_for_ranks(plan.recipe, options.ranks);
  const Inputs inputs = load_inputs(plan.recipe, "");
  check_context_models(plan.recipe, options.ranks, {*inputs.model, inputs.adapter, inputs.adapter_report.adapted});
  plan.batch_size_reason = choose_batch_size(plan.recipe, inputs, World(), options.ranks);
  check_shared_evenly(plan.recipe, options.ranks);
  const at::Device device = device_of(plan.recipe);
  plan.available = memory_there(device);
  plan.sharing_memory = ranks_that_share_memory(device, options.ranks);
  plan.shared_out = options.ranks > 1 && shares_weights(plan.recipe);
  plan.parameters = inputs.model->parameter_count();
  plan.trained = trained_parameters(*inputs.model) + inputs.adapter_report.parameters;
  plan.memory = plan_memory(plan.recipe, inputs, {.ranks = options.ranks});
  const Averages average = averages_of(plan.recipe, inputs);
  plan_work(plan, inputs, average);
  plan.evaluations = inputs.evals.empty() ? 0 : count_evaluations(plan.recipe.trainer, plan);
  plan_disk(plan, inputs.evals.size());
  const std::unique_ptr<Model> model = meta_model(inputs, plan.recipe.trainer.precision);
  plan_time(plan, inputs, work_of(plan, *model, average), options);
  return plan;
}

}  // namespace hone::training
