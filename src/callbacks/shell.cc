// Commands of the user's on what happens to a run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "base/child.h"
#include "base/log.h"
#include "base/signals.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone {

namespace callbacks {
enum class RunEvent { start, save, evaluation, end, signal, error };
}

template <>
inline constexpr auto config::enum_names<callbacks::RunEvent> =
    std::to_array<std::pair<callbacks::RunEvent, std::string_view>>({{callbacks::RunEvent::start, "start"},
                                                                     {callbacks::RunEvent::save, "save"},
                                                                     {callbacks::RunEvent::evaluation, "evaluation"},
                                                                     {callbacks::RunEvent::end, "end"},
                                                                     {callbacks::RunEvent::signal, "signal"},
                                                                     {callbacks::RunEvent::error, "error"}});

}  // namespace hone

namespace hone::callbacks {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// HONE_METRIC_EVAL_LOSS. Never two underscores in a row: such a variable would be an option of a hone that is called.
std::string variable_of(const std::string& metric) {
  std::string name = "HONE_METRIC_";
  for (const char c : metric) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (!plain && name.back() != '_') name += '_';
  }
  return name;
}

class Shell final : public Callback {
 public:
  struct Config {
    std::string command;
    std::vector<RunEvent> on{RunEvent::end};
    double time_limit = 60;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("command", &C::command,
                "What /bin/sh runs, while the run waits for it. In its environment: HONE_EVENT, HONE_STEP, HONE_STEPS, "
                "HONE_TOKENS, HONE_RUN_FOLDER, HONE_CHECKPOINT (the newest, once there is one), HONE_METRIC_LOSS and "
                "so on of the last line and the last evaluation, HONE_SIGNAL and HONE_ERROR of these events."),
          field("on", &C::on, "When: start, save, evaluation, end, signal, error."),
          field("time_limit", &C::time_limit, "Seconds; then the command is ended.", {.low = 0.01, .high = 86400})};
    }
    void validate(Problems& problems) const {
      problems.require(command.find_first_not_of(" \t\n") != std::string::npos, "command", "missing");
      problems.require(command.find('\0') == std::string::npos, "command", "holds a byte 0");
      problems.require(!on.empty(), "on", "missing");
    }
  };
  explicit Shell(const Config& config) : config_(config) {}

  bool sees_gradients() const override { return false; }
  void on_training_start(const TrainView& view) override { run(RunEvent::start, view); }
  void on_training_end(const TrainView& view) override { run(RunEvent::end, view); }
  void on_log(const TrainView&, Metrics& line) override { keep(line); }
  Action on_evaluation_end(const TrainView& view, Metrics& metrics) override {
    keep(metrics);
    run(RunEvent::evaluation, view);
    return Action::go_on;
  }
  void on_save(const TrainView& view, const std::string& checkpoint) override {
    checkpoint_ = checkpoint;
    run(RunEvent::save, view);
  }
  void on_signal(const TrainView& view, const std::string& name) override {
    run(RunEvent::signal, view, {{"HONE_SIGNAL", name}});
  }
  void on_error(const TrainView& view, const std::string& error) override {
    run(RunEvent::error, view, {{"HONE_ERROR", error.substr(0, 16384)}});
  }

 private:
  void keep(const Metrics& metrics) {
    for (const auto& [name, value] : metrics) metrics_[variable_of(name)] = value;
  }

  static std::string name_of(RunEvent event) {
    for (const auto& [value, name] : config::enum_names<RunEvent>)
      if (value == event) return std::string(name);
    return "";
  }

  void run(RunEvent event, const TrainView& view, Variables more = {}) {
    if (std::find(config_.on.begin(), config_.on.end(), event) == config_.on.end()) return;
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::absolute(view.run_folder, ignored);
    ChildOptions options{std::move(more), rank_variables(), config_.time_limit,
                         [] { return StopSignal::stop_requested(); }};
    const auto add = [&](const char* name, const std::string& value) { options.environment.emplace_back(name, value); };
    add("HONE_EVENT", name_of(event));
    add("HONE_STEP", std::to_string(view.step));
    add("HONE_STEPS", std::to_string(view.steps));
    add("HONE_TOKENS", std::to_string(view.tokens));
    add("HONE_RUN_FOLDER", folder.string());
    if (!checkpoint_.empty()) add("HONE_CHECKPOINT", (folder / "checkpoints" / checkpoint_).string());
    for (const auto& [name, value] : metrics_) add(name.c_str(), fmt::format("{}", value));
    for (auto& [name, value] : options.environment) std::erase(value, '\0');
    if (const std::string failure = run_shell(config_.command, options); !failure.empty())
      log::warning("callback shell, event {}: `{}`: {}", name_of(event), config_.command, failure);
  }

  Config config_;
  std::string checkpoint_;
  std::map<std::string, double> metrics_;
};

}  // namespace

void register_shell(Registries& hone) {
  hone.callbacks.add<Shell>("shell", "A shell command when a run starts, saves, evaluates, ends or fails.");
}

}  // namespace hone::callbacks
