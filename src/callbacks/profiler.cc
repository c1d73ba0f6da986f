// What the time of a few steps is spent on, as a trace that ui.perfetto.dev and chrome://tracing open.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/env.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/spans.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "tensor/tensor_memory.h"

namespace hone::callbacks {
namespace {

using nlohmann::json;

struct Traced : spans::Stretch {
  std::int64_t step = 0;
  std::uint64_t resident = 0, tensors = 0;  // at its end; of phases
};

// The trace event format's JSON: times in microseconds since `zero`.
class TraceFile {
 public:
  TraceFile(double zero, int rank) : zero_(zero), rank_(rank) {
    add({{"name", "process_name"}, {"ph", "M"}, {"args", {{"name", fmt::format("hone, rank {}", rank)}}}}, 0);
  }

  void add(const Traced& one) {
    if (threads_.insert(one.thread).second)
      add({{"name", "thread_name"}, {"ph", "M"}, {"args", {{"name", name_of(one.thread)}}}}, one.thread);
    const bool phase = one.kind == spans::Kind::phase;
    add({{"name", one.name == "step" ? fmt::format("step {}", one.step) : std::string(one.name)},
         {"cat", phase ? "phase" : "op"},
         {"ph", "X"},
         {"ts", micros(one.begin)},
         {"dur", (one.end - one.begin) * 1e6},
         {"args", {{"step", one.step}}}},
        one.thread);
    if (!phase) return;
    add({{"name", "memory"}, {"ph", "C"}, {"ts", micros(one.end)},
         {"args", {{"process", one.resident}, {"tensors", one.tensors}}}},
        one.thread);
  }

  std::string text(const json& facts) const {
    return json{{"traceEvents", events_}, {"displayTimeUnit", "ms"}, {"otherData", facts}}.dump();
  }

 private:
  void add(json event, std::uint64_t thread) {
    event["pid"] = rank_, event["tid"] = thread;
    events_.push_back(std::move(event));
  }
  double micros(double at) const { return (at - zero_) * 1e6; }
  static std::string name_of(std::uint64_t thread) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/self/task/{}/comm", thread)), name);
    return static_cast<pid_t>(thread) == getpid() ? "training" : name.empty() ? "thread" : name;
  }

  double zero_;
  int rank_;
  std::set<std::uint64_t> threads_;
  json events_ = json::array();
};

class Profiler final : public Callback, private spans::Listener {
 public:
  struct Config {
    std::int64_t start = 10, count = 3;
    bool ops = true, every_rank = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("start", &C::start, "The first step of the trace, counted from 1.", at_least(1)),
          field("count", &C::count, "How many steps it has.", {.low = 1, .high = 1000}),
          field("ops", &C::ops, "Products, attention, norms, loss and optimizer within the phases as well."),
          field("every_rank", &C::every_rank, "A trace of each rank, instead of the first one's alone.")};
    }
  };
  explicit Profiler(const Config& config) : config_(config) {}
  ~Profiler() override { spans::leave(*this); }
  bool sees_gradients() const override { return false; }

  CallbackTimes times() const override { return {.main_process_only = !config_.every_rank}; }
  void check(Model&, std::int64_t steps) const override {
    if (config_.start > steps)
      throw Error(ErrorKind::config, fmt::format("callback profiler: start: got {} of {} steps", config_.start, steps));
  }

  void on_training_start(const TrainView& view) override { begin_before(view.step + 1); }
  void on_step_start(const TrainView& view) override {
    if (first_ > 0 && view.step + 1 >= config_.start + config_.count) end(view);  // the last step's save is in it
    const std::lock_guard lock(mutex_);
    step_ = view.step + 1;
  }
  Action on_step_end(const TrainView& view, Metrics&) override {
    begin_before(view.step + 1);
    return Action::go_on;
  }
  void on_training_end(const TrainView& view) override { end(view); }
  void on_error(const TrainView& view, const std::string&) override { end(view); }

 private:
  // Listens from before the step on, so that its wait for data is in the trace.
  void begin_before(std::int64_t step) {
    if (first_ > 0 || step < config_.start || step >= config_.start + config_.count) return;
    first_ = step;
    spans::listen(*this, config_.ops);
  }

  void heard(const spans::Stretch& stretch) noexcept override {
    Traced one{stretch};
    if (stretch.kind == spans::Kind::phase) one.resident = resident_memory(), one.tensors = tensor_region_in_use();
    const std::lock_guard lock(mutex_);
    one.step = step_;
    traced_.push_back(one);
  }

  // From the wait for the first step's data to what came behind the last step.
  std::vector<Traced> cut() {
    const std::lock_guard lock(mutex_);
    std::vector<Traced> kept = std::move(traced_);
    const auto is_step = [](const Traced& one) { return one.name == "step"; };
    const auto first =
        std::find_if(kept.begin(), kept.end(), [&](const Traced& one) { return is_step(one) && one.step >= first_; });
    if (first == kept.end()) return {};
    const double zero = first->begin, last = std::find_if(kept.rbegin(), kept.rend(), is_step)->end;
    std::erase_if(kept, [&](const Traced& one) {
      return one.begin < zero || (one.name == "data" && one.begin >= last);  // that is of a step outside
    });
    std::vector<Traced> steps;
    std::copy_if(kept.begin(), kept.end(), std::back_inserter(steps), is_step);
    for (const Traced& step : steps)  // a wait for data is heard before its step's start
      for (Traced& one : kept)
        if (one.begin >= step.begin && one.end <= step.end) one.step = step.step;
    std::stable_sort(kept.begin(), kept.end(), [](const Traced& a, const Traced& b) {  // what holds others first
      return a.begin < b.begin || (a.begin == b.begin && a.end > b.end);
    });
    return kept;
  }

  // A trace that cannot be written is no reason for a run to end.
  void end(const TrainView& view) {
    spans::leave(*this);
    if (first_ == 0 || done_) return;
    done_ = true;
    try {
      const std::vector<Traced> kept = cut();
      if (!kept.empty()) write(view, kept);
    } catch (const std::exception& error) {
      log::warning("callback profiler: no trace: {}", error.what());
    }
  }

  void write(const TrainView& view, const std::vector<Traced>& kept) const {
    const int rank = view.world->rank();
    TraceFile file(kept.front().begin, rank);
    for (const Traced& one : kept) file.add(one);
    const std::int64_t first = kept.front().step, last = kept.back().step;
    std::string name = fmt::format("trace-step-{}", first);
    if (config_.every_rank && rank > 0) name += fmt::format("-rank-{}", rank);
    const Folder folder = Env::process().make_folders(std::filesystem::path(view.run_folder) / "profile");
    folder.replace_file(name + ".json", file.text({{"first_step", first}, {"last_step", last}, {"rank", rank}}));
    log::info("profile/{}.json: steps {} to {}; ui.perfetto.dev opens it", name, first, last);
  }

  Config config_;
  std::mutex mutex_;
  std::vector<Traced> traced_;
  std::int64_t first_ = 0;  // of the trace; 0: it has not begun
  std::int64_t step_ = 0;   // that is made
  bool done_ = false;       // the trace is written
};

}  // namespace

void register_profiler(Registries& hone) {
  hone.callbacks.add<Profiler>("profiler", "A trace of chosen steps, for ui.perfetto.dev.");
}

}  // namespace hone::callbacks
