// Matrix products in plain ATen.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/gated.h"
#include "ops/float8_emulation.h"
#include "ops/group_loop.h"
#include "ops/reference/table.h"

namespace hone::ops::reference_table {
namespace {

// A product of narrow factors is rounded to their type: good for one, not for what is added up.
void into(at::Tensor& out, const std::vector<Factors>& factors, bool add) {
  const auto type = factors[0].a_MK.scalar_type(), wide = at::toOpMathType(type);
  if (type == wide || (factors.size() == 1 && out.scalar_type() == type)) {
    for (const Factors& f : factors) {
      add ? out.addmm_(f.a_MK, f.b_KN) : out.copy_(at::mm(f.a_MK, f.b_KN));
      add = true;
    }
    return;
  }
  at::Tensor sum = add ? out : at::Tensor();
  for (const Factors& f : factors) {
    const at::Tensor product = at::mm(f.a_MK.to(wide), f.b_KN.to(wide));
    sum = sum.defined() ? sum + product : product;
  }
  out.copy_(sum);
}

void with_packed(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, at::Tensor& /*packed*/) {
  into(out, {{a, b}}, false);
}

at::Tensor product(const at::Tensor& x_RI, const LinearWeight& w) { return at::linear(x_RI, w.weight_OI, w.bias_O); }

std::vector<at::Tensor> skinny(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  std::vector<at::Tensor> made;
  for (const LinearWeight& w : weights) made.push_back(product(x_RI, w));
  return made;
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  return reference::gated(product(x_RI, gate), product(x_RI, up), activation);
}

}  // namespace

Backend::Products products() {
  using Loop = GroupLoop<into>;
  return {into,          with_packed,       skinny,             skinny_gated,
          Loop::grouped, Loop::over_groups, emulated_to_float8, emulated_float8_into<into>};
}

}  // namespace hone::ops::reference_table
