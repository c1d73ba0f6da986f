// AdamW for weights that an optimizer of matrices leaves out: norms, biases, embeddings, heads.
#pragma once

#include <memory>
#include <vector>

#include "optim/frame.h"
#include "optim/split.h"

namespace hone::optim {

// `adamw` of such an optimizer. Its schedule is that optimizer's.
struct Rest {
  double learning_rate = 3e-4;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8, weight_decay = 0.01;
  static constexpr auto fields() {
    using C = Rest;
    constexpr OnResume record = OnResume::record;
    return std::tuple{field("learning_rate", &C::learning_rate, "Peak learning rate.", at_least(0), record),
                      field("betas", &C::betas, kBetasDoc, kShare, record),
                      field("eps", &C::eps, kEpsDoc, at_least(0), record),
                      field("weight_decay", &C::weight_decay,
                            "Share of a weight, times the learning rate, that is taken off each step; norms and biases "
                            "are left out.",
                            at_least(0), record)};
  }
  void validate(Problems& problems) const { check_betas(betas, 2, problems); }
};

std::unique_ptr<Optimizer> make_adamw(const Rest& rest, const config::Choice<Schedule>& schedule, bool decay_all);

// Main's, called `name`, and AdamW, as main's Config says in `adamw`.
template <class Main>
std::vector<Split::Part> with_rest(const std::string& name, const typename Main::Config& config) {
  std::vector<Split::Part> parts;
  parts.push_back({name, std::make_unique<Main>(config)});
  parts.push_back({"adamw", make_adamw(config.adamw, config.schedule, config.decay_all)});
  return parts;
}

}  // namespace hone::optim
