// hone::Trainer and train(): a run in parts, and as one call.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <functional>
#include <new>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "hone/trainer.h"
#include "tensor/give_way.h"
#include "train/preparation.h"

namespace hone {
namespace {

// expected: what takes how much, as the plan has it.
Error out_of_memory(const std::string& text, const std::string& expected) {
  const std::string plan = expected.empty() ? "" : "; the run was expected to take: " + expected;
  return Error(ErrorKind::data, "out of memory" + (text.empty() ? "" : ": " + text) + plan)
      .hint(
          "a smaller trainer.batch_size with a larger trainer.accumulate, trainer.checkpoint_blocks, or a shorter "
          "data.max_length");
}

// What LibTorch and the allocator throw, as errors of ours.
template <class Work>
decltype(auto) guarded(const Work& work, const std::function<std::string()>& expected = [] { return ""; }) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw out_of_memory("", expected());
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("allocate memory") != std::string::npos || text.find("out of memory") != std::string::npos)
      throw out_of_memory(text.substr(0, text.find("\nException raised")), expected());
    throw Error(ErrorKind::bug, "LibTorch: " + text);
  }
}

// By a signal before the first step: the run is as it was.
Summary stopped_early(const std::string& folder, const Error& error) {
  log::info("{}; the same command starts again", error.what());
  Summary summary;
  summary.folder = folder;
  summary.reason = StopReason::signal;
  summary.stopped_by = StopSignal::stop_name();
  return summary;
}

}  // namespace

struct Trainer::Parts {
  training::Preparation preparation;
  std::string folder;
  std::int64_t warnings = log::warnings();
  std::optional<RunData> data = {};
  std::optional<RunModel> model = {};
  std::optional<RunFunctions> functions = {};
  bool has_run = false;

  void require_open(const char* what, bool later) const {
    if (later)
      throw Error(ErrorKind::usage, fmt::format("{}: what depends on it has been made; replace it before", what));
  }
  void require_unfinished() const {
    if (preparation.finished())
      throw Error(ErrorKind::usage, fmt::format("{}: the run had been finished before; nothing is made of it", folder))
          .hint("TrainState::load() has its last state");
  }
};

Trainer::Trainer(Recipe recipe, TrainerInputs inputs, TrainOptions options) {
  const std::string folder = recipe.run.folder;
  parts_ = std::unique_ptr<Parts>(
      new Parts{.preparation = {std::move(recipe), std::move(inputs), std::move(options)}, .folder = folder});
}
Trainer::Trainer(Recipe recipe, TrainOptions options)
    : Trainer(std::move(recipe), TrainerInputs(), std::move(options)) {}
Trainer::~Trainer() = default;

const RunData& Trainer::configure_dataloaders() {
  return guarded([&]() -> const RunData& {
    parts_->preparation.load_data(/*strict=*/false);
    parts_->require_unfinished();
    if (!parts_->data) parts_->data = parts_->preparation.run_data();
    return *parts_->data;
  });
}

const RunModel& Trainer::configure_model() {
  configure_dataloaders();
  return guarded([&]() -> const RunModel& {
    parts_->preparation.load_model();
    if (!parts_->model) parts_->model = parts_->preparation.run_model();
    return *parts_->model;
  });
}

const RunFunctions& Trainer::configure_functions() {
  configure_model();
  return guarded([&]() -> const RunFunctions& {
    parts_->preparation.make_loop();
    parts_->require_unfinished();
    if (!parts_->functions) parts_->functions = parts_->preparation.loop().functions();
    return *parts_->functions;
  });
}

void Trainer::replace(RunData part) {
  configure_dataloaders();
  parts_->require_open("the data", parts_->model.has_value());
  guarded([&] { parts_->preparation.apply(part); });
  parts_->data = parts_->preparation.run_data();
}

void Trainer::replace(RunModel part) {
  configure_model();
  parts_->require_open("the model", parts_->functions.has_value());
  guarded([&] { parts_->preparation.apply(part); });
  parts_->model = parts_->preparation.run_model();
}

void Trainer::replace(RunFunctions part) {
  configure_functions();
  parts_->require_open("the functions", parts_->has_run);
  guarded([&] { parts_->preparation.loop().replace(std::move(part)); });
  parts_->functions = parts_->preparation.loop().functions();
}

TrainOutput Trainer::run() {
  training::Preparation& preparation = parts_->preparation;
  if (parts_->has_run) throw Error(ErrorKind::usage, "run: once; another Trainer goes on with the same run folder");
  parts_->has_run = true;
  const TrainOptions& options = preparation.options();
  std::optional<StopSignal> signals;
  if (options.handle_signals) signals.emplace("stopping after this step, and saving; once more: at once");
  const GiveWay give_way;
  TrainOutput output;
  output.world = options.world;
  try {
    guarded([&] {
      preparation.load_data(/*strict=*/true);
      preparation.make_loop();
      if (preparation.finished()) return void(output.summary = *preparation.finished());
      if (options.world.is_first()) preparation.say_seconds();
      output.summary = preparation.loop().run();
      output.state = preparation.loop().take_state();
    }, [&] { return preparation.expected_memory(); });
  } catch (const Error& error) {
    if (error.kind() != kStopped || options.world.size() > 1) throw;  // the other ranks have not heard of it
    output.summary = stopped_early(parts_->folder, error);
  }
  output.summary.warnings = log::warnings() - parts_->warnings;
  output.summary.prepare_seconds = preparation.seconds();
  output.checkpoint_path = output.summary.checkpoint;
  output.last_save_file_name = std::filesystem::path(output.checkpoint_path).filename().string();
  return output;
}

Metrics Trainer::evaluate(const OnEvaluationStep& each) {
  if (parts_->has_run)
    throw Error(ErrorKind::usage, "evaluate: run() has handed the state out; evaluate(state) takes it");
  configure_functions();
  return guarded([&] { return parts_->preparation.loop().measure(nullptr, each); });
}

Metrics Trainer::evaluate(TrainState& state, const OnEvaluationStep& each) {
  configure_functions();
  return guarded([&] { return parts_->preparation.loop().measure(&state, each); });
}

Summary train(Recipe recipe, const TrainOptions& options) { return Trainer(std::move(recipe), options).run().summary; }

}  // namespace hone
