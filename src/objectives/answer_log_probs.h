// How likely whole answers are to a model, of documents that are a prompt and an answer.
//
// Letters: N tokens, S documents, P some of them.
#pragma once

#include <string>

#include "hone/objective.h"
#include "ops/log_probs.h"

namespace hone::objectives {

// The role of the model that answers are compared with, and where its numbers are found.
inline constexpr const char *kReference = "reference", *kReferenceLogProbs = "reference_log_probs";

// Sums of the tokens' log-probabilities by document, times their weights, fp64 [S]. A graph through it. tail_weight:
// what learnt tokens count for besides that the longer answer of a pair has more than the other one, at its end.
Tensor of_documents(const ops::TokenLogProbs& tokens, const Batch& batch, double tail_weight = 1);
// The same by a model that is asked for it, without a graph. who: asks.
Tensor answer_log_probs(const RoleModel& role, const Batch& batch, const std::string& who, double tail_weight = 1);
// Of each learnt token the logarithm of the sum of all tokens' squared probabilities, [N], 0 elsewhere: of a token that
// is drawn from the model, how likely it is on average. Without a graph.
Tensor log_sum_squares(const Model& model, const Tensor& hidden_BTD, const Batch& batch, const Pass& pass);
// How many tokens of each document are learnt, fp64 [S].
Tensor learnt_tokens(const Batch& batch);

// What TokenLogProbs::statistics_N4 has of each token, added up by document, fp64 [S].
enum class TokenStatistic { entropy, mean_logit, right };
Tensor statistic_S(TokenStatistic which, const ops::TokenLogProbs& tokens, const Batch& batch);
// Its mean over the learnt tokens of some documents, as TRL logs it. of_P undefined: of all.
void add_token_mean(const std::string& name, const Tensor& sum_S, const Tensor& learnt_S, const Tensor& of_P,
                    LossTerms& result);

}  // namespace hone::objectives
