// Products of few rows, by the device's table.
#include "ops/skinny.h"

#include <ATen/ATen.h>

#include "hone/error.h"
#include "ops/backend.h"

namespace hone::ops {
namespace {

// One group after another.
template <class Run>
at::Tensor by_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups, Run&& run) {
  std::vector<at::Tensor> made;
  std::int64_t begin = 0;
  for (std::size_t g = 0; g < groups.size(); begin += groups[g++].rows)
    made.push_back(run(g, x_SI.narrow(0, begin, groups[g].rows)));
  return at::cat(made);
}

void check(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups) {
  std::int64_t rows = 0;
  for (const SkinnyGroup& group : groups) {
    HONE_ASSERT(group.rows > 0 && group.rows <= kSkinnyRows && group.weight->low_ranks.empty());
    HONE_ASSERT(group.weight->weight_OI.sizes() == groups[0].weight->weight_OI.sizes());
    rows += group.rows;
  }
  HONE_ASSERT(x_SI.dim() == 2 && rows > 0 && rows == x_SI.size(0));
}

}  // namespace

std::vector<at::Tensor> skinny_products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  HONE_ASSERT(x_RI.dim() == 2 && x_RI.size(0) <= kSkinnyRows);
  return backend_of(x_RI).products.skinny(x_RI, weights);
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  HONE_ASSERT(x_RI.dim() == 2 && x_RI.size(0) <= kSkinnyRows && gate.weight_OI.sizes() == up.weight_OI.sizes());
  return backend_of(x_RI).products.skinny_gated(x_RI, gate, up, activation);
}

at::Tensor skinny_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups) {
  check(x_SI, groups);
  if (const auto all = backend_of(x_SI).products.skinny_groups) return all(x_SI, groups);
  return by_groups(x_SI, groups, [&](std::size_t g, const at::Tensor& x_RI) {
    return skinny_products(x_RI, {*groups[g].weight})[0];
  });
}

at::Tensor skinny_gated_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& gates,
                               const std::vector<SkinnyGroup>& ups, Activation activation) {
  check(x_SI, gates);
  HONE_ASSERT(ups.size() == gates.size());
  if (const auto all = backend_of(x_SI).products.skinny_gated_groups) return all(x_SI, gates, ups, activation);
  return by_groups(x_SI, gates, [&](std::size_t g, const at::Tensor& x_RI) {
    return skinny_gated(x_RI, *gates[g].weight, *ups[g].weight, activation);
  });
}

}  // namespace hone::ops
