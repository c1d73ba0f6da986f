// Routed experts: each token through the few gated MLPs that it was given to, their results added up by weight.
//
// Letters: N tokens, E experts, K experts of a token, S = N K slots, D hidden, I inner.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/linear.h"
#include "ops/row_groups.h"

namespace hone::ops {

// Which tokens each expert works on: slots n K + k, sorted by expert and within one by token. Nothing is dropped.
struct Routing {
  at::Tensor slot_S;    // the slots in that order
  at::Tensor place_NK;  // and where in it each slot stands
  RowGroups slots;      // of each expert
};
// On a device nobody waits for it.
Routing route(const at::Tensor& expert_NK, std::int64_t experts);

// sum over k of weight[n, k] * mlp of expert[n, k](x[n]), added in the order of k: equal runs give equal bits. The sums
// and weight_NK, which may have a graph, are fp32 (fp64 for fp64). A weight of an expert without tokens gets a gradient
// of zeros. REQUIRES: no biases.
at::Tensor routed_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                      const std::vector<GatedMlpWeights>& experts, Activation activation);

// The same with any expert, for which the host has to know how many tokens each has: run(expert, its tokens).
at::Tensor routed(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                  const std::function<at::Tensor(std::size_t expert, const at::Tensor& x_SD)>& run);

namespace reference {
at::Tensor routed_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                      const std::vector<GatedMlpWeights>& experts, Activation activation);
}  // namespace reference

}  // namespace hone::ops
