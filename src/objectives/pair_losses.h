// The losses of pairs, by name.
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
// answer's tokens, fp64; and how many tokens these are. (Or what an objective takes for it: their mean, of one token.)
struct LogRatios {
  Tensor chosen_P, rejected_P;
  Tensor chosen_tokens_P, rejected_tokens_P;
  Tensor weights_P = {};  // what pairs count for, without a graph; undefined: all 1
};

// How far a model is from the reference (Wang et al., 2023, arXiv:2309.16240), by the names that TRL has for it.
enum class Divergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };
// What losses see in place of the log-ratios: the divergence's derivative at how many times as likely an answer is,
// less a constant that both sides have. alpha: of alpha_divergence.
LogRatios divergence_scores(Divergence which, double alpha, const LogRatios& ratios);

struct PairLossOptions {
  double beta = 0.1, label_smoothing = 0, discopop_tau = 0.05;
  double target_margin = 0;  // by how much the chosen answer's reward is to be the higher one
};

// Of each pair. Formulas are those of the papers that pair_losses.cc names, as TRL's DPOTrainer has them.
Tensor pair_loss(PairLoss which, const LogRatios& ratios, const PairLossOptions& options);
bool smooths_labels(PairLoss which);
bool is_of_differences(PairLoss which);  // it sees how far both sides' log-ratios are apart, and nothing else

// Of mean log-probabilities, how much larger the chosen answer's odds p / (1 - p) are than the rejected one's, as a
// logarithm; finite for answers that are certain, too.
Tensor log_odds_ratio(const LogRatios& means);

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::Divergence> =
    std::to_array<std::pair<hone::objectives::Divergence, std::string_view>>(
        {{hone::objectives::Divergence::reverse_kl, "reverse_kl"},
         {hone::objectives::Divergence::forward_kl, "forward_kl"},
         {hone::objectives::Divergence::js_divergence, "js_divergence"},
         {hone::objectives::Divergence::alpha_divergence, "alpha_divergence"}});
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
