// Rows of slots, as routed experts have them, in plain ATen and a table's own products of gate and up: what a table has
// that knows nothing better.
#pragma once

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/backend.h"

namespace hone::ops {

// kGated, kBackward: the table's, as Backend::Elementwise has them.
template <auto kGated, auto kBackward>
struct RoutedParts {
  static RoutedSlots slots(const at::Tensor& expert_NK, std::int64_t experts) {
    const auto options = expert_NK.options();
    const auto [sorted_S, slot_S] = at::sort(expert_NK.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const at::Tensor place_S = at::empty_like(slot_S).scatter_(0, slot_S, at::arange(slot_S.size(0), options));
    return {slot_S, place_S.view(expert_NK.sizes()), at::searchsorted(sorted_S, at::arange(experts + 1, options))};
  }

  static at::Tensor take(const at::Tensor& x_ND, const at::Tensor& slot_S) {
    return x_ND.index_select(0, at::floor_divide(slot_S, slot_S.size(0) / x_ND.size(0)));
  }

  static at::Tensor add_up(const at::Tensor& y_SD, const at::Tensor& place_NK, const at::Tensor& weight_NK) {
    const auto wide = at::toOpMathType(y_SD.scalar_type());
    at::Tensor sum_ND;
    for (std::int64_t k = 0; k < place_NK.size(1); ++k) {
      at::Tensor y_ND = y_SD.index_select(0, place_NK.select(1, k)).to(wide);
      if (weight_NK.defined()) y_ND.mul_(weight_NK.narrow(1, k, 1));
      sum_ND.defined() ? sum_ND.add_(y_ND) : sum_ND = y_ND;
    }
    return sum_ND.to(y_SD.scalar_type());
  }

  static RoutedGradients gated_backward(const at::Tensor& d_SI, const RoutedGated& saved, Activation activation) {
    const at::Tensor inner_SI = kGated(saved.gate_SI, saved.up_SI, activation);
    const at::Tensor weight_S1 = saved.weight_NK.flatten().index_select(0, saved.slot_S).unsqueeze(1);
    const at::Tensor dweight_S = (d_SI.to(weight_S1.scalar_type()) * inner_SI).sum(1);
    const at::Tensor dweight_NK = at::empty_like(saved.weight_NK, at::MemoryFormat::Contiguous);
    dweight_NK.view({-1}).index_copy_(0, saved.slot_S, dweight_S);
    inner_SI.mul_(weight_S1);
    const GatedGradients both = kBackward(d_SI.mul_(weight_S1), saved.gate_SI, saved.up_SI, activation,
                                          {.overwrite = true});
    return {inner_SI, both.gate, both.up, dweight_NK};
  }

  static RoutedChoice choose(const at::Tensor& logits_NE, const ChoiceOptions& options) {
    const at::Tensor probability_NE = at::softmax(logits_NE, -1, at::toOpMathType(logits_NE.scalar_type()));
    auto [weight_NK, expert_NK] = at::topk(probability_NE, options.per_token, -1);
    if (options.normalise) weight_NK = weight_NK / weight_NK.sum(-1, /*keepdim=*/true);
    return {probability_NE, weight_NK, expert_NK};
  }

  static at::Tensor choose_backward(const RoutedChoice& made, const ChoiceOptions& options,
                                    const at::Tensor& dweight_NK, const at::Tensor& dsum_E, at::ScalarType type) {
    const at::Tensor& probability_NE = made.probability_NE;
    at::Tensor slope_NE = at::zeros_like(probability_NE);
    if (dsum_E.defined()) slope_NE.add_(dsum_E);
    at::Tensor d_NK = dweight_NK;
    if (d_NK.defined() && options.normalise)
      d_NK = (d_NK - (d_NK * made.weight_NK).sum(-1, /*keepdim=*/true)) /
             probability_NE.gather(1, made.expert_NK).sum(-1, /*keepdim=*/true);
    if (d_NK.defined()) slope_NE.scatter_add_(1, made.expert_NK, d_NK);
    const at::Tensor mean_N1 = (probability_NE * slope_NE).sum(-1, /*keepdim=*/true);
    return slope_NE.sub_(mean_N1).mul_(probability_NE).to(type);
  }

  static at::Tensor spread(const at::Tensor& begin_E1, double weight) {
    const at::Tensor counts_E = at::diff(begin_E1).to(at::kDouble), share_E = counts_E / counts_E.sum();
    const at::Tensor largest = share_E.max() * static_cast<double>(share_E.size(0));
    const at::Tensor both = at::stack({largest, at::special_entr(share_E).sum(), at::ones({}, share_E.options())});
    return both.mul_(weight);
  }

  static Backend::Routed all() {
    return {slots, take, add_up, gated_backward, choose, choose_backward, spread};
  }
};

}  // namespace hone::ops
