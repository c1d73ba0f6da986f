// Timed training steps.
#include "train/bench.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/temporary.h"
#include "tensor/device.h"
#include "train/batch_size.h"
#include "train/check_context.h"
#include "train/complete.h"
#include "train/placement.h"
#include "train/ranks.h"
#include "train/trainer.h"
#include "train/world_facts.h"

namespace hone::training {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

BenchReport bench(Recipe recipe, const BenchOptions& options) {
  const TemporaryFolder scratch;
  const Stopwatch watch;
  TrainOptions train;
  train.world = options.world;
  const at::Device device = device_of(recipe);
  const bool host = device.is_cpu();
  const std::int64_t measured = host ? options.steps : 2 * options.steps;  // see below
  recipe = completed_for_bench(recipe, scratch / "run", options.warmup + measured);
  Recipe shared = recipe;
  shared.run.folder = "bench";  // each rank has one of its own
  check_ranks(shared, train);
  settle_on_device(recipe, options.world);
  if (options.train) recipe.data.deduplicate = false;  // that has been done
  Inputs inputs = load_inputs(recipe, "", {.train = options.train});
  check_alike(options.world, facts_of(inputs));
  check_context_models(recipe, options.world.size(), {*inputs.model, inputs.adapter, inputs.adapter_report.adapted});
  choose_batch_size(recipe, inputs, options.world);
  io::RunFolder run(Env::process(), recipe.run.folder, {false, ErrorKind::checkpoint});
  BenchReport report;
  report.precision = recipe.trainer.precision;
  report.device = device.str();
  report.parameters = inputs.model->parameter_count();
  report.ranks = options.world.size();
  Trainer trainer({std::move(recipe), train, std::move(inputs), run, {}, {}});
  trainer.begin();
  report.load_seconds = watch.seconds();
  std::vector<double> seconds;
  std::int64_t waits = 0, micro_batches = 0;
  Traffic before;
  if (!host) devices::reset_peak(device);
  for (std::int64_t step = 0; step < options.warmup + options.steps; ++step) {
    if (step == options.warmup) before = options.world.traffic();
    if (step == options.warmup && host) sections::start();
    const Stopwatch one;
    const StepReport done = trainer.train_step();
    devices::synchronize(device);
    if (step == 0) report.first_step_seconds = watch.seconds();
    if (step < options.warmup) continue;
    seconds.push_back(one.seconds());
    waits += done.host_waits, micro_batches += done.micro_batches;
    report.tokens_per_step += done.tokens, report.supervised_per_step += done.supervised;
  }
  const Traffic after = options.world.traffic();
  if (!host) {  // once more, as a device that is waited for after each section is slower
    sections::start([&] { devices::synchronize(device); });
    for (std::int64_t step = 0; step < options.steps; ++step) trainer.train_step();
  }
  report.totals = sections::stop();
  report.steps = options.steps;
  const auto steps = static_cast<double>(options.steps);
  report.bytes_sent_per_step = static_cast<double>(after.bytes - before.bytes) / steps;
  if (host) report.exchange_seconds_per_step = (after.seconds - before.seconds) / steps;
  report.exposed_seconds_per_step = (after.waited - before.waited) / steps;
  report.tokens_per_step /= options.steps, report.supervised_per_step /= options.steps;
  if (micro_batches > 0)
    report.host_waits_per_micro_batch = static_cast<double>(waits) / static_cast<double>(micro_batches);
  report.step_seconds = median(seconds);
  report.best_step_seconds = *std::min_element(seconds.begin(), seconds.end());
  report.peak_memory_bytes = static_cast<double>(highest_memory(device));
  return report;
}

}  // namespace hone::training
