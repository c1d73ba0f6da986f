// The loss of a language-model head: its meaning, and the same in chunks of tokens with the gradients made on the way.
//
// Letters: N tokens, D hidden, V vocabulary, S supervised tokens, C tokens of a chunk.
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "base/sections.h"
#include "hone/error.h"
#include "hone/gradient_sum.h"
#include "ops/backend.h"
#include "ops/column_sum.h"
#include "ops/divergence.h"
#include "ops/entropy.h"
#include "ops/head_losses.h"
#include "ops/kept_sum.h"
#include "ops/soft_cap.h"
#include "ops/stored_divergence.h"
#include "tensor/host.h"

namespace hone::ops {
namespace reference {

at::Tensor token_losses(const at::Tensor& logits_NV, const at::Tensor& lse_N, const at::Tensor& labels_N,
                        const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  const at::Tensor at_label_N = logits_NV.gather(-1, labels_N.unsqueeze(-1)).squeeze(-1);
  at::Tensor loss_N = (1 - smoothing) * (lse_N - at_label_N) + options.z_loss * lse_N.square();
  if (smoothing != 0) loss_N = loss_N + smoothing * (lse_N - logits_NV.mean(-1));
  return loss_N;
}

at::Tensor token_weights(const at::Tensor& logits_NV, const at::Tensor& lse_N, const at::Tensor& labels_N,
                         const at::Tensor& weight_N, const CrossEntropyOptions& options) {
  at::Tensor made_N = weight_N;
  if (options.by_entropy_of > 0)
    made_N = made_N * entropy_of_likeliest(logits_NV.detach(), options.by_entropy_of).pow(options.entropy_power);
  if (!options.by_probability) return made_N;
  const at::Tensor at_label_N = logits_NV.detach().gather(-1, labels_N.unsqueeze(-1)).squeeze(-1);
  return made_N * (at_label_N - lse_N.detach()).exp();
}

}  // namespace reference

namespace {

// right: 1 or 0 of each token.
LossSums sums_of(const at::Tensor& right_S, const at::Tensor& lse_S, const at::Tensor& weight_S, double z_loss) {
  return {weight_S.sum(), (right_S * weight_S).sum(), z_loss * (lse_S.square() * weight_S).sum()};
}

// The same with a teacher, of divergences and losses of labels.
LossSums sums_of(const at::Tensor& right_S, const TaughtLosses& taught, const at::Tensor& weight_S) {
  const auto total = [&](const at::Tensor& values_S) {
    return (values_S.detach() * weight_S).masked_fill(weight_S == 0, 0).sum();
  };
  return {weight_S.sum(), total(right_S), at::zeros({}, weight_S.options()), total(taught.divergence_N),
          total(taught.label_N)};
}

at::Tensor right_of(const at::Tensor& logits_SV, const at::Tensor& labels_S) {
  const at::Tensor label_S = logits_SV.gather(-1, labels_S.unsqueeze(-1)).squeeze(-1);
  return label_S.ge(logits_SV.amax(-1)).to(logits_SV.scalar_type());
}

TaughtLosses taught_losses_of(const at::Tensor& logits_SV, const at::Tensor& labels_S, const Teacher& teacher) {
  if (teacher.said) return reference::stored_losses(logits_SV, labels_S, teacher);
  const at::Tensor made_SV = at::linear(teacher.hidden_NE, teacher.head_VE).to(logits_SV.scalar_type());
  return reference::taught_losses(logits_SV, soft_capped(made_SV, teacher.soft_cap), labels_S, teacher);
}

// Of logits_SV in fp32 at least. The teacher's hidden states are those of these tokens.
at::Tensor taught_loss_of(const at::Tensor& logits_SV, const Supervised& s, const Teacher& teacher, LossSums* sums) {
  const TaughtLosses made = taught_losses_of(logits_SV, s.labels_S, teacher);
  if (sums) *sums = sums_of(right_of(logits_SV.detach(), s.labels_S), made, s.weight_S);
  return (made.losses_N * s.weight_S).masked_fill(s.weight_S == 0, 0).sum();
}

at::Tensor loss_of(const at::Tensor& logits_SV, const Supervised& s, const CrossEntropyOptions& options,
                   LossSums* sums) {
  if (options.teacher) return taught_loss_of(logits_SV, s, *options.teacher, sums);
  const at::Tensor lse_S = logits_SV.logsumexp(-1);
  if (sums) *sums = sums_of(right_of(logits_SV.detach(), s.labels_S), lse_S.detach(), s.weight_S, options.z_loss);
  const at::Tensor weight_S = reference::token_weights(logits_SV, lse_S, s.labels_S, s.weight_S, options);
  return (reference::token_losses(logits_SV, lse_S, s.labels_S, options) * weight_S).sum();
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits_NV, const at::Tensor& labels_N, const at::Tensor& weight_N,
                         const CrossEntropyOptions& options, LossSums* sums) {
  return loss_of(logits_NV, all_of(labels_N, weight_N, logits_NV.size(1), logits_NV.scalar_type()), options, sums);
}

namespace reference {

at::Tensor linear_cross_entropy(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                                const at::Tensor& weight_N, const CrossEntropyOptions& options, LossSums* sums) {
  const auto wide = at::toOpMathType(hidden_ND.scalar_type());
  const Supervised s = supervised(labels_N, weight_N, head_VD.size(0), wide);
  const TaughtOptions those(options, s.index_S);
  at::Tensor logits_SV = at::linear(hidden_ND.index_select(0, s.index_S), head_VD);
  if (options.bias) logits_SV = logits_SV + options.bias->bias_V;
  logits_SV = logits_SV.to(wide);
  return loss_of(soft_capped(logits_SV, options.soft_cap), s, those.options, sums);
}

}  // namespace reference

namespace {

// What the loss was multiplied with further on: on the host a number, on a device a tensor, for which nobody waits.
class Scale {
 public:
  Scale(at::Tensor tensor, bool on_host) : tensor_(std::move(tensor)), on_host_(on_host) {
    if (on_host) number_ = host::own_number(tensor_);
  }
  void multiply(at::Tensor& x) const {
    if (on_host_) {
      if (number_ != 1.0) x.mul_(number_);
      return;
    }
    const auto by_kernel = backend_of(x).elementwise.multiply;
    by_kernel ? by_kernel(x, tensor_) : static_cast<void>(x.mul_(tensor_));
  }
  void add(at::Tensor& sum, const at::Tensor& x) const { on_host_ ? sum.add_(x, number_) : sum.addcmul_(x, tensor_); }
  void write(at::Tensor& sum, const at::Tensor& x) const {
    at::mul_out(sum, x, on_host_ ? at::scalar_tensor(number_) : tensor_);
  }
  at::Tensor times(const at::Tensor& x, at::ScalarType type) const {
    if (!x.defined()) return x;
    if (!on_host_) return (x.to(tensor_.scalar_type()) * tensor_).to(type);
    return (number_ == 1.0 ? x : x * number_).to(type);
  }

 private:
  at::Tensor tensor_;
  bool on_host_;
  double number_ = 1;
};

// The gradient that a loss will have which is divided by this, as autograd makes it, so that it is the same to the bit;
// 1 where nothing is divided, as nothing counts.
at::Tensor expected_gradient(const at::Tensor& divisor, at::ScalarType type) {
  const at::Tensor there = divisor.to(type), one = at::ones_like(there);
  return at::where(there == 0, one, one / there);
}
// Whether gradients are made for what is known of it beforehand: where it costs nothing to look whether it was so. fp16
// has no room for such small ones.
bool expects(const CrossEntropyOptions& options, const at::Tensor& head_VD) {
  return options.divisor && backend_of(head_VD).elementwise.multiply && head_VD.scalar_type() != at::kHalf;
}

// Where statistics go; undefined: not wanted. An undefined tensor is no argument of an autograd function.
struct Statistics {
  at::Tensor to_S4;
};

std::optional<at::Tensor> bias_of(const CrossEntropyOptions& options) {
  return options.bias ? std::optional(options.bias->bias_V) : std::nullopt;
}

class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& hidden_SD,
                            const at::Tensor& head_VD, const std::optional<at::Tensor>& bias_V, const Supervised& s,
                            const CrossEntropyOptions& options, bool with_gradients, const Statistics& statistics) {
    HeadGradients wanted{with_gradients && hidden_SD.requires_grad(), {}};
    const auto wide = at::toOpMathType(head_VD.scalar_type());
    if (with_gradients && bias_V && bias_V->requires_grad())
      wanted.dbias_V = at::zeros(bias_V->sizes(), head_VD.options().dtype(wide).requires_grad(false));
    bool lent = false;
    if (with_gradients && head_VD.requires_grad()) {  // summed in fp32 at least, in its place if that is free
      lent = options.head_sum && options.head_sum->state == GradientSum::State::empty;
      if (lent) options.head_sum->state = GradientSum::State::lent;
      wanted.dhead_VD =
          lent ? options.head_sum->sum
               : at::empty(head_VD.sizes(), head_VD.options().dtype(wide));
    }
    const bool expected = wanted.any() && expects(options, head_VD);
    LossTargets targets{s.labels_S, s.weight_S};
    if (expected) {
      const at::Tensor gradient = expected_gradient(*options.divisor, s.weight_S.scalar_type());
      targets.weight_C = s.weight_S * gradient;
      ctx->saved_data["expected"] = gradient;
    }
    HeadLosses made = head_losses(hidden_SD, head_VD, targets, options, wanted, statistics.to_S4);
    // In saved_data rather than save_for_backward: they are nobody else's.
    ctx->saved_data["dhidden"] = made.dhidden_SD;
    ctx->saved_data["dhead"] = wanted.dhead_VD;
    ctx->saved_data["dbias"] = wanted.dbias_V;
    ctx->saved_data["bias_sum"] = to_number(options.bias ? options.bias->sum : nullptr);
    ctx->saved_data["lent"] = lent;
    ctx->saved_data["on_host"] = backend_of(head_VD).on_host;
    ctx->saved_data["type"] = static_cast<std::int64_t>(head_VD.scalar_type());
    ctx->saved_data["sum"] = to_number(options.head_sum);
    const at::Tensor sum = made.losses_S.sum();
    return expected ? sum / saved(ctx, "expected") : sum;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const sections::Timed section(sections::Section::loss);
    const at::Tensor expected = saved(ctx, "expected");
    const Scale scale(expected.defined() ? grads[0] / expected : grads[0], ctx->saved_data["on_host"].toBool());
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    auto* sum = to_sum(ctx->saved_data["sum"].toInt());
    at::Tensor dhidden = saved(ctx, "dhidden"), dhead = saved(ctx, "dhead");
    const bool lent = ctx->saved_data["lent"].toBool(), summed = lent || (sum && sum->takes() && dhead.defined());
    if (lent) {
      scale.multiply(dhead);
      sum->fill();
    } else if (summed) {
      sum->full() ? scale.add(sum->sum, dhead) : scale.write(sum->sum, dhead);
      sum->fill();
    }
    if (expected.defined() && dhidden.defined()) scale.multiply(dhidden);  // by 1, if it was right
    if (!expected.defined()) dhidden = scale.times(dhidden, type);
    return {dhidden,
            summed ? at::Tensor() : scale.times(dhead, type),
            of_bias(ctx, scale, type),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }

 private:
  // Undefined: into its sum.
  static at::Tensor of_bias(torch::autograd::AutogradContext* ctx, const Scale& scale, at::ScalarType type) {
    at::Tensor dbias = saved(ctx, "dbias");
    if (!dbias.defined()) return dbias;
    scale.multiply(dbias);
    return row_gradient(dbias.unsqueeze(0), type, to_sum(ctx->saved_data["bias_sum"].toInt()));
  }
  static at::Tensor saved(torch::autograd::AutogradContext* ctx, const char* name) {
    const c10::IValue& value = ctx->saved_data[name];  // not there: none
    return value.isTensor() ? value.toTensor() : at::Tensor();
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                                const at::Tensor& weight_N, const CrossEntropyOptions& options, LossSums* sums) {
  const Backend* backend = are_rows_for(hidden_ND, head_VD) ? backend_for({hidden_ND, head_VD}) : nullptr;
  if (!backend) return reference::linear_cross_entropy(hidden_ND, head_VD, labels_N, weight_N, options, sums);
  const Supervised s = (backend->on_host ? supervised : all_of)(labels_N, weight_N, head_VD.size(0),
                                                                at::toOpMathType(head_VD.scalar_type()));
  const bool all = !s.index_S.defined() || s.index_S.numel() == hidden_ND.size(0);
  const at::Tensor hidden_SD = all ? hidden_ND : hidden_ND.index_select(0, s.index_S);
  Statistics statistics;
  if (sums) statistics.to_S4 = at::empty({s.labels_S.numel(), 4}, s.weight_S.options());
  const TaughtOptions those(options, all ? at::Tensor() : s.index_S);
  const at::Tensor loss =
      CrossEntropyFunction::apply(hidden_SD, head_VD, bias_of(options), s, those.options, at::GradMode::is_enabled(),
                                  statistics);
  if (!sums) return loss;
  const auto column = [&](std::int64_t which) { return statistics.to_S4.select(1, which); };
  *sums = options.teacher ? sums_of(column(2), TaughtLosses{{}, column(0), column(1)}, s.weight_S)
                          : sums_of(column(2), column(3), s.weight_S, options.z_loss);
  return loss;
}

}  // namespace hone::ops
