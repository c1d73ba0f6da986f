// The training loop.
#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/spans.h"
#include "base/strings.h"
#include "config/duration.h"
#include "train/context.h"
#include "train/layers.h"
#include "train/make_objective.h"
#include "train/model_source.h"
#include "train/not_finite.h"
#include "train/preflight.h"
#include "train/ranks.h"
#include "train/restore.h"
#include "train/resume.h"
#include "train/sentence_defaults.h"
#include "train/tell_step.h"
#include "train/world_facts.h"

namespace hone::training {
namespace {

constexpr const char* kEndOfData = "end of data";

// What an adapter's file says of its base: where it is from anywhere, of a run its checkpoint, or its name in the
// Hugging Face cache.
std::string base_name(const ModelSection& model) {
  std::error_code ignored;
  if (!std::filesystem::exists(model.path, ignored)) return model.path;
  return std::filesystem::absolute(model_source(model)).lexically_normal().string();
}

TrainState state_of(TrainerParts& parts) {
  if (parts.state) return std::move(*parts.state);
  auto frame = std::make_unique<Frame>();
  frame->model = parts.inputs.model;
  return TrainState(std::move(frame));
}

bool same_optimizer(const config::Choice<Optimizer>& a, const config::Choice<Optimizer>& b) {
  using Written = config::Values<config::Choice<Optimizer>>;
  return config::to_json(Written::write(a)) == config::to_json(Written::write(b));
}

// What this rank has made of the files by now.
Facts facts_of(const TrainerParts& parts, Updater& updater, const RunState& state) {
  const bool with_state = parts.from.has_value() || parts.recipe.model.load.optimizer;
  Facts own{{"weights", hash_of_weights(*parts.inputs.model, updater, with_state)}};
  if (!parts.inputs.source.empty()) own["the model's files"] = sample_of_folder(parts.inputs.source);
  for (const auto& [role, hash] : state.models) own["the " + role] = hash;
  return own;
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      world_(parts_.options.world),
      recipe_(parts_.recipe),
      model_(*parts_.inputs.model),
      steps_(steps_of(recipe_, parts_.inputs)),
      config_yaml_(recipe_file(recipe_)),
      hooks_(recipe_, world_.is_first()),
      trained_(state_of(parts_)),
      frame_(&trained_->frame()),
      state_(frame_->run),
      time_limit_(config::seconds_of(recipe_.trainer.time_limit).value_or(0)) {
  Inputs& inputs = parts_.inputs;
  equip();
  stepper_ = std::make_unique<Stepper>(recipe_, *frame_, loader_options(recipe_, inputs), inputs.train, world_);
  stepper_->hooks = {[this](const PendingUpdate& update) { return before_update(update); },
                     [this] { after_update(); },
                     [this] { return !writes_gradients() && !hooks_.see_gradients(state_.step + 1); },
                     hooks_.wanted(),
                     [this] { return reads_late_; },
                     [this](const StepReport& report) { after_step(report, step_seconds_); },
                     [this](std::int64_t step) { return step % recipe_.trainer.log_every == 0 || step == steps_; },
                     [this](const std::vector<std::string>& lines) {
                       if (log_) log_->answers(lines);
                     }};
  weights_.emplace(stepper_->updater());
  rates_.emplace(stepper_->optimizer(), recipe_, model_, state_, steps_);
  for (const EvalSet& set : inputs.evals) eval_data_.push_back({set.name, set.data.get()});
  evaluations_ = make_evaluations(stepper_->objective(), recipe_);
  choose_measures();
  saver_ = std::make_unique<Saver>(
      parts_.run, recipe_, state_, [this] { return checkpoint_parts(); }, steps_, world_);
  state_ =
      restore({recipe_, parts_.options, inputs, parts_.run, parts_.from, parts_.changes, stepper_->resources(), state_},
              stepper_->updater());
  if (recipe_.trainer.precision != Precision::fp16)
    state_.loss_scale = {};
  else if (state_.loss_scale.is_unused())
    state_.loss_scale.factor = recipe_.trainer.loss_scale.start;
  if (parts_.from) {
    was_evaluated_ = !state_.evaluation_due && is_on_record(state_, measures_);
    hooks_.restore(state_);
    saver_->resumed_from(*parts_.from);
    log::info("{}: {} at step {} of {} from {}", recipe_.run.folder, parts_.options.replay ? "replaying" : "resuming",
              state_.step, steps_, parts_.from->name);
  }
  if (state_.step > 0) stepper_->seek(state_, state_.step < steps_);
  if (state_.step >= steps_ && !state_.evaluation_due)
    log::warning("{}: already at step {}, nothing to train", recipe_.run.folder, state_.step);
  choose_files();
  if (world_.size() > 1) check_alike(world_, facts_of(parts_, stepper_->updater(), state_));
}

Trainer::~Trainer() = default;

// Weights and optimizer. What a state has brought along stays, unless the run goes on from a checkpoint.
void Trainer::equip() {
  Inputs& inputs = parts_.inputs;
  if (parts_.from || !same_optimizer(frame_->chosen, recipe_.optimizer)) frame_->drop();
  make_weights(inputs, recipe_, world_, parts_.from.has_value());
  frame_->before_update = [this] {
    hooks_.gradients(view_of_step(), given_);
    updated_for_ = state_.step + 1;
  };
  frame_->after_update = [this] {
    stepper_->updated();
    after_update();
  };
  frame_->precision = recipe_.trainer.precision;
  frame_->steps = steps_;
  frame_->seed = recipe_.run.seed;
  frame_->tokenizer = inputs.tokenizer;
  frame_->source = inputs.source;
  if (inputs.adapter) {
    const Needs needs = make_objective(recipe_)->needs();
    const bool embeds = needs.records == RecordKind::embedding && !needs.masked_lm && !inputs.model->classifier();
    frame_->adapter = hub::AdapterConfig{*inputs.adapter, base_name(recipe_.model), embeds};
  }
  if (frame_->ready()) return;
  frame_->begin_updates();
  frame_->chosen = recipe_.optimizer;
  frame_->ema = recipe_.trainer.ema;
  frame_->init(world_, is_sharded(recipe_, world_), slices_of(recipe_, world_.size()));
}

void Trainer::choose_files() {
  const Inputs& inputs = parts_.inputs;
  save_types_.emplace(recipe_.trainer.save.dtype, recipe_.trainer.precision, *state_.source_types);
  files_ = hub::model_files(
      model_, inputs.source, inputs.tokenizer.get(),
      {.turn_end = learnt_turn_end(recipe_, inputs), .type = save_types_->most(), .align_ids = inputs.has_tokenizer()});
  for (auto& file : files_beside(recipe_, inputs, model_)) files_.texts.push_back(file);
  beside_ = files_of_beside(model_, inputs.tokenizer.get(), save_types_->most());
}

Summary Trainer::run_to_its_end() {
  if (parts_.options.replay) return replay();
  start();
  while (!done()) {
    {
      const spans::Span span("step");
      if (!wait_for_data()) break;
      step();
    }
    agree();
    if (due(recipe_.trainer.log_every) || state_.step == steps_) log();
    if (state_.report && (due(*recipe_.trainer.report_every) || state_.step == steps_)) track();
    if (state_.evaluation_due && !interrupted()) evaluate();
    maybe_save();
  }
  return finish();
}

// Steps as they were, up to the one that is asked for: without evaluations, saves and whatever else leaves something.
Summary Trainer::replay() {
  replay_folder_.emplace();
  replay_path_ = *replay_folder_ / "run";
  Env::process().make_folders(replay_path_);
  begin();
  hooks_.training_start(view());
  while (state_.step < *parts_.options.replay && !interrupted()) {
    world_.at(fmt::format("step {}, replayed", state_.step + 1));
    if (!stepper_->has_data())
      throw Error(ErrorKind::data,
                  fmt::format("the data have ended at step {}, before the one that is to be replayed", state_.step));
    begin_step();
    end_step(train_step());
    agree();
  }
  Summary made = summary(/*complete=*/!interrupted());
  if (made.reason != StopReason::signal) made.reason = StopReason::replayed;
  made.checkpoint.clear();
  return made;
}

void Trainer::step() {
  const Stopwatch watch;
  worked_ = true;
  world_.at(fmt::format("step {}", state_.step + 1));
  begin_step();
  const double begun = watch.seconds(), waited = world_.traffic().waited;
  reads_late_ = hooks_.empty() && !step_function_;
  const StepReport report = train_step();
  reads_late_ = false;
  const double busy = watch.seconds() - begun - (world_.traffic().waited - waited);
  begin_edge(report);
  step_seconds_ = waited_for_data_ + watch.seconds();
  if (!stepper_->is_unread()) after_step(report, step_seconds_);
  asked_.busy = {busy};
}

void Trainer::start() {
  if (world_.is_first()) {
    memory_ = plan_memory(recipe_, parts_.inputs, {.ranks = world_.size()});
    const Preflight found = describe_inputs(recipe_, parts_.inputs, *save_types_, memory_, ranks_here(world_));
    for (const std::string& line : found.lines) log::info("{}", line);
    for (const std::string& warning : found.warnings) log::warning("{}", warning);
    review_best(state_, measures_, saver_->steps_there(), recipe_.run.folder);
    if (parts_.options.check_space) saver_->check_space();
    if (parts_.from && parts_.options.resume.value_or("latest") != "latest") set_newer_aside(parts_.run, state_.step);
    parts_.run.write_config(config_yaml_);
    const RunInfo info{recipe_.run.folder, recipe_.run.name,     config_yaml_,           steps_,
                       state_.step,        parts_.options.quiet, parts_.from.has_value()};
    log_.emplace(parts_.run, recipe_, info, state_, parts_.from ? parts_.from->name : "",
                 [this](Metrics& line) { stepper_->objective().derive(line); });
  }
  if (evaluations_.empty() && !parts_.inputs.evals.empty() && world_.is_first())
    log::warning("objective {}: names no evaluation: nothing is measured on {}, and no checkpoint is the best",
                 recipe_.objective.type, counted(std::ssize(parts_.inputs.evals), "evaluation set"));
  if (!begun_) begin();
  hooks_.training_start(view());
  saver_->start_clock();
  const std::optional<std::int64_t> apart = recipe_.trainer.report_every;
  if (!apart || *apart == recipe_.trainer.log_every)
    state_.report.reset();
  else if (!state_.report)
    state_.report.emplace();
  if (!parts_.from && recipe_.trainer.eval_at_start) state_.evaluation_due = !parts_.inputs.evals.empty();
  if (state_.evaluation_due && !interrupted()) make_up_evaluation();
}

// A signal had cut it short. The step's checkpoint is made again: it did not know what it is worth.
void Trainer::make_up_evaluation() {
  evaluate();
  if (!was_evaluated_ || done() || saver_->step() != state_.step) return;
  goes_on_ = true;
  save();
  goes_on_ = false;
}

void Trainer::begin() {
  begun_ = true;
  DocumentNumbers::Data data{{}, evaluate_options(recipe_, parts_.inputs), cache_folder(recipe_)};
  if (const Dataset* train = parts_.inputs.train->as_dataset()) data.sets.push_back(train);
  for (const EvalSet& set : parts_.inputs.evals) data.sets.push_back(set.data.get());
  stepper_->begin(data);
}

std::optional<std::int64_t> Trainer::epoch_begun_at(std::int64_t step, std::int64_t apart) const {
  const std::optional<double> now = stepper_->epoch_at(step),
                              before = began_ ? began_ : stepper_->epoch_at(std::max<std::int64_t>(0, step - 1));
  const auto part = [&](double epoch) { return std::floor(epoch / static_cast<double>(apart)); };
  if (!now || (step > 0 && part(*now) == part(*before))) return std::nullopt;
  return static_cast<std::int64_t>(std::floor(*now)) + 1;
}

void Trainer::begin_step() {
  given_.clear();
  before_step_ = {state_.objective, state_.loss_scale};
  const std::optional<std::int64_t> begun = epoch_begun_at(state_.step);
  began_ = epoch();
  if (begun) hooks_.epoch_start(view(), *begun);
  hooks_.step_start(view());
}

void Trainer::after_update() {
  updated_for_ = state_.step + 1;
  UpdaterEdit edit(stepper_->updater());
  hooks_.updated(view_of_step(), edit);
}

bool Trainer::before_update(const PendingUpdate& update) {
  Updater& updater = stepper_->updater();
  const std::optional<std::int64_t>& replay = parts_.options.replay;
  const bool looked_for = replay == state_.step + 1;  // it is told, although the run may have left it out
  try {
    if (!check_finite(update, updater,
                      {state_.step + 1, *parts_.inputs.train, replay ? nullptr : &parts_.run.folder(), saver_->step(),
                       world_, recipe_.trainer.max_grad_norm > 0, state_.not_finite,
                       looked_for ? 0 : recipe_.trainer.skip_not_finite}))
      return false;
  } catch (const Error&) {
    tell_not_finite(update.report);
    throw;
  }
  if (writes_gradients() && world_.is_first()) try {
      write_gradients(parts_.run.folder().env(), parts_.options.gradients,
                      [&](const auto& visit) { updater.each_gradient(visit); });
    } catch (...) {
      gradients_failed_ = true;
      throw;
    }
  hooks_.gradients(view_of_step(), given_);
  updated_for_ = state_.step + 1;
  return true;
}

bool Trainer::writes_gradients() const { return !parts_.options.gradients.empty() && state_.step + 1 == steps_; }

// Sets with an interval of their own are due at theirs, the others together.
void Trainer::plan_evaluation(bool all) {
  const TrainerSection& trainer = recipe_.trainer;
  const std::int64_t epochs = trainer.eval_every_epochs;
  const bool epoch_due = epochs > 0 && epoch_begun_at(state_.step, epochs);
  const std::vector<EvalSet>& sets = parts_.inputs.evals;
  state_.sets_due.clear();
  const bool early = state_.step < trainer.eval_delay;
  for (const EvalSet& set : sets) {
    const auto own = trainer.eval_sets.find(set.name);
    const bool has_own = own != trainer.eval_sets.end() && own->second.every;
    const bool now = has_own ? due(*own->second.every) : due(trainer.eval_every) || epoch_due;
    if (all || (now && !early)) state_.sets_due.push_back(set.name);
  }
  state_.evaluation_due = !state_.sets_due.empty();
  if (state_.sets_due.size() == sets.size()) state_.sets_due.clear();
}

void Trainer::begin_edge(const StepReport& report) {
  before_step_.reset();
  evaluated_.reset();
  was_evaluated_ = false;
  amounts_ = {report.tokens, report.supervised, report.rows, report.documents, report.squares};
  plan_evaluation(/*all=*/state_.step == steps_);
}

// What the step's numbers say, at its edge or while the next one is made.
void Trainer::after_step(const StepReport& report, double seconds) {
  state_.skipped_steps += report.skipped;
  tell_left_out(report, recipe_.trainer, state_);
  if (log_) log_->step(state_, report, seconds);
  end_step(report);
}

// What callbacks put into the step's numbers is logged, in place of what is called so.
void Trainer::end_step(const StepReport& report) {
  const Metrics own{{"loss", report.loss()}, {"grad_norm", report.grad_norm}, {"learning_rate", report.learning_rate}};
  Metrics metrics = given_;
  metrics.insert(own.begin(), own.end());
  asked_ = hooks_.step_end(view(), metrics);
  if (const auto begun = epoch_begun_at(state_.step)) asked_.add(hooks_.epoch_end(view(), *begun - 1));
  for (const auto& [name, value] : metrics)
    if (const auto before = own.find(name); before == own.end() || before->second != value) {
      const LogMode mode = hooks_.is_setting(name) ? LogMode::last : LogMode::mean;
      state_.window.give(name, value, mode);
      if (state_.report) state_.report->give(name, value, mode);
    }
}

// false: there is none, or a signal came while it was waited for. Ranks read the same data, and agree on what a stream
// that still grows has given to each of them.
bool Trainer::wait_for_data() {
  bool ended = false, stopped = false;
  const Stopwatch watch;
  try {
    const spans::Span span("data");
    ended = !stepper_->has_data();
  } catch (const Error& error) {
    if (error.kind() != kStopped) throw;
    stopped = true;
  }
  if (!parts_.inputs.train->as_dataset()) {
    const Sums told = world_.total(Sums{{"ended", ended}, {"stopped", stopped}});
    ended = told.at("ended") > 0, stopped = told.at("stopped") > 0;
  }
  waited_for_data_ = watch.seconds();
  if (stopped) agree();
  if (stopped || !ended) return !stopped;
  log::warning("step {} of {}: the data have ended; {}", state_.step, steps_, recipe_.trainer.save.optimizer
               ? "where there are more, --resume latest goes on"
               : "no run goes on from what is saved then, without the optimizer's state (trainer.save.optimizer)");
  tell_rest();
  if (!was_evaluated_) plan_evaluation(/*all=*/true);
  if (state_.evaluation_due) evaluate();
  stopped_by_ = kEndOfData;
  worked_ = true;
  return false;
}

void Trainer::log() {
  const spans::Span span("log");
  stepper_->settle();
  if (log_)
    log_->log(state_, epoch(), [this](Metrics& line) { hooks_.logs(view(), line); });
  else
    state_.window = {};
}

void Trainer::track() {
  const spans::Span span("log");
  stepper_->settle();
  if (log_)
    log_->report(state_, epoch(), [this](Metrics& line) { hooks_.reports(view(), line); });
  else
    state_.report = Window();
}

// The steps since the last line, of a run that ends before the next one would come.
void Trainer::tell_rest() {
  stepper_->settle();
  if (!state_.window.empty()) log();
  if (state_.report && !state_.report->empty()) track();
}

// The step that ends the run is not hidden from the log, and neither are those before it.
void Trainer::tell_not_finite(const StepReport& report) {
  if (!log_) return;
  RunState last = state_;
  last.step += 1, last.tokens += report.tokens;
  last.window.add(report);
  log_->log(last, stepper_->epoch_at(last.step), [](Metrics&) {});
}

void Trainer::agree() {
  Wishes own = std::exchange(asked_, {});
  if (signalled()) own.signal = reason_to_stop();
  own.save |= parts_.options.handle_signals && StopSignal::take_save_request();
  own.save |= world_.is_first() && saver_->due_by_clock();
  const Wishes all = agreed(world_, own);
  if (std::ssize(all.busy) == world_.size())
    if (const std::string slow = pace_.add(all.busy); !slow.empty() && log_) log::warning("{}", slow);
  if (all.evaluate && !was_evaluated_) plan_evaluation(/*all=*/true);
  save_wanted_ |= all.save;
  if (stopped_by_.empty()) stopped_by_ = all.stop;
  if (!signal_.empty() || all.signal.empty()) return;
  signal_ = all.signal;
  hooks_.signalled(view(), signal_);
}

void Trainer::evaluate() {
  stepper_->settle();
  const Stopwatch watch;
  const spans::Span span("evaluation");
  world_.at(fmt::format("step {}, evaluating", state_.step));
  EvaluateOptions options = evaluation(model_);
  options.before = [this](std::int64_t, std::int64_t) { return !signalled(); };
  const Updater::Evaluated averages(stepper_->updater());
  hooks_.evaluation_start(view());
  if (auto found = measured(options)) {
    state_.evaluation_due = false;
    state_.sets_due.clear();
    worked_ = was_evaluated_ = true;
    if (const auto value = found->find(measures_.best_by.metric); value != found->end()) evaluated_ = value->second;
    asked_ = hooks_.evaluated(view(), *found);
    asked_.save |= world_.is_first() && is_new_best();
    if (log_) told(*found, watch.seconds());
  }
  agree();
}

// The weights were finite when the run began: no file has made them otherwise.
std::optional<Metrics> Trainer::measured(const EvaluateOptions& options) {
  try {
    return evaluate_sets(model_, evaluations_, parts_.inputs.evals, options, state_.sets_due);
  } catch (const Error& error) {
    const std::string weight = error.kind() == ErrorKind::not_finite ? bad_weight(model_, *weights_) : "";
    if (weight.empty() || state_.step == 0) throw;
    Error told = error;
    told.add_context(fmt::format("evaluating after step {}{}", state_.step,
                                 weights_->shared_out() ? ", where weight " + weight + " is not finite" : ""));
    throw std::move(told).hint(
        fmt::format("an update has made it so, or a callback's after_update: a lower optimizer.learning_rate often "
                    "helps; {}",
                    saver_->step() < 0 ? "there is no checkpoint yet"
                                       : fmt::format("the last checkpoint is step {}", saver_->step())));
  }
}

void Trainer::told(const Metrics& evaluation, double seconds) {
  log_->write(state_, epoch(), evaluation, {{"eval_seconds", seconds}});
  std::string text;
  for (const auto& [name, value] : evaluation)
    if (name.ends_with("loss") || name.ends_with("accuracy") || name.ends_with("accuracies") ||
        name.ends_with("reward") || name.ends_with("@10") || name.ends_with("spearman_cosine"))
      text += fmt::format("  {} {}", name, four_digits(value));
  log::info("step {}/{}:{}", state_.step, steps_, text);
}

void Trainer::maybe_save() {
  if (done()) return;  // finish() saves
  told_saved(saver_->settle(/*wait=*/false));
  save_wanted_ |= recipe_.trainer.save.after_evaluation && was_evaluated_;
  if (!saver_->due(save_wanted_)) return;
  save_wanted_ = false;
  save();
}

void Trainer::save() {
  stepper_->settle();
  const spans::Span span("save");
  world_.at(fmt::format("step {}, saving", state_.step));
  check_replicas(world_, model_, stepper_->updater(), state_.step, saver_->kept());
  hooks_.store(state_);
  saver_->try_save(worth());
  told_saved(saver_->settle(/*wait=*/false));
}

void Trainer::told_saved(const std::vector<std::string>& checkpoints) {
  for (const std::string& checkpoint : checkpoints) hooks_.saved(view(), checkpoint);
}

Summary Trainer::finish() {
  stepper_->settle();
  const bool complete = !stopped_by_.empty() || (state_.step >= steps_ && !state_.evaluation_due);
  if (complete) state_.finished = stopped_by_.empty() ? "steps" : stopped_by_;
  if (complete) tell_rest();
  world_.at(fmt::format("step {}, at its end", state_.step));
  const Stopwatch watch;
  double seconds = 0;  // that the save takes, without what callbacks do then
  told_saved(saver_->settle(/*wait=*/true));
  goes_on_ = !complete;
  const bool can_go_on = complete || saver_->can_go_on();
  if (saver_->step() != state_.step || !can_go_on || (complete && worked_))  // else what is there stays as it is
    during("saving the last checkpoint; kept " + saver_->kept(), [&] {
      const spans::Span span("save");
      check_replicas(world_, model_, stepper_->updater(), state_.step, saver_->kept());
      hooks_.store(state_);
      saver_->save(worth());
      seconds = watch.seconds();
    });
  told_saved(saver_->settle(/*wait=*/true));
  if (complete && log_) tell_unsaved_best(state_, measures_, parts_.from ? parts_.from->step : -1);
  if (log_) log_->finish();  // what trackers send then comes behind what must not be lost
  if (!complete)
    log::info("{} at step {}: saved in {}; the same command again goes on", stop_name(), state_.step,
              human_duration(seconds));
  hooks_.training_end(view());
  world_.wait();  // whoever is done has seen the last checkpoint committed
  return summary(complete);
}

Summary Trainer::summary(bool complete) const {
  Summary summary;
  summary.folder = recipe_.run.folder;
  summary.checkpoint = (parts_.run.path() / "checkpoints" / saver_->name()).string();
  summary.step = state_.step;
  summary.steps = steps_;
  summary.tokens = state_.tokens;
  if (parts_.from) summary.resumed_from = parts_.from->step;
  summary.reason = !complete                   ? StopReason::signal
                   : !worked_                  ? StopReason::already_finished
                   : stopped_by_.empty()       ? StopReason::steps
                   : stopped_by_ == kEndOfData ? StopReason::end_of_data
                                               : StopReason::callback;
  summary.stopped_by = complete ? stopped_by_ : stop_name();
  summary.seconds = clock_.seconds();
  summary.failed_saves = saver_->failures();
  summary.skipped_steps = state_.skipped_steps;
  summary.left_out = state_.not_finite + state_.spikes;
  if (log_) summary.metrics = log_->last();
  return summary;
}

CheckpointParts Trainer::checkpoint_parts() {
  const TrainerSection& t = recipe_.trainer;
  CheckpointParts parts{model_, &stepper_->updater(), files_, config_yaml_, *save_types_};
  parts.steps = steps_;
  parts.epoch = epoch();
  parts.epochs = stepper_->epoch_at(steps_);
  parts.log_every = t.log_every;
  parts.eval_every = t.eval_every;
  parts.save_every = t.save.every;
  parts.batch_size = t.batch_size;
  parts.with_optimizer = t.save.optimizer || goes_on_;
  parts.adapter = frame_->adapter;
  parts.beside = beside_;
  parts.followed = stepper_->resources().followed();
  return parts;
}

bool Trainer::signalled() const {
  return (parts_.options.handle_signals && StopSignal::stop_requested()) || is_time_up();
}

// By the first rank's clock.
bool Trainer::is_time_up() const { return time_limit_ > 0 && world_.is_first() && clock_.seconds() >= time_limit_; }

std::string Trainer::reason_to_stop() const {
  const bool signal = parts_.options.handle_signals && StopSignal::stop_requested();
  return signal ? StopSignal::stop_name() : "the time limit of " + recipe_.trainer.time_limit;
}

// Of a process alone at once, without waiting for the edge of a step.
bool Trainer::interrupted() const { return world_.size() == 1 ? signalled() : !signal_.empty(); }

std::string Trainer::stop_name() const { return signal_.empty() ? reason_to_stop() : signal_; }

}  // namespace hone::training
