// The terminal: a progress line with steps, tokens per second, loss and remaining time. Numbers of an earlier step than
// the line's say of which: those of the newest log line, whose step is told after its numbers.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/tracker.h"

namespace hone::trackers {
namespace {

class Terminal final : public Tracker {
 public:
  struct Config {
    double plain_every_s = 10;
    static constexpr auto fields() {
      return std::tuple{field("plain_every_s", &Config::plain_every_s,
                              "Seconds between lines when the output is no terminal.", at_least(0))};
    }
  };
  Terminal(const Config& config, const RunInfo& run) {
    progress_.emplace(Progress::Options{"train", "step", run.steps, run.start_step, run.quiet, config.plain_every_s});
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    for (const char* name : {"loss", "reward", "learning_rate", "grad_norm", "eval_loss", "eval_reward"})
      if (const auto found = metrics.find(name); found != metrics.end()) show(name, found->second, step);
  }
  void step(std::int64_t step, std::int64_t tokens, double) override {
    if (!progress_) return;
    progress_->add_tokens(tokens);
    progress_->update(step, values_at(step));
  }
  void finish() override {
    if (progress_) progress_->finish();
    progress_.reset();
  }

 private:
  struct Shown {
    std::string label, text;
    std::int64_t step;
  };
  void show(const std::string& name, double value, std::int64_t step) {
    const std::string label = name == "learning_rate" ? "lr" : name;
    const std::string text = name == "learning_rate" ? fmt::format("{:.2e}", value) : four_digits(value);
    for (Shown& old : shown_)
      if (old.label == label) {
        old = {label, text, step};
        return;
      }
    shown_.push_back({label, text, step});
  }
  Progress::Values values_at(std::int64_t step) const {
    Progress::Values values;
    for (const Shown& one : shown_)
      values.emplace_back(one.label, one.step == step ? one.text : fmt::format("{} (step {})", one.text, one.step));
    return values;
  }

  std::optional<Progress> progress_;
  std::vector<Shown> shown_;
};

}  // namespace

void register_terminal(Registries& hone) {
  hone.trackers.add<Terminal>("terminal", "A progress line on a terminal, plain lines elsewhere; always on.");
}

}  // namespace hone::trackers
