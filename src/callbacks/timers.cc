// Where a run's time goes: parts of steps, epochs, and all its processes together.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/spans.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::callbacks {
namespace {

class Timers final : public Callback, private spans::Listener {
 public:
  struct Config {
    bool parts = true, epochs = true, elapsed = true;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("parts", &C::parts,
                "Seconds that a step spends on its parts, means over the steps since the last line: "
                "time/data, time/forward, time/backward, time/ranks, time/update, time/other; and what came between "
                "steps, by step: time/log, time/evaluation, time/save."),
          field("epochs", &C::epochs,
                "epoch_seconds, of the epoch that ended last, without the time between processes."),
          field("elapsed", &C::elapsed,
                "elapsed_seconds, of all processes of the run together; what a killed one did after its last "
                "checkpoint, and the time between processes, are not in it.")};
    }
    void validate(Problems& problems) const {
      problems.require(parts || epochs || elapsed, "parts", "nothing is left to measure");
    }
  };
  explicit Timers(const Config& config) : config_(config) {}
  ~Timers() override { spans::leave(*this); }
  bool sees_gradients() const override { return false; }

  void on_training_start(const TrainView&) override {
    clock_.restart();
    thread_ = spans::this_thread();
    if (config_.parts) spans::listen(*this, /*ops=*/false);
  }
  void on_training_end(const TrainView&) override { spans::leave(*this); }

  Action on_step_end(const TrainView&, Metrics&) override {
    log_.steps += 1, report_.steps += 1;
    return Action::go_on;
  }
  Action on_epoch_end(const TrainView&, std::int64_t) override {
    last_epoch_ = elapsed() - epoch_began_;
    epoch_began_ = elapsed();
    return Action::go_on;
  }

  void on_log(const TrainView&, Metrics& line) override { write(log_, line); }
  void on_report(const TrainView&, Metrics& line) override { write(report_, line); }

  void visit_state(const StateVisitor& visit) override {
    double now = elapsed(), epoch = epoch_began_;
    visit("elapsed", now);
    visit("epoch_began", epoch);
    visit("last_epoch", last_epoch_);
    before_ = now, epoch_began_ = epoch;
    clock_.restart();
  }

 private:
  // Those that lie within the step, and not in each other.
  static constexpr std::array kInStep{"data", "forward", "backward", "ranks", "update"};

  struct Since {  // the last line of its kind
    std::map<std::string, double> seconds = {};  // by part
    std::int64_t steps = 0;
  };

  void heard(const spans::Stretch& stretch) noexcept override {
    if (stretch.thread != thread_) return;
    const std::lock_guard lock(mutex_);
    for (Since* since : {&log_, &report_}) since->seconds[std::string(stretch.name)] += stretch.end - stretch.begin;
  }

  void write(Since& since, Metrics& line) {
    if (config_.epochs && last_epoch_ >= 0) line["epoch_seconds"] = last_epoch_;
    if (config_.elapsed) line["elapsed_seconds"] = elapsed();
    if (!config_.parts || since.steps == 0) return;
    const std::lock_guard lock(mutex_);
    double other = since.seconds["step"];
    for (const char* part : kInStep) other -= since.seconds[part];
    since.seconds["other"] = std::max(0.0, other);
    for (const auto& [part, seconds] : since.seconds)
      if (part != "step") line["time/" + part] = seconds / static_cast<double>(since.steps);
    since = {};
  }
  double elapsed() const { return before_ + clock_.seconds(); }

  Config config_;
  std::uint64_t thread_ = 0;  // that trains
  std::mutex mutex_;
  Since log_, report_;
  double before_ = 0;  // seconds up to the last save, of all processes
  Stopwatch clock_;    // since then
  double epoch_began_ = 0, last_epoch_ = -1;
};

}  // namespace

void register_timers(Registries& hone) {
  hone.callbacks.add<Timers>("timers", "Time by part of a step, of epochs, and of the whole run.");
}

}  // namespace hone::callbacks
