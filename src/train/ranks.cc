// Checks that compare ranks.
#include "train/ranks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "data/files.h"
#include "dist/place.h"
#include "hone/config.h"
#include "hone/registry.h"
#include "ops/kernels.h"
#include "train/check_context.h"
#include "train/check_tensor.h"
#include "train/context.h"
#include "train/make_objective.h"
#include "train/make_optimizer.h"
#include "train/step_plan.h"
#include "train/trainable.h"

namespace hone::training {
namespace {

// Who takes micro-batches in turn: ranks, or groups of ranks.
struct Takers {
  int count = 1;
  std::string what, text;  // "ranks", "4 ranks"
};
Takers takers(const Recipe& recipe, int ranks) {
  const int context = context_of(recipe, ranks), count = takers_of(recipe, ranks);
  return {count, context == 1 ? "ranks" : "groups",
          context == 1 ? fmt::format("{} ranks", ranks) : fmt::format("{} groups of {} ranks", count, context)};
}

// Of the first steps: each of their sizes.
void check_stages(const TrainerSection& trainer, const Takers& all) {
  for (const Loader::Stage& stage : batch_stages(trainer))
    if (stage.accumulate % all.count != 0)
      throw Error(ErrorKind::config,
                  fmt::format("trainer.batch_warmup: a step's {} micro-batch{} until step {} cannot be shared evenly "
                              "among {}",
                              stage.accumulate, stage.accumulate == 1 ? "" : "es", stage.until, all.text))
          .hint(fmt::format("each accumulate and increment of its stages must be a multiple of {}", all.count));
}

}  // namespace

std::string divisors_of(std::int64_t count) {
  std::vector<std::string> fitting;
  for (std::int64_t ranks = 1; ranks <= count; ++ranks)
    if (count % ranks == 0) fitting.push_back(std::to_string(ranks));
  return join(fitting, ", ");
}

void check_shared_evenly(const Recipe& recipe, int ranks) {
  const TrainerSection& trainer = recipe.trainer;
  const Takers all = takers(recipe, ranks);
  check_stages(trainer, all);
  if (trainer.accumulate % all.count == 0) return;
  const std::int64_t rows = trainer.batch_size * trainer.accumulate;
  std::int64_t more = trainer.accumulate;  // smaller micro-batches of the same step
  while (more <= rows && (more % all.count != 0 || rows % more != 0)) ++more;
  Error error(
      ErrorKind::config,
      fmt::format("trainer.accumulate: a step's {} micro-batch{} cannot be shared evenly among {}; numbers "
                  "of {} that fit: {}",
                  trainer.accumulate, trainer.accumulate == 1 ? "" : "es", all.text, all.what,
                  divisors_of(trainer.accumulate)));
  if (more > rows) throw error;
  throw std::move(error).hint(fmt::format("trainer.batch_size={} and trainer.accumulate={} train on the same {} a step",
                                          rows / more, more, counted(rows, "row")));
}

namespace {

// What decides about rounding, as HONE_KERNELS takes it.
std::string kernels_of(const Recipe& recipe) {
  const std::string_view level = ops::name(ops::level());
  if (recipe.trainer.precision != Precision::fp32) return std::string(level);
  return fmt::format("{},fp32={}", level, ops::name(ops::fp32_products()));
}

// Whose sums run over a whole weight, in an order that the number of threads decides: where each rank has all weights,
// they would part. "": nobody's.
std::string depends_on_threads(const Recipe& recipe) {
  if (!registries().optimizers.make(recipe.optimizer)->is_elementwise()) return "optimizer " + recipe.optimizer.type;
  for (const config::Choice<Callback>& choice : recipe.callbacks)
    if (registries().callbacks.make(choice)->needs_whole_weights()) return "callback " + choice.type;
  return "";
}

void check_same(const Recipe& recipe, const TrainOptions& options) {
  const config::Node own = write_recipe(recipe);
  const std::string on_threads = depends_on_threads(recipe);
  const nlohmann::json told = {{"program", "hone " HONE_VERSION " with LibTorch " TORCH_VERSION},
                               {"recipe", config::to_yaml(own)},
                               {"kernels", kernels_of(recipe)},
                               {"threads", on_threads.empty() ? 0 : at::get_num_threads()},
                               {"resume", options.resume.value_or("")},
                               {"fresh", options.fresh},
                               {"strict", options.strict_resume},
                               {"override", options.override_keys},
                               {"gradients", options.gradients},
                               {"replay", options.replay.value_or(0)}};
  const nlohmann::json first = nlohmann::json::parse(options.world.from_first(told.dump()));
  std::string fact;
  const auto differs = [&](const char* name) { return told[name] != first.value(name, nlohmann::json()); };
  if (differs("program")) {
    fact = fmt::format("{} here, {} there", told["program"].get<std::string>(), first.value("program", "an older one"));
  } else if (differs("recipe")) {
    Problems ignored;
    for (const config::Change& change :
         config::diff(config::parse_yaml(first["recipe"].get<std::string>(), "rank 0", ignored), own))
      fact +=
          fmt::format("{}{}: {} here, {} there", fact.empty() ? "" : "; ", change.path, change.after, change.before);
  } else if (differs("threads")) {
    fact = fmt::format("{} here, {} there, on which the last bits of {} depend; OMP_NUM_THREADS says how many",
                       counted(told["threads"].get<int>(), "thread"), first["threads"].get<int>(), on_threads);
  } else if (differs("kernels")) {
    fact = fmt::format(
        "kernels {} here, {} there, which do not round alike; HONE_KERNELS={} fits where that is the older",
        told["kernels"].get<std::string>(), first["kernels"].get<std::string>(), told["kernels"].get<std::string>());
  } else if (told != first) {
    fact = "--resume, --new, --strict-resume, --override, --gradients or --replay differ";
  }
  if (options.world.any(!fact.empty()))  // so that nobody waits for who has left
    throw Error(ErrorKind::config, fact.empty() ? "the ranks are not alike; another one says how"
                                                : fmt::format("not the recipe of rank 0: {}", fact));
}

void check_pipes(const DataSection& data) {
  for (const DataFile& file : data.train)
    if (data::is_read_once(file.path))
      throw Error(ErrorKind::config,
                  fmt::format("data.train: {}: is a pipe, which one process alone can read", file.path))
          .hint("write it to a file that all ranks can read, or train in one process");
}

void check_saves(const TrainerSection& trainer, int ranks) {
  if (trainer.save.asynchronous && ranks > 1)
    throw Error(ErrorKind::config,
                "trainer.save.asynchronous: not with several ranks, which write a checkpoint together")
        .hint("leave it out: each of them writes its part");
}

// What cannot be done with a share of a weight.
void check_whole_weights(const Recipe& recipe) {
  const std::string option = recipe.parallel.tensor != 1 ? "parallel.tensor" : "parallel.fsdp";
  const std::string without = option + ": 1 gives each rank all weights";
  if (trained_by_step(recipe.model.trainable))
    throw Error(ErrorKind::config,
                fmt::format("model.trainable: weights that are trained in some steps only cannot be shared out ({})",
                            option))
        .hint(fmt::format("leave {} out: then each rank has all weights", option));
  if (recipe.parallel.tensor == 1 && !make_optimizer(recipe)->is_elementwise())  // else check_tensor() says more
    throw Error(ErrorKind::config, option + ": the optimizer needs whole weights, which no rank has")
        .hint("leave it out");
  if (make_objective(recipe)->needs().answers > 0)
    throw Error(ErrorKind::config,
                fmt::format("objective {}: the model answers with whole weights, which no rank has with {}",
                            recipe.objective.type, option))
        .hint(without);
  for (const auto& [role, how] : make_objective(recipe)->needs().following)
    throw Error(ErrorKind::config, fmt::format("objective.{}: the {} follows whole weights, which no rank has with {}",
                                               how.option, role, option))
        .hint(without);
  for (const config::Choice<Callback>& choice : recipe.callbacks)
    if (registries().callbacks.make(choice)->needs_whole_weights())
      throw Error(ErrorKind::config,
                  fmt::format("callback {}: needs whole weights, which no rank has with {}", choice.type, option))
          .hint(fmt::format("leave {} out: then each rank has all weights", option));
}

void check_sharding(const Recipe& recipe, int ranks) {
  const std::int64_t fsdp = recipe.parallel.fsdp;
  if (ranks > 1 && fsdp != -1 && fsdp != 1 && fsdp != ranks && recipe.parallel.tensor == 1)
    throw Error(ErrorKind::config,
                fmt::format("parallel.fsdp: got {}, expected 1, or all ranks: {}, or -1", fsdp, ranks))
        .hint("shares among some of the ranks are not supported");
  if (ranks > 1 && shares_weights(recipe)) check_whole_weights(recipe);
}

void check_gradients(const Recipe& recipe, const TrainOptions& options) {
  if (options.gradients.empty() || !is_sharded(recipe, options.world)) return;
  throw Error(ErrorKind::usage, fmt::format("--gradients: no rank has all of them with {}; leave that out",
                                            recipe.parallel.tensor != 1 ? "parallel.tensor" : "parallel.fsdp"));
}

void warn_of_no_sharing(const Recipe& recipe, int ranks) {
  const std::int64_t fsdp = recipe.parallel.fsdp;
  if (ranks == 1 && fsdp > 1)
    log::warning(
        "parallel.fsdp: {} ranks are to share out the model, but there is one; hone launch -n {} starts so many", fsdp,
        fsdp);
}

void warn_of_no_context(const Recipe& recipe, int ranks) {
  const ParallelSection& how = recipe.parallel;
  for (const auto& [option, number] : {std::pair{"context", how.context}, {"tensor", how.tensor}})
    if (ranks == 1 && number > 1)
      log::warning(
          "parallel.{}: {} ranks are to compute a micro-batch together, but there is one; hone launch -n {} starts "
          "so many",
          option, number, number);
}

}  // namespace

int ranks_here(const World& world) {
  const std::optional<dist::Place> place = world.size() > 1 ? dist::find_place() : std::nullopt;
  return place && place->size == world.size() ? place->local_size : world.size();
}

bool is_sharded(const Recipe& recipe, const World& world) { return world.size() > 1 && shares_weights(recipe); }

void check_ranks(const Recipe& recipe, const TrainOptions& options) {
  const int ranks = options.world.size();
  if (ranks > 1) check_same(recipe, options);
  check_gradients(recipe, options);
  warn_of_no_sharing(recipe, ranks);
  warn_of_no_context(recipe, ranks);
  check_for_ranks(recipe, ranks);
}

void check_for_ranks(const Recipe& recipe, int ranks) {
  check_sharding(recipe, ranks);
  check_tensor(recipe, ranks);
  check_context(recipe, ranks);
  if (ranks == 1) return;
  if (!recipe.trainer.batch_size.automatic) check_shared_evenly(recipe, ranks);
  check_saves(recipe.trainer, ranks);
  if (recipe.trainer.cuda_graphs == Graphs::always)
    throw Error(ErrorKind::config, "trainer.cuda_graphs: got always, but a run of several ranks has none")
        .hint("leave it out");
  check_pipes(recipe.data);
}

std::optional<io::Checkpoint> from_first(const World& world, const std::optional<io::Checkpoint>& own) {
  if (world.size() == 1) return own;
  const nlohmann::json told = own ? nlohmann::json{{"name", own->name}, {"step", own->step}} : nlohmann::json::object();
  const nlohmann::json first = nlohmann::json::parse(world.from_first(told.dump()));
  if (world.is_first() || first.empty()) return own;
  io::Checkpoint chosen;
  chosen.name = first.at("name").get<std::string>();
  chosen.step = first.at("step").get<std::int64_t>();
  return chosen;
}

}  // namespace hone::training
