// Numbers of a run, written.
#include "train/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/plugin.h"
#include "base/strings.h"
#include "hone/registry.h"
#include "train/placement.h"

namespace hone::training {
namespace {

constexpr const char* kTerminal = "terminal";

}  // namespace

RunLog::RunLog(const io::RunFolder& run, const Recipe& recipe, const RunInfo& info, const RunState& state,
               const std::string& resumed_from, std::function<void(Metrics&)> derive)
    : file_(run.folder()),
      answers_(run.folder(), "completions.jsonl"),
      device_(device_of(recipe)),
      modes_(recipe.trainer.log_modes),
      derive_(std::move(derive)),
      apart_(recipe.trainer.report_every.value_or(recipe.trainer.log_every) != recipe.trainer.log_every),
      log_every_(recipe.trainer.log_every),
      steps_(info.steps) {
  const auto expected = static_cast<std::int64_t>(state.log_history.size());
  const std::int64_t kept = file_.keep_up_to(resumed_from.empty() ? -1 : state.step, expected);
  answers_.keep_up_to(resumed_from.empty() ? -1 : state.step);
  if (kept < expected)
    log::warning("{}/metrics.jsonl: {} of {} up to step {} there; {} has them all", info.folder, kept,
                 counted(expected, "line"), state.step,
                 (run.path() / "checkpoints" / resumed_from / "trainer_state.json").string());
  const auto& known = registries().trackers;
  for (const auto& choice : recipe.trackers) {
    if (choice.type == kTerminal)
      terminal_ = known.make(choice, info);
    else
      trackers_.push_back(
          {choice.type, in_plugin([&] { return "tracker " + choice.type; }, [&] { return known.make(choice, info); })});
  }
  if (!terminal_) terminal_ = known.make(kTerminal, *known.options(kTerminal), info);
}

Metrics RunLog::Since::speed(at::Device device) const {
  Metrics speed{{"peak_memory_bytes", static_cast<double>(highest_memory(device))}};
  if (steps == 0) return speed;  // another process has made them
  const double time = std::max(seconds, 1e-9);
  speed["tokens_per_second"] = static_cast<double>(tokens) / time;
  speed["step_seconds"] = time / static_cast<double>(steps);
  return speed;
}

template <class Call>
void RunLog::each_tracker(const char* what, std::int64_t step, const Call& call) const {
  for (const Named& one : trackers_)
    in_plugin([&] { return fmt::format("tracker {}, {}, step {}", one.name, what, step); },
              [&] { call(*one.tracker); });
}

void RunLog::step(const RunState& state, const StepReport& report, double seconds) {
  for (Since* since : {&line_, &report_}) {
    since->steps += 1;
    since->tokens += report.tokens;
    since->seconds += seconds;
  }
  each_tracker("step", state.step, [&](Tracker& tracker) { tracker.step(state.step, report.tokens, report.loss()); });
  undrawn_ = {state.step, report.tokens, report.loss()};
  if (state.step % log_every_ != 0 && state.step != steps_) draw();
}

void RunLog::draw() {
  if (const auto done = std::exchange(undrawn_, std::nullopt)) terminal_->step(done->step, done->tokens, done->loss);
}

Metrics RunLog::values_of(const Window& window) const {
  Metrics values = window.values(modes_);
  derive_(values);
  return values;
}

void RunLog::log(RunState& state, std::optional<double> epoch, const std::function<void(Metrics&)>& change) {
  const Metrics values = values_of(state.window);
  Metrics varying = line_.speed(device_);
  Metrics line = values;
  line.insert(varying.begin(), varying.end());
  change(line);
  for (const auto& [name, value] : line)
    if (!values.contains(name)) varying[name] = value;
  write(state, epoch, values, varying, /*track=*/!apart_);
  state.window = {};
  line_ = {};
}

namespace {

Metrics with_place(Metrics line, const RunState& state, std::optional<double> epoch) {
  line["step"] = static_cast<double>(state.step);
  line["tokens"] = static_cast<double>(state.tokens);
  if (epoch) line["epoch"] = *epoch;
  return line;
}

}  // namespace

void RunLog::report(RunState& state, std::optional<double> epoch, const std::function<void(Metrics&)>& change) {
  Metrics line = with_place(values_of(*state.report), state, epoch);
  const Metrics speed = report_.speed(device_);
  line.insert(speed.begin(), speed.end());
  change(line);
  each_tracker("log", state.step, [&](Tracker& tracker) { tracker.log(state.step, line); });
  state.report = Window();
  report_ = {};
}

void RunLog::write(RunState& state, std::optional<double> epoch, const Metrics& values, const Metrics& varying,
                   bool track) {
  Metrics line = with_place(values, state, epoch);
  state.log_history.push_back(json_of(line));
  line.insert(varying.begin(), varying.end());
  file_.append(json_of(line));
  terminal_->log(state.step, line);
  draw();
  if (track) each_tracker("log", state.step, [&](Tracker& tracker) { tracker.log(state.step, line); });
  for (const auto& [name, value] : line) last_[name] = value;
}

void RunLog::answers(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) answers_.append(nlohmann::json::parse(line));
}

void RunLog::finish() {
  terminal_->finish();
  for (const Named& one : trackers_)
    warned_of_plugin([&] { return "tracker " + one.name + ", finish"; }, [&] { one.tracker->finish(); });
}

}  // namespace hone::training
