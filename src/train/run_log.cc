// Numbers of a run, written.
#include "train/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "hone/registry.h"

namespace hone::training {
namespace {

std::vector<std::unique_ptr<Tracker>> make_trackers(const Recipe& recipe, const RunInfo& info) {
  std::vector<std::unique_ptr<Tracker>> trackers;
  const auto& known = registries().trackers;
  bool terminal = false;
  for (const auto& choice : recipe.trackers) {
    terminal |= choice.type == "terminal";
    trackers.push_back(known.make(choice, info));
  }
  if (!terminal) trackers.push_back(known.make("terminal", *known.options("terminal"), info));
  return trackers;
}

}  // namespace

RunLog::RunLog(const io::RunFolder& run, const Recipe& recipe, const RunInfo& info, const TrainState& state,
               const std::string& resumed_from)
    : file_(run.folder()), modes_(recipe.trainer.log_modes) {
  const std::int64_t kept = file_.keep_up_to(resumed_from.empty() ? -1 : state.step);
  const auto expected = static_cast<std::int64_t>(state.log_history.size());
  if (kept < expected)
    log::warning("{}/metrics.jsonl: {} of {} up to step {} there; {} has them all", info.folder, kept,
                 counted(expected, "line"), state.step,
                 (run.path() / "checkpoints" / resumed_from / "trainer_state.json").string());
  trackers_ = make_trackers(recipe, info);
}

void RunLog::step(const TrainState& state, const StepReport& report, double seconds) {
  steps_ += 1;
  tokens_ += report.tokens;
  seconds_ += seconds;
  for (const auto& tracker : trackers_) tracker->step(state.step, report.tokens, report.loss());
}

void RunLog::log(TrainState& state, std::optional<double> epoch, const std::function<void(Metrics&)>& change) {
  const double seconds = std::max(seconds_, 1e-9);
  const Metrics values = state.window.values(modes_);
  Metrics varying{{"tokens_per_second", static_cast<double>(tokens_) / seconds},
                  {"step_seconds", seconds / static_cast<double>(std::max<std::int64_t>(1, steps_))},
                  {"peak_memory_bytes", static_cast<double>(peak_memory_bytes())}};
  Metrics line = values;
  line.insert(varying.begin(), varying.end());
  change(line);
  for (const auto& [name, value] : line)
    if (!values.contains(name)) varying[name] = value;
  write(state, epoch, values, varying);
  state.window = {};
  steps_ = tokens_ = 0;
  seconds_ = 0;
}

void RunLog::write(TrainState& state, std::optional<double> epoch, const Metrics& values, const Metrics& varying) {
  Metrics line = values;
  line["step"] = static_cast<double>(state.step);
  line["tokens"] = static_cast<double>(state.tokens);
  if (epoch) line["epoch"] = *epoch;
  state.log_history.push_back(json_of(line));
  line.insert(varying.begin(), varying.end());
  file_.append(json_of(line));
  for (const auto& tracker : trackers_) tracker->log(state.step, line);
  for (const auto& [name, value] : line) last_[name] = value;
}

void RunLog::finish() {
  for (const auto& tracker : trackers_) tracker->finish();
}

}  // namespace hone::training
