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

  static Backend::Routed all() { return {slots, take, add_up, gated_backward}; }
};

}  // namespace hone::ops
