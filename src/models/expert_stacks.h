// Routed experts as some files have them: of all experts one weight of gate and up, and one of down.
//
// Letters in tensor names: D hidden, I inner.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "hone/module.h"
#include "ops/experts.h"

namespace hone::models {

class ExpertStacks final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;  // inner: of one expert
    std::int64_t experts = 1, per_token = 1;
    double std = 0.02;
    const char *gate_up = "gate_up_proj", *down = "down_proj";  // their names
  };
  explicit ExpertStacks(const Options& options) : o(options) {
    for (Weight* weight : {&gate_up, &down}) {
      weight->set_use(WeightUse::stack);
      weight->set_share_of_tokens(static_cast<double>(o.per_token) / static_cast<double>(o.experts));
    }
  }

  std::vector<ops::GatedMlpWeights> each() const {
    const auto gate_up_ID = gate_up.use().view({2 * o.experts, o.inner, o.hidden}).unbind();
    const auto down_DI = down.use().unbind();
    std::vector<ops::GatedMlpWeights> all;
    for (std::size_t e = 0; e < down_DI.size(); ++e)
      all.push_back({{gate_up_ID[2 * e]}, {gate_up_ID[2 * e + 1]}, {down_DI[e]}});
    return all;
  }

 private:
  const Options o;
  Weight& gate_up = parameter(o.gate_up, {o.experts, 2 * o.inner, o.hidden}, {.std = o.std});
  Weight& down = parameter(o.down, {o.experts, o.hidden, o.inner}, {.std = o.std});
};

}  // namespace hone::models
