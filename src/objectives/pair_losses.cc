// The table of the losses of pairs.
#include "objectives/pair_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hone::objectives {
namespace {

// A pair with its options: rewards are beta times the log-ratios.
struct Pair {
  const LogRatios& ratios;
  const PairLossOptions& options;
  Tensor chosen_P = options.beta * ratios.chosen_P, rejected_P = options.beta * ratios.rejected_P;
  Tensor margin_P = chosen_P - rejected_P - options.target_margin;
  // Of the log-ratios for each token of an answer.
  Tensor mean_margin_P() const {
    return ratios.chosen_P / ratios.chosen_tokens_P.clamp_min(1) -
           ratios.rejected_P / ratios.rejected_tokens_P.clamp_min(1);
  }
};

// Rafailov et al., 2023, arXiv:2305.18290; with label_smoothing cDPO, of its authors' note of 2023.
Tensor sigmoid(const Pair& pair) {
  const double wrong = pair.options.label_smoothing;
  Tensor loss_P = (1 - wrong) * -at::log_sigmoid(pair.margin_P);
  if (wrong > 0) loss_P = loss_P - wrong * at::log_sigmoid(-pair.margin_P);
  return loss_P;
}

// SLiC: Zhao et al., 2023, arXiv:2305.10425.
Tensor hinge(const Pair& pair) { return at::relu(1 - pair.margin_P); }

// Azar et al., 2023, arXiv:2310.12036, equation 17, where beta is called tau; by the token, as its authors computed it.
Tensor ipo(const Pair& pair) { return (pair.mean_margin_P() - 1 / (2 * pair.options.beta)).square(); }

// Chowdhury et al., 2024, arXiv:2403.00409: without bias where label_smoothing of the labels are wrong.
Tensor robust(const Pair& pair) {
  const double wrong = pair.options.label_smoothing;
  return (wrong * at::log_sigmoid(-pair.margin_P) - (1 - wrong) * at::log_sigmoid(pair.margin_P)) / (1 - 2 * wrong);
}

// Ji et al., 2024, arXiv:2402.00856, equation 16: the reverse divergence from labels that are smoothed.
Tensor exo_pair(const Pair& pair) {
  const double wrong = pair.options.label_smoothing;
  const Tensor right_P = at::log_sigmoid(pair.margin_P), other_P = at::log_sigmoid(-pair.margin_P);
  return right_P.exp() * (right_P - std::log1p(-wrong)) + other_P.exp() * (other_P - std::log(wrong));
}

// Chen et al., 2024, arXiv:2402.05369.
Tensor nca_pair(const Pair& pair) {
  return -at::log_sigmoid(pair.chosen_P) - 0.5 * at::log_sigmoid(-pair.chosen_P) -
         0.5 * at::log_sigmoid(-pair.rejected_P);
}

// Jung et al., 2024, arXiv:2404.04656, without the shift of rewards, for pairs.
Tensor bco_pair(const Pair& pair) { return -at::log_sigmoid(pair.chosen_P) - at::log_sigmoid(-pair.rejected_P); }

// Wu et al., 2024, arXiv:2405.00675, equation 4.7, where the chosen answer wins for certain.
Tensor sppo_hard(const Pair& pair) {
  const double half = 0.5 / pair.options.beta;
  return (pair.ratios.chosen_P - half).square() + (pair.ratios.rejected_P + half).square();
}

// D'Oosterlinck et al., 2024, arXiv:2408.06266, equations 7 and 8.
Tensor apo_zero(const Pair& pair) { return 1 - pair.chosen_P.sigmoid() + pair.rejected_P.sigmoid(); }
Tensor apo_down(const Pair& pair) { return pair.chosen_P.sigmoid() + 1 - pair.margin_P.sigmoid(); }

// Lu et al., 2024, arXiv:2406.08414, equation 5.
Tensor discopop(const Pair& pair) {
  const Tensor share_P = (pair.margin_P / pair.options.discopop_tau).sigmoid();
  return (1 - share_P) * -at::log_sigmoid(pair.margin_P) + share_P * (-pair.margin_P).exp();
}

// Length-normalised DPO: Lambert et al., 2024, arXiv:2411.15124.
Tensor sigmoid_norm(const Pair& pair) { return -at::log_sigmoid(pair.options.beta * pair.mean_margin_P()); }

// In the order of PairLoss.
constexpr Tensor (*kLosses[])(const Pair&) = {sigmoid,  hinge,     ipo,      robust,   exo_pair, nca_pair,
                                              bco_pair, sppo_hard, apo_zero, apo_down, discopop, sigmoid_norm};
static_assert(std::size(kLosses) == config::enum_names<PairLoss>.size());

constexpr double kMostExponent = 80;  // of alpha_divergence, as in TRL's fp32: a graph stays finite

// Of one side.
Tensor divergence_score(Divergence which, double alpha, const Tensor& ratio_P) {
  switch (which) {
    case Divergence::forward_kl:
      return 1 - (-ratio_P).exp();
    case Divergence::js_divergence:
      return std::log(2.0) + at::log_sigmoid(ratio_P);
    case Divergence::alpha_divergence:
      if (std::abs(alpha - 1) < 1e-6) return ratio_P;
      return (((alpha - 1) * ratio_P).clamp_max(kMostExponent).exp() - 1) / (alpha - 1);
    default:
      return ratio_P;
  }
}

// log(1 - e^x) for x below 0 (Maechler, 2012), of 0 nearly.
Tensor log_of_rest(const Tensor& given) {
  const Tensor x = given.clamp_max(-1e-12);
  return at::where(x > -std::log(2.0), (-x.expm1()).log(), (-x.exp()).log1p());
}

}  // namespace

Tensor log_odds_ratio(const LogRatios& means) {
  const auto log_odds = [](const Tensor& mean_P) { return mean_P - log_of_rest(mean_P); };
  return log_odds(means.chosen_P) - log_odds(means.rejected_P);
}

LogRatios divergence_scores(Divergence which, double alpha, const LogRatios& ratios) {
  LogRatios scores = ratios;
  scores.chosen_P = divergence_score(which, alpha, ratios.chosen_P);
  scores.rejected_P = divergence_score(which, alpha, ratios.rejected_P);
  return scores;
}

bool is_of_differences(PairLoss which) {
  constexpr PairLoss kThese[] = {PairLoss::sigmoid,  PairLoss::hinge,    PairLoss::ipo,         PairLoss::robust,
                                 PairLoss::exo_pair, PairLoss::discopop, PairLoss::sigmoid_norm};
  return std::find(std::begin(kThese), std::end(kThese), which) != std::end(kThese);
}

bool smooths_labels(PairLoss which) {
  return which == PairLoss::sigmoid || which == PairLoss::robust || which == PairLoss::exo_pair;
}

Tensor pair_loss(PairLoss which, const LogRatios& ratios, const PairLossOptions& options) {
  return kLosses[static_cast<std::size_t>(which)]({ratios, options});
}

}  // namespace hone::objectives
