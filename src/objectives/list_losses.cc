// Losses of queries with texts.
//
// Letters: Q queries, N texts of a query.
#include "objectives/list_losses.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr double kNowhere = -std::numeric_limits<double>::infinity(), kLowest = -1e30;

// Places of a list, from 1 on.
Tensor ranks_N(const Tensor& like_QN) { return at::arange(1, like_QN.size(1) + 1, like_QN.options()); }

Tensor discount(const Tensor& ranks) { return (1 + ranks).log2(); }

// Row by column.
Tensor differences_QNN(const Tensor& values_QN) { return values_QN.unsqueeze(2) - values_QN.unsqueeze(1); }

// In the order of the model's scores, the best first.
nn::TextLists in_order(const nn::TextLists& lists) {
  const Tensor shown_QN = lists.score_QN.detach().masked_fill(lists.there_QN.logical_not(), kNowhere);
  const Tensor order = std::get<1>(shown_QN.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  return {lists.score_QN.gather(1, order), lists.worth_QN.gather(1, order), lists.there_QN.gather(1, order)};
}

// What a text is worth of what the best order would give (NDCG).
Tensor gain_QN(const nn::TextLists& lists) {
  constexpr double kLeastGain = 1e-10;
  const Tensor shown_QN = lists.worth_QN.clamp_min(0).masked_fill(lists.there_QN.logical_not(), 0);
  const Tensor best_QN = std::get<0>(shown_QN.sort(/*dim=*/1, /*descending=*/true)).exp2() - 1;
  const Tensor most_Q1 = (best_QN / discount(ranks_N(best_QN))).sum(1, /*keepdim=*/true).clamp_min(kLeastGain);
  return (shown_QN.exp2() - 1) / most_Q1;
}

// How much each pair's order counts (Wang et al., 2018, The LambdaLoss Framework for Ranking Metric Optimization).
Tensor weights_QNN(const nn::TextLists& ordered, const ListLossSettings& settings) {
  const Tensor gain = gain_QN(ordered), rank_N = ranks_N(gain), inverse_N = discount(rank_N).reciprocal();
  if (settings.weighting_scheme == WeightingScheme::ndcg_loss1) return (gain * inverse_N).unsqueeze(2);
  const Tensor gains_QNN = differences_QNN(gain).abs();
  const Tensor swapped_NN = (inverse_N.unsqueeze(1) - inverse_N.unsqueeze(0)).abs();
  if (settings.weighting_scheme == WeightingScheme::lambda_rank) return swapped_NN * gains_QNN;
  const Tensor apart_NN = (rank_N.unsqueeze(1) - rank_N.unsqueeze(0)).abs();
  const Tensor moved_NN = (discount(apart_NN.clamp_min(1)).reciprocal() - discount(apart_NN + 1).reciprocal())
                              .masked_fill(apart_NN.eq(0), 0);
  if (settings.weighting_scheme == WeightingScheme::ndcg_loss2) return moved_NN * gains_QNN;
  return (settings.mu * moved_NN + swapped_NN) * gains_QNN;
}

bool is_of_all_pairs(const ListLossSettings& settings) {
  return settings.type == ListLoss::lambda && settings.weighting_scheme == WeightingScheme::ndcg_loss1;
}

// How unlikely the order of each two is in which the better one is above (Burges et al., 2005), in bits.
Tensor of_two(const nn::TextLists& lists, const ListLossSettings& settings) {
  const nn::TextLists ordered = in_order(lists);
  Tensor counted_QNN = ordered.there_QN.unsqueeze(2) & ordered.there_QN.unsqueeze(1);
  if (!is_of_all_pairs(settings)) counted_QNN = counted_QNN & differences_QNN(ordered.worth_QN).gt(0);
  Tensor lost_QNN = -at::log_sigmoid(settings.sigma * differences_QNN(ordered.score_QN)) / std::numbers::ln2;
  if (settings.type == ListLoss::lambda) lost_QNN = lost_QNN * weights_QNN(ordered, settings);
  return (lost_QNN * counted_QNN.to(lost_QNN.scalar_type())).sum();
}

// How likely the model finds each text to be the best, as the data have it (Cao et al., 2007).
Tensor list_net(const nn::TextLists& lists) {
  const Tensor none_QN = lists.there_QN.logical_not();
  const Tensor wanted_QN = lists.worth_QN.masked_fill(none_QN, kNowhere).softmax(1);
  const Tensor found_QN = lists.score_QN.masked_fill(none_QN, kNowhere).log_softmax(1).masked_fill(none_QN, 0);
  return -(wanted_QN * found_QN).sum();
}

// How likely the whole order is, text by text (Xia et al., 2008); plist_mle: the first ones count more (Lan et al.,
// 2014).
Tensor list_mle(const nn::TextLists& lists, bool by_place) {
  const Tensor worth_QN = lists.worth_QN.masked_fill(lists.there_QN.logical_not(), kNowhere);
  const Tensor order = std::get<1>(worth_QN.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  const Tensor there_QN = lists.there_QN.gather(1, order);
  const Tensor score_QN = lists.score_QN.gather(1, order).masked_fill(there_QN.logical_not(), kLowest);
  Tensor lost_QN = score_QN.flip({1}).logcumsumexp(1).flip({1}) - score_QN;
  if (by_place) {  // 2^(texts - place) - 1, of all of a list 1
    const Tensor texts_Q1 = there_QN.sum(1, /*keepdim=*/true).to(score_QN.scalar_type());
    const Tensor weight_QN = ((1 - ranks_N(score_QN)).exp2() - (1 - texts_Q1).exp2()).clamp_min(0);
    lost_QN = lost_QN * (weight_QN / weight_QN.sum(1, /*keepdim=*/true));
  }
  return lost_QN.masked_fill(there_QN.logical_not(), 0).sum();
}

// How far a text's place, as a sum of what is likely to stand above it, is from its own; the first ones count more
// (ADR-MSE: Li et al., 2024, arXiv:2410.00812). Equals share their places.
Tensor adr_mse(const nn::TextLists& lists, double alpha) {
  const auto type = lists.score_QN.scalar_type();
  const Tensor there_QN = lists.there_QN.to(type), there_Q1N = there_QN.unsqueeze(1);
  const Tensor worth_QNN = differences_QNN(lists.worth_QN);
  const Tensor better_QNN = worth_QNN.lt(0).to(type), equal_QNN = worth_QNN.eq(0).to(type);
  const Tensor place_QN = (better_QNN * there_Q1N).sum(2) + ((equal_QNN * there_Q1N).sum(2) + 1) / 2;
  const Tensor above_QNN = (-alpha * differences_QNN(lists.score_QN)).sigmoid() * there_Q1N;
  const Tensor found_QN = 1 + above_QNN.sum(2) - 0.5 * there_QN;
  return ((place_QN - found_QN).square() / discount(place_QN) * there_QN).sum();
}

// How far the margins of the first text over the others are from those of the data (Hofstätter et al., 2020,
// arXiv:2010.02666).
Tensor margin_mse(const nn::TextLists& lists) {
  const auto margins = [](const Tensor& values_QN) { return values_QN.narrow(1, 0, 1) - values_QN; };
  const Tensor lost_QN = (margins(lists.score_QN) - margins(lists.worth_QN)).square();  // of the first with itself 0
  return (lost_QN * lists.there_QN.to(lost_QN.scalar_type())).sum();
}

// How unlikely the first text is among all (Henderson et al., 2017, arXiv:1705.00652).
Tensor of_first(const nn::TextLists& lists, const ListLossSettings& settings) {
  const bool squashed = settings.activation == ScoreActivation::sigmoid;
  const Tensor shown_QN = settings.scale * (squashed ? lists.score_QN.sigmoid() : lists.score_QN);
  return -shown_QN.masked_fill(lists.there_QN.logical_not(), kNowhere).log_softmax(1).select(1, 0).sum();
}

}  // namespace

Tensor sum_of_list_losses(const nn::TextLists& lists, const ListLossSettings& settings) {
  switch (settings.type) {
    case ListLoss::lambda:
    case ListLoss::rank_net:
      return of_two(lists, settings);
    case ListLoss::list_net:
      return list_net(lists);
    case ListLoss::list_mle:
    case ListLoss::plist_mle:
      return list_mle(lists, settings.type == ListLoss::plist_mle);
    case ListLoss::adr_mse:
      return adr_mse(lists, settings.alpha);
    case ListLoss::multiple_negatives_ranking:
      return of_first(lists, settings);
    case ListLoss::margin_mse:
      break;
  }
  return margin_mse(lists);
}

const char* counted_in(const ListLossSettings& settings) {
  if (settings.type == ListLoss::adr_mse) return "texts";
  const bool of_pairs = settings.type == ListLoss::lambda || settings.type == ListLoss::rank_net ||
                        settings.type == ListLoss::margin_mse;
  return of_pairs ? "pairs" : "queries";
}

double count_in(const Batch& batch, const ListLossSettings& settings) {
  const std::vector<std::vector<std::int64_t>> queries = nn::texts_of_queries(batch);
  const std::string counted = counted_in(settings);
  if (counted == "texts") return static_cast<double>(batch.docs.size());
  if (counted == "queries") return static_cast<double>(queries.size());
  const auto said = batch.extra.find("score");
  Tensor score_S2;  // without one the first text is worth more than the others; a device without numbers has none
  if (said != batch.extra.end() && !said->second.is_meta()) score_S2 = host::read(said->second.contiguous());
  const auto worth = [&](std::int64_t doc) -> double {
    const auto at = static_cast<std::size_t>(2 * doc);
    if (score_S2.defined() && host::values<double>(score_S2)[at + 1] != 0) return host::values<double>(score_S2)[at];
    return batch.docs[static_cast<std::size_t>(doc)].role == Role::chosen ? 1 : 0;
  };
  double pairs = 0;
  for (const auto& texts : queries) {
    const auto count = static_cast<double>(texts.size());
    if (settings.type == ListLoss::margin_mse) pairs += count - 1;
    if (is_of_all_pairs(settings)) pairs += count * count;
    if (settings.type == ListLoss::margin_mse || is_of_all_pairs(settings)) continue;
    for (const std::int64_t one : texts)
      for (const std::int64_t other : texts) pairs += worth(one) > worth(other);
  }
  return pairs;
}

}  // namespace hone::objectives
