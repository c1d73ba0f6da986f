// From a recipe, and what is in memory, to a loop that can run.
#include "train/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "hone/registry.h"
#include "hub/weight_names.h"
#include "io/json.h"
#include "io/ownership.h"
#include "io/safetensors_writer.h"
#include "train/batch_size.h"
#include "train/check_context.h"
#include "train/checkpoint.h"
#include "train/complete.h"
#include "train/make_objective.h"
#include "train/placement.h"
#include "train/ranks.h"
#include "train/resume.h"
#include "train/token_rows.h"
#include "train/world_facts.h"

namespace hone::training {
namespace {

// Nothing of the run is written, and it is told by what the run itself was told.
void prepare_replay(Recipe& recipe, const TrainOptions& options) {
  if (options.resume || options.fresh || !options.gradients.empty())
    throw Error(ErrorKind::usage, "--replay: not together with --resume, --new or --gradients");
  if (*options.replay < 1)
    throw Error(ErrorKind::usage, fmt::format("--replay: got step {}, expected at least 1", *options.replay));
  recipe.data.cache = "none";
}

Summary already_finished(const io::RunFolder& run, const io::Checkpoint& checkpoint, const RunState& state) {
  Summary summary;
  summary.folder = run.path().string();
  summary.checkpoint = (run.path() / "checkpoints" / checkpoint.name).string();
  summary.step = summary.steps = state.step;
  summary.tokens = state.tokens;
  summary.resumed_from = checkpoint.step;
  summary.reason = StopReason::already_finished;
  if (state.finished != "steps") summary.stopped_by = state.finished;
  for (const auto& entry : state.log_history)
    for (const auto& [name, value] : entry.items()) summary.metrics[name] = number_from_json(value);
  return summary;
}

// A run that ended by its steps goes on when the recipe asks for more of them.
bool is_finished(const RunState& state, const Recipe& recipe, const std::vector<config::Change>& changes) {
  if (state.finished.empty()) return false;
  if (state.finished != "steps") return changes.empty();
  if (recipe.trainer.steps) return *recipe.trainer.steps <= state.step;
  return std::none_of(changes.begin(), changes.end(), [](const config::Change& change) {
    return change.path == "trainer.epochs" || change.path == "trainer.tokens";
  });
}

// The newest one that a run can go on from, as its step; "": none is there.
std::string whole_step(const io::Checkpoints& checkpoints) {
  std::string step;
  for (const io::Checkpoint& one : checkpoints.scan(io::Verify::sizes))
    if (one.whole() && has_optimizer(checkpoints.open(one))) step = std::to_string(one.step);
  return step;
}

void require_optimizer(const io::Checkpoints& checkpoints, const io::Checkpoint& from) {
  const Folder checkpoint = checkpoints.open(from);
  if (has_optimizer(checkpoint)) return;
  const std::string whole = whole_step(checkpoints);
  throw Error(ErrorKind::checkpoint,
              fmt::format("{}: saved without the optimizer's state (trainer.save.optimizer: false): no run can go "
                          "on from it",
                          checkpoint.path().string()))
      .hint(
          (whole.empty() ? "" : fmt::format("--resume {} goes on from that step, whose checkpoint is whole; ", whole)) +
          "model.path with this folder, in another run.folder, starts a new run from its weights; --new starts "
          "this one again");
}

DataFile in_memory() {
  DataFile file;
  file.path = kInMemory;
  return file;
}

// Metrics and the recipe know a set by its name.
void require_different(const std::vector<EvalSet>& sets) {
  std::set<std::string> names;
  for (const EvalSet& set : sets)
    if (!names.insert(set.name).second)
      throw Error(ErrorKind::usage,
                  fmt::format("evals: two sets are called {}; expected a name for each", hone::quoted(set.name)));
}

// A set that is not the recipe's share of the training data.
void require_named(const EvalSet& set) {
  if (set.name.empty() || !set.data) throw Error(ErrorKind::usage, "evals: expected a name and data for each set");
  if (set.name == "held_out")
    throw Error(ErrorKind::usage, "evals: held_out is what data.eval.held_out takes of the training data")
        .hint("give the set another name");
}

config::Node options_of(const config::Choice<Optimizer>& optimizer) {
  return config::Values<config::Choice<Optimizer>>::write(optimizer);
}

}  // namespace

Recipe with_inputs(Recipe recipe, const TrainerInputs& given, const World& world) {
  const auto one = [](bool memory, bool named, bool says, const std::string& option) {
    if (memory && named) throw Error(ErrorKind::usage, option + ": in the recipe and in memory; expected one of them");
    if (!memory && says)
      throw Error(ErrorKind::config,
                  fmt::format("{}: {}: a program had it, and only that program can go on with it", option, kInMemory))
          .hint("TrainerInputs has it again");
  };
  const auto says = [](const std::vector<DataFile>& files) { return files.size() == 1 && files[0].path == kInMemory; };
  const bool model = given.model != nullptr, told = recipe.model.path == kInMemory;
  one(model, (!recipe.model.path.empty() && !told) || !recipe.model.config.empty(), told, "model");
  one(given.train != nullptr, !recipe.data.train.empty() && !says(recipe.data.train), says(recipe.data.train),
      "data.train");
  one(given.tokenizer != nullptr, !recipe.tokenizer.empty(), false, "tokenizer");
  one(given.collator != nullptr, recipe.data.collator.type != "pad", false, "data.collator");
  for (const auto& [name, files] : recipe.data.eval.files) {
    const bool there = std::any_of(given.evals.begin(), given.evals.end(),
                                   [&, &name = name](const EvalSet& set) { return set.name == name; });
    one(there, !says(files), says(files), "data.eval." + name);
  }
  Problems problems;
  if (model) {
    recipe.model.path = kInMemory;
    problems.require(given.tokenizer || !recipe.tokenizer.empty(), "tokenizer",
                     "missing: a model in memory has none; none is enough for rows of input_ids");
    problems.require(recipe.adapter.type.empty() && !given.model->has_adapters(), "adapter",
                     "not with a model in memory: its files have to name a folder of the model below it");
    problems.require(world.size() == 1 || recipe.parallel.fsdp == 1, "parallel.fsdp",
                     "not with a model in memory, which every rank has whole");
    problems.require(world.size() == 1 || recipe.parallel.tensor == 1, "parallel.tensor",
                     "not with a model in memory, which every rank has whole");
    problems.require(!recipe.model.load.optimizer, "model.load.optimizer",
                     "not with a model in memory; a state has its optimizer");
    hub::check_weight_names(*given.model);
    given.model->each_weight([&](const std::string& name, const Weight& weight) {
      if (!weight.filled()) problems.add("model", name + ": not filled; load_weights() or init_weights() come first");
    });
  }
  problems.raise();
  if (given.train) recipe.data.train = {in_memory()};
  require_different(given.evals);
  for (const EvalSet& set : given.evals) {
    require_named(set);
    recipe.data.eval.files[set.name] = {in_memory()};
  }
  return recipe;
}

Preparation::Preparation(Recipe recipe, TrainerInputs given, TrainOptions options, Purpose purpose)
    : recipe_(std::move(recipe)),
      given_(std::move(given)),
      options_(std::move(options)),
      world_(options_.world),
      purpose_(purpose) {
  if (given_.model && given_.state) throw Error(ErrorKind::usage, "a model and a state; expected one of them");
  if (given_.state) adopt_state();
}

// The recipe says what the state is trained by.
void Preparation::adopt_state() {
  const TrainState& state = *given_.state;
  given_.model = state.shared_model();
  if (!state.optimizer().type.empty()) recipe_.optimizer = state.optimizer();
  if (!given_.tokenizer && recipe_.tokenizer.empty()) given_.tokenizer = state.frame().tokenizer;
  if (!state.has_optimizer_state()) return;
  recipe_.trainer.ema = state.frame().ema;
  if (recipe_.trainer.precision == Precision::automatic) recipe_.trainer.precision = state.precision();
  if (recipe_.trainer.precision != state.precision())
    throw Error(ErrorKind::config, "trainer.precision: not the one that the state's optimizer has been made in")
        .hint("std::move(state).replace({.precision = ...}) changes it");
}

// Rank 0 has the run folder; the others look into it. A new run's folder is made, and an old one moved away, only when
// everything that the recipe names is in order.
void Preparation::open(bool strict) {
  Env& env = options_.env ? *options_.env : Env::process();
  recipe_ = completed_for_run(with_inputs(recipe_, given_, world_), env, options_.resume.has_value());
  recipe_.run.folder = world_.from_first(recipe_.run.folder);
  check_ranks(recipe_, options_);
  settle_on_device(recipe_, world_);
  const std::filesystem::path folder = recipe_.run.folder;
  check_overrides(recipe_, options_);
  if (options_.fresh && options_.resume) throw Error(ErrorKind::usage, "--new and --resume: not together");
  if (options_.replay) prepare_replay(recipe_, options_);
  if (world_.is_first()) io::require_run_folder(env, folder, {options_.fresh});
  if (world_.is_first() && purpose_ == Purpose::run) io::require_writable(folder, ErrorKind::checkpoint);
  if (!options_.gradients.empty()) io::require_replaceable(options_.gradients, ErrorKind::checkpoint, kGradients);
  const bool there = !world_.from_first(world_.is_first() && io::has_run(env, folder) ? "there" : "").empty();
  if ((options_.resume || options_.replay) && !there)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: no run to {}", folder.string(), options_.replay ? "replay" : "resume"));
  if (options_.fresh || !there) inputs_ = load_together(""), fill_batch_size();
  world_.wait();  // nobody reads any more in a folder that is moved away
  run_ = world_.first_then_others([&] { return open_folder(env, there); });
  std::optional<io::Checkpoint> chosen;
  if (world_.is_first())
    chosen = options_.replay ? checkpoint_before(*run_, *options_.replay) : choose_checkpoint(*run_, options_);
  from_ = from_first(world_, chosen);
  if (!from_ && run_->existed()) log::info("{}: no checkpoint yet, the run starts at step 0", run_->path().string());
  if (from_) take_batch_size(recipe_, saved_recipe(), run_->path().string() + "/config.yaml");
  if (from_ && world_.size() > 1) check_shared_evenly(recipe_, world_.size());
  if (strict) check();
  if (purpose_ == Purpose::trial) recipe_.callbacks.clear();
}

std::unique_ptr<io::RunFolder> Preparation::open_folder(Env& env, bool there) {
  const std::filesystem::path folder = recipe_.run.folder;
  if (purpose_ == Purpose::run)
    return std::make_unique<io::RunFolder>(
        env, folder,
        io::RunFolderOptions{options_.fresh, ErrorKind::checkpoint, !world_.is_first() || options_.replay});
  std::error_code ignored;
  io::RunFolderOptions how;
  how.watch = there && !options_.fresh && std::filesystem::is_directory(folder / "checkpoints", ignored);
  if (how.watch) return std::make_unique<io::RunFolder>(env, folder, how);
  scratch_.emplace();
  return std::make_unique<io::RunFolder>(env, *scratch_ / "run", how);
}

std::string Preparation::saved_recipe() const {
  return run_->checkpoints().open(*from_).open_folder("state").read_file("config.yaml");
}

// Whether the run may go on from its checkpoint, and has anything to do.
void Preparation::check() {
  checked_ = true;
  if (!from_) return;
  changes_ = check_recipe(saved_recipe(), recipe_, options_, run_->path().string());
  const Folder checkpoint = run_->checkpoints().open(*from_);
  const RunState state = load_state(checkpoint);
  if (!options_.resume && !options_.replay && is_finished(state, recipe_, changes_)) {
    if (!options_.gradients.empty())
      throw Error(ErrorKind::usage, fmt::format("--gradients {}: the run is finished at step {}, so no step gives any",
                                                options_.gradients, state.step));
    finished_ = already_finished(*run_, *from_, state);
    if (is_over()) return;
  }
  require_optimizer(run_->checkpoints(), *from_);
}

// What rank 0 tokenises, the others find where it is kept.
Inputs Preparation::load_together(const std::filesystem::path& checkpoint) {
  const auto load = [&] { return load_inputs(recipe_, checkpoint, given_); };
  world_.at("reading data");
  Inputs inputs = cache_folder(recipe_).empty() ? load() : world_.first_then_others(load);
  if (world_.size() > 1) check_alike(world_, facts_of(inputs));
  check_context_models(recipe_, world_.size(), {*inputs.model, inputs.adapter, inputs.adapter_report.adapted});
  return inputs;
}

void Preparation::fill_batch_size() {
  if (!recipe_.trainer.batch_size.automatic) return;
  batch_reason_ = choose_batch_size(recipe_, *inputs_, world_);
  if (purpose_ == Purpose::run) log::info("trainer.batch_size: {}", batch_reason_);
}

void Preparation::load_data(bool strict) {
  if (run_) return;
  const Stopwatch watch;
  open(strict);
  if (is_over()) return;
  if (!inputs_ || from_) inputs_ = load_together(from_ ? run_->checkpoints().folder().path() / from_->name : "");
  fill_batch_size();
  data_seconds_ = watch.seconds();
}

static void warn_of_equal_rows(const Inputs& inputs) {
  const Dataset* data = inputs.train->as_dataset();
  if (!data || !inputs.has_tokenizer()) return;
  for (const std::string& warning :
       tokens_with_equal_rows(*inputs.model, *inputs.tokenizer, *data, inputs.adapter.has_value()))
    log::warning("{}", warning);
}

void Preparation::load_model() {
  load_data(/*strict=*/false);
  if (has_model_ || is_over()) return;
  const Stopwatch watch;
  has_model_ = true;
  if (given_.state && from_) given_.state->frame().drop();  // the checkpoint's weights come in place of its own
  inputs_->filled = given_.state && !from_;
  make_weights(*inputs_, recipe_, world_, from_.has_value());
  if (purpose_ == Purpose::run && world_.is_first()) warn_of_equal_rows(*inputs_);
  model_seconds_ = watch.seconds();
}

void Preparation::make_loop() {
  load_model();
  if (!checked_) check();
  if (loop_ || is_over()) return;
  const Stopwatch watch;
  loop_ = std::make_unique<Trainer>(
      TrainerParts{recipe_, options_, std::move(*inputs_), *run_, from_, changes_, std::move(given_.state)});
  loop_seconds_ = watch.seconds();
}

void Preparation::say_seconds() const {
  log::info("prepared in {}: data {}, model {}, state and functions {}", human_duration(seconds()),
            human_duration(data_seconds_), human_duration(model_seconds_), human_duration(loop_seconds_));
}

RunData Preparation::run_data() const {
  RunData part;
  part.train = inputs_->train;
  part.evals = inputs_->evals;
  part.max_training_steps = steps_of(recipe_, *inputs_);
  part.max_evaluation_steps = recipe_.trainer.max_eval_batches;
  return part;
}

RunModel Preparation::run_model() const {
  RunModel part;
  part.model = inputs_->model;
  part.optimizer = recipe_.optimizer;
  part.config = part.model->hf_config();
  const config::Node options = options_of(recipe_.optimizer);
  if (const config::Node* schedule = options.find("schedule"); schedule && !schedule->is_null()) {
    Problems problems;
    config::Values<config::Choice<Schedule>>::read(*schedule, part.scheduler, {problems, "scheduler"});
    problems.raise();
  }
  return part;
}

// What was changed may contradict the rest.
void Preparation::validate() {
  recipe_ = read_recipe(write_recipe(recipe_));
  if (const Dataset* rows = inputs_->train->as_dataset())
    Loader::check(*rows, {recipe_.trainer.batch_size, recipe_.trainer.accumulate});
  Problems problems;
  const Problems::Scope below(problems, "optimizer.");
  registries().optimizers.make(recipe_.optimizer)->check(steps_of(recipe_, *inputs_), problems);
  problems.raise();
}

void Preparation::apply(const RunData& part) {
  const RunData own = run_data();
  if (part.max_training_steps < 1)
    throw Error(ErrorKind::config,
                fmt::format("max_training_steps: got {}, expected at least 1", part.max_training_steps));
  if (!part.train && !part.train_fingerprint.empty() && part.train_fingerprint != own.train->fingerprint())
    throw Error(ErrorKind::data, "the part speaks of other training data than the run has");
  TrainerSection& trainer = recipe_.trainer;
  if (part.train && part.train != own.train) inputs_->train = part.train, recipe_.data.train = {in_memory()};
  require_different(part.evals);
  std::vector<EvalSet> sets;
  for (EvalSet set : part.evals) {
    const auto known =
        std::find_if(own.evals.begin(), own.evals.end(), [&](const EvalSet& one) { return one.name == set.name; });
    if (!set.data && known == own.evals.end())
      throw Error(ErrorKind::data, fmt::format("evals: {}: no data, and the run has no such set", set.name));
    if (!set.data) set.data = known->data;
    if (known == own.evals.end() || known->data != set.data) {
      require_named(set);
      recipe_.data.eval.files[set.name] = {in_memory()};
    }
    sets.push_back(std::move(set));
  }
  const auto stays = [&](const std::string& name) {
    return std::any_of(sets.begin(), sets.end(), [&](const EvalSet& set) { return set.name == name; });
  };
  std::erase_if(recipe_.data.eval.files, [&](const auto& entry) { return !stays(entry.first); });
  if (!stays("held_out")) recipe_.data.eval.held_out.reset();
  inputs_->evals = std::move(sets);
  if (part.max_training_steps != steps_of(recipe_, *inputs_)) {
    trainer.steps = part.max_training_steps;
    trainer.epochs.reset();
    trainer.tokens.reset();
  }
  trainer.max_eval_batches = part.max_evaluation_steps;
  validate();
}

void Preparation::apply(const RunModel& part) {
  const RunModel own = run_model();
  const bool other = part.model && part.model != own.model;
  if (other) {
    TrainerInputs given;
    given.model = part.model;
    given.tokenizer = inputs_->tokenizer;
    Recipe without = recipe_;
    without.model = {};
    without.tokenizer.clear();
    without.data.eval.files.clear();
    without.data.train.clear();
    with_inputs(without, given, world_);  // what it lacks
    make_objective(recipe_)->check(*part.model);
    if (part.model->vocab_size() < own.model->vocab_size())
      throw Error(ErrorKind::config,
                  fmt::format("model: got a vocabulary of {}, expected at least the {} that the data were read for",
                              part.model->vocab_size(), own.model->vocab_size()));
    recipe_.model = {};
    recipe_.model.path = kInMemory;
    if (recipe_.tokenizer.empty()) given_.tokenizer = inputs_->tokenizer;
    inputs_->model = given_.model = part.model;
    inputs_->in_memory = true;
    inputs_->source.clear();
    given_.state.reset();
    if (from_) {
      inputs_->source = run_->checkpoints().folder().path() / from_->name;
      inputs_->filled = false;
      make_weights(*inputs_, recipe_, world_, true);
    }
  } else if (!part.config.is_null() && config::to_json(part.config) != config::to_json(own.config)) {
    throw Error(ErrorKind::config, "config: the part speaks of another model than the run has");
  }
  config::Node options = options_of(part.optimizer);
  if (!part.scheduler.type.empty())
    options.at_or_add("schedule") = config::Values<config::Choice<Schedule>>::write(part.scheduler);
  recipe_.optimizer = read_optimizer(config::to_yaml(options));
  validate();
}

}  // namespace hone::training
