// How likely whole answers are to a model.
#include "objectives/answer_log_probs.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "hone/layers.h"
#include "tensor/by_document.h"
#include "tensor/host.h"
#include "tensor/pairs.h"

namespace hone::objectives {

namespace {

// Of each token: which of its document's learnt ones it is, from 1 on.
Tensor place_among_learnt(const Tensor& learnt_N, const Tensor& documents_N, const Batch& batch) {
  std::vector<std::int64_t> begins;
  for (const Doc& doc : batch.docs) begins.push_back(doc.row * batch.length() + doc.begin);
  const Tensor begin_S = host::tensor_of(begins, {std::ssize(begins)}).to(learnt_N.device(), /*non_blocking=*/true);
  const Tensor count_N = learnt_N.cumsum(0);
  return count_N - each_token((count_N - learnt_N).index_select(0, begin_S), documents_N);
}

// 1, and `tail` behind the length of the pair's shorter answer (LD-DPO: Liu et al., 2024, arXiv:2409.06411).
Tensor tail_weights(const Batch& batch, double tail) {
  const Tensor learnt_N = batch.labels_BT.flatten().ne(-100).to(at::kDouble), learnt_S = learnt_tokens(batch);
  const Tensor documents_N = documents_of_tokens(batch);
  const Pairs pairs = pairs_of(batch);
  const Tensor shorter_P =
      at::minimum(learnt_S.index_select(0, pairs.chosen_P), learnt_S.index_select(0, pairs.rejected_P));
  const Tensor shorter_S =
      at::zeros_like(learnt_S).index_copy(0, pairs.chosen_P, shorter_P).index_copy(0, pairs.rejected_P, shorter_P);
  const Tensor behind_N = place_among_learnt(learnt_N, documents_N, batch).gt(each_token(shorter_S, documents_N));
  return at::where(behind_N, at::full_like(learnt_N, tail), at::ones_like(learnt_N));
}

}  // namespace

Tensor of_documents(const ops::TokenLogProbs& tokens, const Batch& batch, double tail_weight) {
  Tensor weight_N = batch.weight_BT.flatten();
  if (tail_weight != 1) weight_N = weight_N * tail_weights(batch, tail_weight);
  return sums_by_document(tokens.log_probs_N * weight_N.to(tokens.log_probs_N.scalar_type()), batch);
}

Tensor answer_log_probs(const RoleModel& role, const Batch& batch, const std::string& who, double tail_weight) {
  const CausalLm& model = require_causal_lm(role.model, who);
  Pass pass(batch);
  pass.adapter = role.adapter;
  const Output output = model.forward(batch, pass);
  return of_documents(model.head().log_probs(output.hidden_BTD, batch.labels_BT, pass, false), batch, tail_weight);
}

// By chunks, as of a large vocabulary the logits of all tokens would be much. A device's host does not know which
// tokens are learnt.
Tensor log_sum_squares(const Model& model, const Tensor& hidden_BTD, const Batch& batch, const Pass& pass) {
  constexpr std::int64_t kLogits = 1 << 23;
  const c10::NoGradGuard no_grad;
  const nn::Head& head = model.causal_lm()->head();
  const Tensor hidden_ND = hidden_BTD.detach().flatten(0, 1), learnt_N = batch.labels_BT.flatten().ne(-100);
  const std::int64_t count = hidden_ND.size(0);
  const Tensor index_S =
      hidden_ND.is_cpu() ? learnt_N.nonzero().flatten() : at::arange(count, learnt_N.options().dtype(at::kLong));
  const std::int64_t step = std::max<std::int64_t>(1, kLogits / head.vocab_size());
  Tensor made_N;
  for (std::int64_t begin = 0; begin < index_S.numel(); begin += step) {
    const Tensor index_C = index_S.narrow(0, begin, std::min(step, index_S.numel() - begin));
    const Tensor logits_CV = head.logits(hidden_ND.index_select(0, index_C), pass);
    const Tensor made_C = (2 * logits_CV).logsumexp(1) - 2 * logits_CV.logsumexp(1);
    if (!made_N.defined()) made_N = at::zeros({count}, made_C.options());
    made_N = made_N.index_copy(0, index_C, made_C);
  }
  return made_N.defined() ? made_N * learnt_N : at::zeros({count}, hidden_ND.options().dtype(at::kFloat));
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
