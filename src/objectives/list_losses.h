// Losses of queries with texts, each with a score: what they are worth is to be the order of the scores.
//
// Letters: Q queries, N texts of a query.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "hone/config.h"
#include "nn/text_lists.h"

namespace hone {
namespace objectives {
enum class ListLoss {
  lambda,
  rank_net,
  list_net,
  list_mle,
  plist_mle,
  adr_mse,
  margin_mse,
  multiple_negatives_ranking
};
enum class ScoreActivation { sigmoid, identity };
enum class WeightingScheme { ndcg_loss2pp, ndcg_loss2, lambda_rank, ndcg_loss1 };
}  // namespace objectives

template <>
inline constexpr auto config::enum_names<objectives::ListLoss> =
    std::to_array<std::pair<objectives::ListLoss, std::string_view>>(
        {{objectives::ListLoss::lambda, "lambda"},
         {objectives::ListLoss::rank_net, "rank_net"},
         {objectives::ListLoss::list_net, "list_net"},
         {objectives::ListLoss::list_mle, "list_mle"},
         {objectives::ListLoss::plist_mle, "plist_mle"},
         {objectives::ListLoss::adr_mse, "adr_mse"},
         {objectives::ListLoss::margin_mse, "margin_mse"},
         {objectives::ListLoss::multiple_negatives_ranking, "multiple_negatives_ranking"}});
template <>
inline constexpr auto config::enum_names<objectives::ScoreActivation> =
    std::to_array<std::pair<objectives::ScoreActivation, std::string_view>>(
        {{objectives::ScoreActivation::sigmoid, "sigmoid"}, {objectives::ScoreActivation::identity, "identity"}});
template <>
inline constexpr auto config::enum_names<objectives::WeightingScheme> =
    std::to_array<std::pair<objectives::WeightingScheme, std::string_view>>(
        {{objectives::WeightingScheme::ndcg_loss2pp, "ndcg_loss2pp"},
         {objectives::WeightingScheme::ndcg_loss2, "ndcg_loss2"},
         {objectives::WeightingScheme::lambda_rank, "lambda_rank"},
         {objectives::WeightingScheme::ndcg_loss1, "ndcg_loss1"}});

namespace objectives {

struct ListLossSettings {
  ListLoss type = ListLoss::lambda;
  WeightingScheme weighting_scheme = WeightingScheme::ndcg_loss2pp;
  double mu = 10, sigma = 1, alpha = 1;
  double scale = 10;  // of multiple_negatives_ranking, as the next
  ScoreActivation activation = ScoreActivation::sigmoid;
};

// The sum over queries, or over what counted_in() counts.
Tensor sum_of_list_losses(const nn::TextLists& lists, const ListLossSettings& settings);

// What the sum is divided by: "queries", "texts", or "pairs" of a query's texts: of which one is worth more than the
// other, or, of ndcg_loss1, all; of margin_mse the first with each other.
const char* counted_in(const ListLossSettings& settings);
double count_in(const Batch& batch, const ListLossSettings& settings);

}  // namespace objectives
}  // namespace hone
