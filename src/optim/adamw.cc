// Adam and AdamW.
#include "optim/adam.h"
#include "optim/rest.h"

namespace hone::optim {

std::unique_ptr<Optimizer> make_adamw(const Rest& rest, const config::Choice<Schedule>& schedule, bool decay_all) {
  AdamW::Config config;
  config.learning_rate = rest.learning_rate, config.weight_decay = rest.weight_decay;
  config.betas = rest.betas, config.eps = rest.eps;
  config.decay_all = decay_all, config.schedule = schedule;
  return std::make_unique<Elementwise<AdamW>>(config);
}

void register_adamw(Registries& hone) {
  hone.optimizers.add<Elementwise<AdamW>>("adamw", "Adam with decoupled weight decay.");
  hone.optimizers.add<Elementwise<Adam<AdamDefaults>>>("adam", "Adam; weight decay acts through the gradient.");
}

}  // namespace hone::optim
