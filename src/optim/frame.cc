// What is checked of options that several optimizers have.
#include "optim/frame.h"

namespace hone::optim {

void check_betas(const std::vector<double>& betas, std::size_t count, Problems& problems) {
  problems.require(betas.size() == count, "betas", fmt::format("got {} values, expected {}", betas.size(), count));
  for (const double beta : betas) problems.require(beta < 1, "betas", "got 1, expected less");
}

}  // namespace hone::optim
