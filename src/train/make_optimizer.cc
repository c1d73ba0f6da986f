// The optimizer of a recipe.
#include "train/make_optimizer.h"

#include <fmt/format.h>

#include "hone/registry.h"
#include "optim/ema.h"

namespace hone::training {

std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe) {
  std::unique_ptr<Optimizer> made = registries().optimizers.make(recipe.optimizer);
  const EmaSection& ema = recipe.trainer.ema;
  if (ema.decay == 0) return made;
  if (made->averages())
    throw Error(ErrorKind::config,
                fmt::format("trainer.ema: optimizer {} averages the weights itself", recipe.optimizer.type))
        .hint("leave trainer.ema out, or take another optimizer");
  return std::make_unique<optim::Ema>(std::move(made), ema.decay, ema.warmup);
}

}  // namespace hone::training
