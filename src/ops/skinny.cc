// Products of few rows, by the device's table.
#include "ops/skinny.h"

#include "hone/error.h"
#include "ops/backend.h"

namespace hone::ops {

std::vector<at::Tensor> skinny_products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  HONE_ASSERT(x_RI.dim() == 2 && x_RI.size(0) <= kSkinnyRows);
  return backend_of(x_RI).products.skinny(x_RI, weights);
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  HONE_ASSERT(x_RI.dim() == 2 && x_RI.size(0) <= kSkinnyRows && gate.weight_OI.sizes() == up.weight_OI.sizes());
  return backend_of(x_RI).products.skinny_gated(x_RI, gate, up, activation);
}

}  // namespace hone::ops
