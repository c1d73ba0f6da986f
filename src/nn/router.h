// A router whose choice goes by groups of experts and may be corrected, as DeepSeek's: ops/grouped_router.h.
//
// Letters: N tokens, D hidden, E experts.
#pragma once

#include <cstdint>

#include "hone/model.h"
#include "hone/module.h"
#include "ops/grouped_router.h"
#include "ops/row_groups.h"

namespace hone::nn {

class GroupedRouter final : public Module {
 public:
  struct Options {
    ops::GroupedRule rule = {};
    bool corrected = false;  // whether there is a correction
    // How much more or less an expert's correction becomes after an update in which it had fewer or more tokens than
    // the mean; 0: corrections stay as they are.
    double correction_rate = 0;
    const char *weight = "weight", *correction = "e_score_correction_bias";  // their names
  };
  GroupedRouter(std::int64_t hidden, std::int64_t experts, const Options& options, double std);
  // Logits are made in fp32 at least, of what the run's weights are: a rounded one would turn the choice.
  ops::Choice operator()(const Tensor& x_ND, const Pass& pass) const;
  // In training: how many tokens each expert was given, for the correction.
  void observe(const ops::RowGroups& slots, Pass& pass) const;

 private:
  Options options_;
  Weight& weight_;
  Weight* correction_ = nullptr;  // null: none
};

}  // namespace hone::nn
