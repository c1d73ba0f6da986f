// A file that asks for something: for people who may write into the run folder and not send signals.
#include <fmt/format.h>

#include <array>

#include "base/env.h"
#include "base/log.h"
#include "callbacks/run_file.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone {

namespace callbacks {
enum class Asks { save, evaluate, stop };
}

template <>
inline constexpr auto config::enum_names<callbacks::Asks> = std::to_array<std::pair<callbacks::Asks, std::string_view>>(
    {{callbacks::Asks::save, "save"}, {callbacks::Asks::evaluate, "evaluate"}, {callbacks::Asks::stop, "stop"}});

}  // namespace hone

namespace hone::callbacks {
namespace {

class TriggerFile final : public Callback {
 public:
  struct Config {
    std::string file = "SAVE";
    Asks action = Asks::save;
    std::int64_t every = 1;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("file", &C::file, "Name of a file in the run folder; when it is there the run acts, and deletes it."),
          field("action", &C::action, "What then happens after the step: save, evaluate or stop."),
          field("every", &C::every, "Steps between looks.", at_least(1))};
    }
    void validate(Problems& problems) const { check_run_file(file, "file", problems); }
  };
  explicit TriggerFile(const Config& config) : config_(config) {}

  CallbackTimes times() const override { return {.every_n_steps = config_.every}; }
  bool sees_gradients() const override { return false; }

  Action on_step_end(const TrainView& view, Metrics&) override {
    const Folder folder = Env::process().open_folder(view.run_folder);
    if (!folder.exists(config_.file)) return Action::go_on;
    try {
      folder.remove(config_.file);
    } catch (const Error& error) {
      warnings_.warning(
          fmt::format("{}/{}: not obeyed, for it cannot be deleted: {}", view.run_folder, config_.file, error.what()));
      return Action::go_on;
    }
    log::info("step {}: {} was there", view.step, config_.file);
    return config_.action == Asks::save ? Action::save : config_.action == Asks::stop ? Action::stop : Action::evaluate;
  }

 private:
  Config config_;
  log::Limiter warnings_;
};

}  // namespace

void register_trigger_file(Registries& hone) {
  hone.callbacks.add<TriggerFile>("trigger_file",
                                  "A file in the run folder that asks for a save, an evaluation or the end.");
}

}  // namespace hone::callbacks
