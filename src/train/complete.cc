// What the start of a run decides.
#include "train/complete.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/env.h"
#include "io/run_folder.h"
#include "ops/float8.h"
#include "train/placement.h"
#include "train/recorded_passes.h"
#include "train/sentence_defaults.h"

namespace hone::training {
namespace {

void check_float8(const TrainerSection& trainer, at::Device device) {
  if (trainer.fp8 == Float8::off) return;
  if (trainer.precision != Precision::bf16)
    throw Error(ErrorKind::config,
                fmt::format("trainer.fp8: products in fp8 are a bf16 run's; got trainer.precision {}, expected bf16",
                            config::Values<Precision>::write(trainer.precision).text()));
  if (ops::float8_on(device) != ops::Float8By::nothing) return;
  if (device.is_cpu())
    throw Error(ErrorKind::config, "trainer.fp8: HONE_KERNELS=reference has no products in fp8");
  throw Error(ErrorKind::config, fmt::format("trainer.fp8: {} has no products in fp8; expected a GPU of compute "
                                             "capability 8.9 or later", device.str()))
      .hint("leave it out: the run is then in bf16");
}

Recipe checked(const Recipe& given) {
  Recipe recipe = read_recipe(write_recipe(given));
  take_sentence_defaults(recipe);
  take_pair_length(recipe);
  TrainerSection& trainer = recipe.trainer;
  const at::Device device = device_of(recipe);
  if (trainer.device == "auto" && !device.is_cpu())
    trainer.device = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  if (device.is_cpu() && trainer.matmul_precision != MatmulPrecision::highest)
    throw Error(ErrorKind::config, "trainer.matmul_precision: high rounds products on a GPU, and this run computes on "
                                   "the CPU").hint("leave it out, or set trainer.device");
  if (device.is_cpu() && trainer.deterministic != Determinism::strict)
    throw Error(ErrorKind::config, "trainer.deterministic: fast is a GPU's, and this run computes on the CPU, where "
                                   "nothing is faster without the same bits")
        .hint("leave it out, or set trainer.device");
  const bool fast = !device.is_cpu() && trainer.precision == Precision::automatic;  // what they are made for
  trainer.precision = fast ? Precision::bf16 : resolve(trainer.precision);
  check_float8(trainer, device);
  const std::string against = trainer.cuda_graphs == Graphs::always ? reason_against_graphs(recipe, device) : "";
  if (!against.empty())
    throw Error(ErrorKind::config, fmt::format("trainer.cuda_graphs: got always, but {}", against))
        .hint("leave it out: then there are graphs where they can be had and help");
  const LossScaleSection usual, &scale = trainer.loss_scale;
  if (trainer.precision != Precision::fp16 && (scale.start != usual.start || scale.grow_every != usual.grow_every))
    throw Error(ErrorKind::config, "trainer.loss_scale: only a run in fp16 scales its loss")
        .hint("leave it out, or set trainer.precision to fp16");
  if (trainer.step_rows && !trainer.batch_size.automatic) {
    trainer.accumulate = *trainer.step_rows / trainer.batch_size;
    trainer.step_rows.reset();
  }
  return recipe;
}

}  // namespace

Recipe completed_for_run(const Recipe& given, Env& env, bool resume) {
  Recipe recipe = checked(given);
  if (recipe.run.name.empty()) return recipe;
  recipe.run.folder = io::numbered_run(env, "runs", recipe.run.name, resume).string();
  recipe.run.name.clear();
  return recipe;
}

Recipe completed_for_preview(const Recipe& given) {
  Recipe recipe = checked(given);
  recipe.data.cache = recipe.data.cache.value_or("none");
  return recipe;
}

Recipe completed_for_bench(const Recipe& given, const std::string& folder, std::int64_t steps) {
  Recipe recipe = checked(given);
  // The length stays the run's own, which schedules and callbacks are made for; so many steps are within it.
  if (recipe.trainer.steps) recipe.trainer.steps = std::max(*recipe.trainer.steps, steps);
  recipe.trainer.batch_warmup.clear();  // what is measured are the steps that most of the run consists of
  recipe.data.length_warmup = {};
  for (TrainableWeights& one : recipe.model.trainable) one.from = 0, one.until.reset();
  recipe.data.eval = {};
  recipe.trainer.eval_every = recipe.trainer.eval_every_epochs = 0;
  recipe.trainer.eval_at_start = false;
  recipe.trainer.save.best_by.clear();
  recipe.trainer.save.keep_best = SaveSection().keep_best;
  recipe.run.folder = folder;
  recipe.run.name.clear();
  return recipe;
}

}  // namespace hone::training
