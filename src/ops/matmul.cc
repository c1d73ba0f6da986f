// Matrix products: their time and work are counted, the device's table makes them.
#include "ops/matmul.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"

namespace hone::ops {
namespace {

double flop(const at::Tensor& out, const at::Tensor& a) {
  return 2.0 * static_cast<double>(out.numel()) * static_cast<double>(a.size(1));
}

}  // namespace

void matmul_into(at::Tensor& out_MN, const std::vector<Factors>& factors, bool add) {
  HONE_ASSERT(!factors.empty() && out_MN.dim() == 2);
  const sections::Timed section(sections::Section::matmul);
  for (const Factors& f : factors) sections::add_flop(flop(out_MN, f.a_MK));
  backend_of(factors[0].a_MK).products.into(out_MN, factors, add);
}

void matmul_with_bias_into(at::Tensor& out_MN, std::vector<Factors> factors, const at::Tensor& bias_N) {
  HONE_ASSERT(!factors.empty() && bias_N.dim() == 1);
  const at::Tensor& a = factors[0].a_MK;
  if (const auto own = backend_of(a).products.with_bias_into) {
    const sections::Timed section(sections::Section::matmul);
    for (const Factors& f : factors) sections::add_flop(flop(out_MN, f.a_MK));
    return own(out_MN, factors, bias_N);
  }
  if (at::toOpMathType(a.scalar_type()) == a.scalar_type()) {
    matmul_into(out_MN, factors);
    out_MN.add_(bias_N);
    return;
  }
  factors.push_back({at::ones({out_MN.size(0), 1}, a.options()), bias_N.unsqueeze(0)});
  matmul_into(out_MN, factors);
}

void grouped_matmul_into(at::Tensor& out_SN, const std::vector<GroupedFactors>& factors, const RowGroups& groups) {
  const sections::Timed section(sections::Section::matmul);
  for (const GroupedFactors& f : factors) sections::add_flop(flop(out_SN, f.a_SK));
  backend_of(out_SN).products.grouped(out_SN, factors, groups);
}

void matmul_over_groups(const at::Tensor& a_SM, const at::Tensor& b_SN, const RowGroups& groups,
                        const std::vector<Target>& to_MN) {
  const sections::Timed section(sections::Section::matmul);
  sections::add_flop(flop(b_SN, a_SM));
  backend_of(a_SM).products.over_groups(a_SM, b_SN, groups, to_MN);
}

void RightFactor::multiply_into(at::Tensor& out_MN, const at::Tensor& a_MK) {
  const sections::Timed section(sections::Section::matmul);
  sections::add_flop(flop(out_MN, a_MK));
  backend_of(a_MK).products.with_packed(out_MN, a_MK, b_KN_, packed_);
}

}  // namespace hone::ops
