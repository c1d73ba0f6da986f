// Log-probabilities of labels: their meaning, and the same in chunks of tokens.
//
// Letters: N tokens, D hidden, V vocabulary, S tokens with a label.
#include "ops/log_probs.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hone/error.h"
#include "ops/backend.h"
#include "ops/cross_entropy.h"
#include "ops/head_losses.h"
#include "ops/kept_sum.h"
#include "ops/soft_cap.h"

namespace hone::ops {

namespace reference {

at::Tensor token_statistics(const at::Tensor& logits_NV, const at::Tensor& lse_N, const at::Tensor& labels_N) {
  const at::Tensor log_p_NV = logits_NV - lse_N.unsqueeze(-1);
  const at::Tensor at_label_N = logits_NV.gather(-1, labels_N.unsqueeze(-1)).squeeze(-1);
  return at::stack({-(log_p_NV.exp() * log_p_NV).sum(-1), logits_NV.mean(-1),
                    at_label_N.ge(logits_NV.amax(-1)).to(logits_NV.scalar_type()), lse_N},
                   -1);
}

}  // namespace reference

namespace {

// At the places of those that have a label, among all; 0 elsewhere.
at::Tensor spread(const at::Tensor& values_S, const Supervised& s, std::int64_t count) {
  if (!s.index_S.defined()) return values_S;
  auto sizes = values_S.sizes().vec();
  sizes[0] = count;
  return at::zeros(sizes, values_S.options()).index_copy(0, s.index_S, values_S);
}

// Of tokens that have a label, or of all. entropy_S undefined: not wanted.
TokenLogProbs made_of(const at::Tensor& log_probs_S, const at::Tensor& entropy_S, const at::Tensor& statistics_S4,
                      const Supervised& s, std::int64_t count) {
  // all_of(): those without a label have a weight of 0.
  const bool all = !s.index_S.defined();
  TokenLogProbs made{spread(all ? log_probs_S * s.weight_S : log_probs_S, s, count), {}};
  if (entropy_S.defined()) made.entropy_N = spread(all ? entropy_S * s.weight_S : entropy_S, s, count);
  if (statistics_S4.defined())
    made.statistics_N4 = spread(all ? statistics_S4 * s.weight_S.unsqueeze(1) : statistics_S4, s, count);
  return made;
}

at::Tensor rows_at(const at::Tensor& x_ND, const Supervised& s) {
  return s.index_S.defined() ? x_ND.index_select(0, s.index_S) : x_ND;
}

struct Wish {
  bool statistics = false, entropy = false;
};

TokenLogProbs of_logits(const at::Tensor& logits_SV, const Supervised& s, Wish wish, std::int64_t count) {
  const at::Tensor lse_S = logits_SV.logsumexp(-1);
  at::Tensor statistics, entropy_S;
  if (wish.statistics) statistics = reference::token_statistics(logits_SV.detach(), lse_S.detach(), s.labels_S);
  if (wish.entropy) {
    const at::Tensor log_p_SV = logits_SV - lse_S.unsqueeze(-1);
    entropy_S = -(log_p_SV.exp() * log_p_SV).sum(-1);
  }
  return made_of(-reference::token_losses(logits_SV, lse_S, s.labels_S, {}), entropy_S, statistics, s, count);
}

struct Call {
  const Supervised& s;
  at::Tensor statistics_S4;  // where they go; undefined: not wanted, nor are entropies
  const LogProbsOptions& options;
  bool with_gradients;
};

class LogProbsFunction : public torch::autograd::Function<LogProbsFunction> {
 public:
  // What labels have, and the entropies if they are asked for.
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const at::Tensor& hidden_SD,
                                                const at::Tensor& head_VD, const Call& call) {
    const bool dhead = call.with_gradients && head_VD.requires_grad(), entropy = call.options.with_entropy;
    const bool dhidden = call.with_gradients && hidden_SD.requires_grad(), again = dhead || (dhidden && entropy);
    HeadGradients wanted{.hidden = dhidden && !again};
    const at::Tensor ones_S = at::ones_like(call.s.weight_S);
    HeadLosses made = head_losses(hidden_SD, head_VD, {call.s.labels_S, ones_S}, {.soft_cap = call.options.soft_cap},
                                  wanted, call.statistics_S4);
    if (again) ctx->save_for_backward({hidden_SD, head_VD, call.s.labels_S});
    if (made.dhidden_SD.defined()) ctx->save_for_backward({made.dhidden_SD});
    ctx->saved_data["sum"] = to_number(call.options.head_sum);
    ctx->saved_data["soft_cap"] = call.options.soft_cap;
    ctx->saved_data["again"] = again;
    torch::autograd::variable_list all{made.losses_S.neg_()};
    if (entropy) all.push_back(call.statistics_S4.select(1, 0).clone());
    return all;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    torch::autograd::variable_list made(3);
    const at::Tensor scale_S = grads[0].neg();
    if (ctx->saved_data["again"].toBool()) {
      GradientSum* sum = to_sum(ctx->saved_data["sum"].toInt());
      const bool dhead = ctx->needs_input_grad(1), taken = dhead && sum && sum->takes();
      const auto wide = at::toOpMathType(saved[1].scalar_type());
      HeadGradients wanted{.hidden = ctx->needs_input_grad(0), .add = taken && sum->full()};
      if (dhead) wanted.dhead_VD = taken ? sum->sum : at::empty(saved[1].sizes(), saved[1].options().dtype(wide));
      const CrossEntropyOptions options{.soft_cap = ctx->saved_data["soft_cap"].toDouble()};
      const LossTargets targets{saved[2], scale_S, grads.size() > 1 ? grads[1] : at::Tensor()};
      made[0] = head_losses(saved[0], saved[1], targets, options, wanted).dhidden_SD;
      if (taken)
        sum->fill();
      else if (dhead)
        made[1] = wanted.dhead_VD.to(saved[1].scalar_type());
    } else if (!saved.empty()) {
      made[0] = (saved[0].to(scale_S.scalar_type()) * scale_S.unsqueeze(1)).to(saved[0].scalar_type());
    }
    return made;
  }
};

}  // namespace

namespace reference {

TokenLogProbs linear_log_probs(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                               bool with_statistics, double soft_cap, bool with_entropy) {
  const auto wide = at::toOpMathType(hidden_ND.scalar_type());
  const Supervised s = supervised(labels_N, {}, head_VD.size(0), wide);
  const at::Tensor logits_SV = soft_capped(at::linear(rows_at(hidden_ND, s), head_VD).to(wide), soft_cap);
  return of_logits(logits_SV, s, {with_statistics, with_entropy}, labels_N.numel());
}

}  // namespace reference

TokenLogProbs log_probs(const at::Tensor& logits_NV, const at::Tensor& labels_N, bool with_statistics,
                        bool with_entropy) {
  const Supervised s = all_of(labels_N, {}, logits_NV.size(1), logits_NV.scalar_type());
  return of_logits(logits_NV, s, {with_statistics, with_entropy}, labels_N.numel());
}

TokenLogProbs linear_log_probs(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                               bool with_statistics, const LogProbsOptions& options) {
  const Backend* backend = are_rows_for(hidden_ND, head_VD) ? backend_for({hidden_ND, head_VD}) : nullptr;
  if (!backend)
    return reference::linear_log_probs(hidden_ND, head_VD, labels_N, with_statistics, options.soft_cap,
                                       options.with_entropy);
  const auto wide = at::toOpMathType(head_VD.scalar_type());
  const Supervised s = (backend->on_host ? supervised : all_of)(labels_N, {}, head_VD.size(0), wide);
  at::Tensor statistics_S4;
  if (with_statistics || options.with_entropy)
    statistics_S4 = at::empty({s.labels_S.numel(), 4}, head_VD.options().dtype(wide).requires_grad(false));
  const auto made = LogProbsFunction::apply(rows_at(hidden_ND, s), head_VD,
                                            Call{s, statistics_S4, options, at::GradMode::is_enabled()});
  return made_of(made[0], options.with_entropy ? made[1] : at::Tensor(), with_statistics ? statistics_S4 : at::Tensor(),
                 s, labels_N.numel());
}

}  // namespace hone::ops
