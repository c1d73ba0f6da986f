// A callback: stops a run whose gradients have become tiny, and says so. Its count is saved with the run.
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace {

using namespace hone;

class StopWhenFlat final : public Callback {
 public:
  struct Config {
    double below = 1e-3;
    std::int64_t patience = 10;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("below", &C::below, "A gradient norm that counts as tiny.", at_least(0)),
                        field("patience", &C::patience, "Steps in a row before the run ends.", at_least(1))};
    }
  };
  explicit StopWhenFlat(const Config& config) : config_(config) {}

  Action on_step_end(const TrainView&, Metrics& metrics) override {
    flat_ = metrics.at("grad_norm") < config_.below ? flat_ + 1 : 0;
    return flat_ >= double(config_.patience) ? Action::stop : Action::go_on;
  }
  void visit_state(const StateVisitor& visit) override { visit("flat", flat_); }

 private:
  Config config_;
  double flat_ = 0;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.callbacks.add<StopWhenFlat>("stop_when_flat", "Ends the run when its gradients have become tiny.");
}
