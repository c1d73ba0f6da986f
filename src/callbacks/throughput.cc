// How fast a run is: tokens, documents and floating-point operations a second.
#include <algorithm>
#include <deque>
#include <mutex>

#include "base/spans.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "nn/flops.h"

namespace hone::callbacks {
namespace {

class Throughput final : public Callback, private spans::Listener {
 public:
  struct Config {
    std::int64_t window = 100;
    std::optional<double> peak_tflops;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("window", &C::window, "Steps, the last ones, that the rates are of.", {.low = 1, .high = 1 << 20}),
          field("peak_tflops", &C::peak_tflops,
                "What the machine of one rank can do at best, in 10^12 floating-point operations a second; mfu is "
                "measured by it. `hone bench` prints it as the ceiling.",
                {.low = 1e-9, .high = 1e9})};
    }
  };
  explicit Throughput(const Config& config) : config_(config) {}
  ~Throughput() override { spans::leave(*this); }
  bool sees_gradients() const override { return false; }

  void on_training_start(const TrainView&) override {
    thread_ = spans::this_thread();
    spans::listen(*this, /*ops=*/false);
  }
  void on_training_end(const TrainView&) override { spans::leave(*this); }

  Action on_step_end(const TrainView& view, Metrics&) override {
    const StepAmounts& made = view.made;
    const auto tokens = static_cast<double>(made.tokens);
    Step step{tokens, static_cast<double>(made.documents)};
    if (tokens > 0)
      step.flop = tokens * nn::flops_per_token(view.model, {made.squares / tokens,
                                                            static_cast<double>(made.supervised) / tokens})
                               .training();
    flop_ += step.flop;
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
    if (std::ssize(steps_) > config_.window) steps_.pop_front();
    return Action::go_on;
  }

  void on_log(const TrainView& view, Metrics& line) override {
    const std::lock_guard lock(mutex_);
    Step all{.seconds = 0};
    double timed = 0;
    for (const Step& step : steps_) {
      if (step.seconds < 0) continue;
      all.tokens += step.tokens, all.documents += step.documents, all.flop += step.flop;
      all.seconds += step.seconds, timed += 1;
    }
    if (timed == 0 || all.seconds <= 0) return;
    line["throughput/step_seconds"] = all.seconds / timed;
    line["throughput/tokens_per_second"] = all.tokens / all.seconds;
    line["throughput/samples_per_second"] = all.documents / all.seconds;
    line["throughput/flops_per_token"] = all.tokens > 0 ? all.flop / all.tokens : 0;
    line["throughput/flops_per_step"] = all.flop / timed;
    line["throughput/tflops"] = all.flop / all.seconds / 1e12;
    line["throughput/total_flops"] = flop_;
    if (config_.peak_tflops)
      line["throughput/mfu"] = all.flop / all.seconds / (1e12 * *config_.peak_tflops * view.world->size());
  }

  void on_report(const TrainView& view, Metrics& line) override { on_log(view, line); }

  void visit_state(const StateVisitor& visit) override { visit("flop", flop_); }

 private:
  struct Step {
    double tokens = 0, documents = 0, flop = 0;
    double seconds = -1;  // not yet
  };
  // Ends behind on_step_end.
  void heard(const spans::Stretch& stretch) noexcept override {
    if (stretch.name != "step" || stretch.thread != thread_) return;
    const std::lock_guard lock(mutex_);
    if (!steps_.empty() && steps_.back().seconds < 0) steps_.back().seconds = stretch.end - stretch.begin;
  }

  Config config_;
  std::uint64_t thread_ = 0;  // that trains
  std::mutex mutex_;
  std::deque<Step> steps_;
  double flop_ = 0;  // of the run
};

}  // namespace

void register_throughput(Registries& hone) {
  hone.callbacks.add<Throughput>("throughput", "Tokens, documents and FLOP a second, and MFU.");
}

}  // namespace hone::callbacks
