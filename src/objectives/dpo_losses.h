// The losses of pairs that DPO can learn by.
//
// Letters: P pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/config.h"

namespace hone::objectives {

using at::Tensor;

enum class PairLoss {
  sigmoid,
  hinge,
  ipo,
  robust,
  exo_pair,
  nca_pair,
  bco_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  discopop,
  sigmoid_norm
};

// How much likelier answers are than with the reference: log-probabilities less the reference's, summed over an
// answer's tokens, fp64; and how many tokens these are.
struct LogRatios {
  Tensor chosen_P, rejected_P;
  Tensor chosen_tokens_P, rejected_tokens_P;
};

struct PairLossOptions {
  double beta, label_smoothing, discopop_tau;
};

// Of each pair. Formulas are those of the papers that dpo_losses.cc names, as TRL's DPOTrainer has them.
Tensor pair_loss(PairLoss which, const LogRatios& ratios, const PairLossOptions& options);
bool smooths_labels(PairLoss which);

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::PairLoss> =
    std::to_array<std::pair<hone::objectives::PairLoss, std::string_view>>(
        {{hone::objectives::PairLoss::sigmoid, "sigmoid"},
         {hone::objectives::PairLoss::hinge, "hinge"},
         {hone::objectives::PairLoss::ipo, "ipo"},
         {hone::objectives::PairLoss::robust, "robust"},
         {hone::objectives::PairLoss::exo_pair, "exo_pair"},
         {hone::objectives::PairLoss::nca_pair, "nca_pair"},
         {hone::objectives::PairLoss::bco_pair, "bco_pair"},
         {hone::objectives::PairLoss::sppo_hard, "sppo_hard"},
         {hone::objectives::PairLoss::apo_zero, "apo_zero"},
         {hone::objectives::PairLoss::apo_down, "apo_down"},
         {hone::objectives::PairLoss::discopop, "discopop"},
         {hone::objectives::PairLoss::sigmoid_norm, "sigmoid_norm"}});
