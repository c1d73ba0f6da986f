// The terminal: a progress line with steps, tokens per second, loss and remaining time.
#include <fmt/format.h>

#include <optional>

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
  Terminal(const Config& config, const RunInfo& run) : done_(run.start_step) {
    progress_.emplace(Progress::Options{"train", "step", run.steps, run.start_step, run.quiet, config.plain_every_s});
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    done_ = step;
    for (const char* name : {"loss", "reward", "learning_rate", "grad_norm", "eval_loss", "eval_reward"})
      if (const auto found = metrics.find(name); found != metrics.end()) show(name, found->second);
  }
  void step(std::int64_t step, std::int64_t tokens, double) override {
    if (!progress_) return;
    done_ = step;
    progress_->add_tokens(tokens);
    progress_->update(step, shown_);
  }
  void finish() override {
    if (progress_) progress_->finish();
    progress_.reset();
  }

 private:
  void show(const std::string& name, double value) {
    const std::string label = name == "learning_rate" ? "lr" : name;
    const std::string text = name == "learning_rate" ? fmt::format("{:.2e}", value) : four_digits(value);
    for (auto& [shown, old] : shown_)
      if (shown == label) {
        old = text;
        return;
      }
    shown_.emplace_back(label, text);
  }

  std::optional<Progress> progress_;
  Progress::Values shown_;
  std::int64_t done_;
};

}  // namespace

void register_terminal(Registries& hone) {
  hone.trackers.add<Terminal>("terminal", "A progress line on a terminal, plain lines elsewhere; always on.");
}

}  // namespace hone::trackers
