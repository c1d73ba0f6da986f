// A schedule: the learning rate is halved every so many steps.
#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/schedule.h"

namespace {

using namespace hone;

class Halving final : public Schedule {
 public:
  struct Config {
    std::int64_t every = 1000;
    static constexpr auto fields() {
      return std::tuple{field("every", &Config::every, "Steps between two halvings.", at_least(1))};
    }
  };
  explicit Halving(const Config& config) : every_(config.every) {}

  // A function of the step alone, so that a resumed run goes on where it was.
  double factor(std::int64_t step, std::int64_t) const override { return std::pow(0.5, step / every_); }

 private:
  std::int64_t every_;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.schedules.add<Halving>("halving", "Half the learning rate every so many steps.");
}
