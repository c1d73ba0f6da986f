// How likely whole answers are to a model.
#include "objectives/answer_log_probs.h"

#include <ATen/ATen.h>

#include "hone/layers.h"
#include "tensor/by_document.h"

namespace hone::objectives {

Tensor of_documents(const ops::TokenLogProbs& tokens, const Batch& batch) {
  return sums_by_document(tokens.log_probs_N * batch.weight_BT.flatten().to(tokens.log_probs_N.scalar_type()), batch);
}

Tensor answer_log_probs(const RoleModel& role, const Batch& batch, const std::string& who) {
  const CausalLm& model = require_causal_lm(role.model, who);
  Pass pass(batch);
  pass.adapter = role.adapter;
  const Output output = model.forward(batch, pass);
  return of_documents(model.head().log_probs(output.hidden_BTD, batch.labels_BT, pass, false), batch);
}

Tensor learnt_tokens(const Batch& batch) {
  return sums_by_document(batch.labels_BT.flatten().ne(-100).to(at::kDouble), batch);
}

Tensor statistic_S(TokenStatistic which, const ops::TokenLogProbs& tokens, const Batch& batch) {
  return sums_by_document(tokens.statistics_N4.select(1, static_cast<std::int64_t>(which)), batch);
}

void add_token_mean(const std::string& name, const Tensor& sum_S, const Tensor& learnt_S, const Tensor& of_P,
                    LossTerms& result) {
  const auto total = [&](const Tensor& of_S) { return of_P.defined() ? of_S.index_select(0, of_P).sum() : of_S.sum(); };
  result.means.push_back({name, total(sum_S), total(learnt_S)});
}

}  // namespace hone::objectives
