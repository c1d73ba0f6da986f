// Rows of slots by a device's table: timed, as what is not a product.
//
// Letters: N tokens, K experts of each, S = N K slots, D hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/sections.h"
#include "ops/backend.h"

namespace hone::ops {

template <class Run>
auto by_table(const at::Tensor& x, Run&& run) {
  const sections::Timed section(sections::Section::elementwise);
  return run(backend_of(x).routed);
}
// The token of each slot.
inline at::Tensor rows_of_slots(const at::Tensor& x_ND, const at::Tensor& slot_S) {
  return by_table(x_ND, [&](const Backend::Routed& table) { return table.take(x_ND, slot_S); });
}
// Of each token its slots' rows, times their weights where they are defined.
inline at::Tensor add_up(const at::Tensor& y_SD, const at::Tensor& place_NK, const at::Tensor& weight_NK) {
  return by_table(y_SD, [&](const Backend::Routed& table) { return table.add_up(y_SD, place_NK, weight_NK); });
}

}  // namespace hone::ops
