// How much memory the run has, and how near it is to what there is.
#include "base/memory.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "base/log.h"
#include "base/strings.h"
#include "base/threads.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "tensor/tensor_memory.h"

namespace hone::callbacks {
namespace {

struct Sample {
  MemoryFacts facts;
  std::uint64_t tensors = 0;
};

class Memory final : public Callback {
 public:
  struct Config {
    std::int64_t every = 1;
    double seconds = 0, warn_at = 0.95;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("every", &C::every, "Steps between looks; 0 = by time alone.", at_least(0)),
          field("seconds", &C::seconds,
                "Seconds between looks, by a thread of its own: also in long steps, evaluations and saves; 0 = by "
                "steps alone.",
                {.low = 0, .high = 86400}),
          field("warn_at", &C::warn_at,
                "Share of the machine's memory, or of the control group's limit, beyond which a warning is given; 1 = "
                "never.",
                {.low = 0, .high = 1})};
    }
    void validate(Problems& problems) const {
      problems.require(every > 0 || seconds > 0, "every", "missing: every, seconds or both");
      problems.require(seconds == 0 || seconds >= 0.01, "seconds", "expected 0, or at least 0.01");
    }
  };
  explicit Memory(const Config& config) : config_(config) {}
  ~Memory() override { stop(); }
  bool sees_gradients() const override { return false; }

  CallbackTimes times() const override { return {.every_n_steps = config_.every}; }

  void on_training_start(const TrainView&) override {
    look();
    if (config_.seconds > 0) watcher_ = Worker("memory", [this] { watch(); });
  }
  void on_training_end(const TrainView&) override { stop(); }
  Action on_step_end(const TrainView&, Metrics&) override {
    look();
    return Action::go_on;
  }

  void on_log(const TrainView&, Metrics& line) override { write(highest_, line); }
  void on_report(const TrainView&, Metrics& line) override { write(highest_reported_, line); }

 private:
  // highest: since the last line of its kind.
  void write(std::uint64_t& highest, Metrics& line) {
    const std::lock_guard lock(mutex_);
    const MemoryFacts& facts = last_.facts;
    const auto put = [&](const char* name, std::uint64_t bytes) { line[name] = static_cast<double>(bytes); };
    put("memory_bytes", facts.resident);
    put("highest_memory_bytes", highest);
    put("tensor_memory_bytes", last_.tensors);
    put("available_memory_bytes", facts.available);
    if (facts.limit) put("memory_limit_bytes", *facts.limit), put("memory_limit_used_bytes", *facts.limit_used);
    highest = facts.resident;
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      wake_.wait_for(lock, std::chrono::duration<double>(config_.seconds));
      if (stopping_) return;
      lock.unlock();
      look();
      lock.lock();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (watcher_.joinable()) watcher_.join();
  }

  void look() {
    const Sample now{memory_facts(), tensor_region_in_use()};
    const std::lock_guard lock(mutex_);
    last_ = now;
    for (std::uint64_t* highest : {&highest_, &highest_reported_})
      *highest = std::max(*highest, now.facts.resident);
    warn(now.facts);
  }

  // Once, until there is clearly more again.
  void warn(const MemoryFacts& facts) {
    const auto share = [](std::uint64_t used, std::uint64_t of) {
      return of == 0 ? 0 : static_cast<double>(used) / static_cast<double>(of);
    };
    const double of_machine = share(facts.machine - std::min(facts.machine, facts.available), facts.machine);
    const double of_limit = facts.limit ? share(*facts.limit_used, *facts.limit) : 0;
    const double most = std::max(of_machine, of_limit);
    if (most < config_.warn_at - 0.05) warned_ = false;
    if (config_.warn_at >= 1 || most <= config_.warn_at || warned_) return;
    warned_ = true;
    log::warning("memory: {:.0f} % of {} in use ({} by this process); {} left before the system ends the run",
                 100 * most,
                 of_limit >= of_machine ? human_size(*facts.limit) + ", the control group's limit,"
                                        : human_size(facts.machine) + ", all that the machine has,",
                 human_size(facts.resident), human_size(facts.left()));
  }

  Config config_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false, warned_ = false;
  Sample last_;
  std::uint64_t highest_ = 0, highest_reported_ = 0;
  Worker watcher_;
};

}  // namespace

void register_memory(Registries& hone) {
  hone.callbacks.add<Memory>("memory", "Memory of the run, of the machine and below its limit.");
}

}  // namespace hone::callbacks
