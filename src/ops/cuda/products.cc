// Matrix products: cuBLAS's, with sums in fp32 of bf16 and fp16 factors, not rounded on the way where out is wider; of
// few rows by kernels of ours, which are bound by how fast the weights come from memory.
#include "ops/cuda/table.h"
#include "ops/group_loop.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

// out (+)= a b where out is wider than the factors.
void multiply_wide(at::Tensor& out, const Factors& f, bool add) {
  if (add)
    at::addmm_out(out, out, f.a_MK, f.b_KN, out.scalar_type());
  else
    at::mm_out(out, f.a_MK, f.b_KN, out.scalar_type());
}

// The same where out is of the factors' type, in its place: LibTorch would make one more matrix and copy it.
void multiply_alike(at::Tensor& out, const Factors& f, bool add) {
  if (add)
    at::addmm_out(out, out, f.a_MK, f.b_KN);
  else
    at::mm_out(out, f.a_MK, f.b_KN);
}

void into(at::Tensor& out, const std::vector<Factors>& factors, bool add) {
  const auto type = factors[0].a_MK.scalar_type(), wide = at::toOpMathType(type);
  const bool narrow_out = out.scalar_type() == type;
  if (!narrow_out && out.scalar_type() != wide) return reference_table::products().into(out, factors, add);
  if (type == wide || (factors.size() == 1 && narrow_out)) {
    for (const Factors& f : factors) {
      multiply_alike(out, f, add);
      add = true;
    }
    return;
  }
  at::Tensor sum = narrow_out ? at::empty(out.sizes(), out.options().dtype(wide)) : out;
  if (narrow_out && add) sum.copy_(out);
  for (const Factors& f : factors) {
    multiply_wide(sum, f, add);
    add = true;
  }
  if (narrow_out) out.copy_(sum);
}

void with_packed(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, at::Tensor& /*packed*/) {
  into(out, {{a, b}}, false);
}

// As many rows as the kernels take: above, cuBLAS reads weights as fast, and has tensor cores.
constexpr std::int64_t kFewRows = 8, kWeightsTogether = 4;
constexpr int kFewThreads = 128;

bool few_takes(const at::Tensor& x_RI, const LinearWeight& w) {
  const auto fits = [&](const at::Tensor& x) { return x.is_contiguous() && x.scalar_type() == x_RI.scalar_type(); };
  return x_RI.size(0) <= kFewRows && fits(w.weight_OI) && (!w.bias_O.defined() || fits(w.bias_O));
}
at::Tensor room_of(const at::Tensor& x_RI, const LinearWeight& w) {
  return at::empty({x_RI.size(0), w.weight_OI.size(0)}, x_RI.options());
}
// How many warps share a row of weights, so that there are enough of them for all multiprocessors where there are few
// outputs; by the shape alone.
int split_of(std::int64_t outs, std::int64_t in) {
  constexpr std::int64_t kEnoughOuts = 8192, kLeastValues = 1024;
  int split = 1;
  while (split < kFewThreads / 32 && 2 * split * outs <= kEnoughOuts && 2 * split * kLeastValues <= in) split *= 2;
  return split;
}
// A warp for so many outputs.
Grid warps_for(std::int64_t outs, std::int64_t each, std::int64_t weights) {
  return {.x = ceil_div(outs, each * (kFewThreads / 32)), .y = weights, .threads = kFewThreads, .early = true};
}

// With up to kWeightsTogether weights, in one launch.
void multiply_few(const at::Tensor& x, std::span<const LinearWeight> weights, std::span<const at::Tensor> made) {
  std::array<const void*, kWeightsTogether> from{}, bias{};
  std::array<void*, kWeightsTogether> to{};
  std::array<std::int64_t, kWeightsTogether> outs{};
  bool wide = true;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const LinearWeight& w = weights[i];
    from[i] = parameter(w.weight_OI), bias[i] = parameter(w.bias_O), to[i] = parameter(made[i]);
    outs[i] = w.weight_OI.size(0);
    wide = wide && wide_rows(x.size(1), {x, w.weight_OI});
  }
  const std::int64_t most = *std::max_element(outs.begin(), outs.end());
  const int split = split_of(most, x.size(1));
  const Grid grid = warps_for(most * split, 2, static_cast<std::int64_t>(weights.size()));
  launch({"skinny", "products"}, x, grid, x, from, bias, to, outs, x.size(1), static_cast<int>(x.size(0)), split, wide);
}

std::vector<at::Tensor> skinny(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  if (!std::all_of(weights.begin(), weights.end(), [&](const auto& w) { return few_takes(x_RI, w); }))
    return reference_table::products().skinny(x_RI, weights);
  const at::Tensor x = x_RI.contiguous();
  std::vector<at::Tensor> made;
  for (const LinearWeight& w : weights) made.push_back(room_of(x, w));
  constexpr std::size_t kTogether = kWeightsTogether;
  for (std::size_t first = 0; first < weights.size(); first += kTogether) {
    const std::size_t count = std::min(kTogether, weights.size() - first);
    multiply_few(x, std::span(weights).subspan(first, count), std::span(made).subspan(first, count));
  }
  return made;
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  if (!few_takes(x_RI, gate) || !few_takes(x_RI, up)) {
    const std::vector<at::Tensor> both = reference_table::products().skinny(x_RI, {gate, up});
    return elementwise().gated(both[0], both[1], activation);
  }
  const at::Tensor x = x_RI.contiguous(), y = room_of(x, gate);
  const std::int64_t outs = gate.weight_OI.size(0), in = x.size(1);
  const bool wide = wide_rows(in, {x, gate.weight_OI, up.weight_OI});
  launch({"skinny", "gated_products"}, x, warps_for(outs, 1, 1), x, gate.weight_OI, gate.bias_O, up.weight_OI,
         up.bias_O, y, outs, in, static_cast<int>(x.size(0)), static_cast<int>(activation), wide);
  return y;
}

void by_groups(at::Tensor& out, const std::vector<GroupedFactors>& factors, const RowGroups& groups) {
  if (!multiply_groups(out, factors, groups)) GroupLoop<into>::grouped(out, factors, groups);
}
void over_rows(const at::Tensor& a, const at::Tensor& b, const RowGroups& groups, const std::vector<Target>& to) {
  if (!multiply_over_groups(a, b, groups, to)) GroupLoop<into>::over_groups(a, b, groups, to);
}

constexpr int kFloat8Capability = 89;
Float8By float8_by(const at::Tensor& like) {
  return capability(like) >= kFloat8Capability ? Float8By::hardware : Float8By::nothing;
}

}  // namespace

Backend::Products products() {
  return {into, with_packed, skinny, skinny_gated, by_groups, over_rows, cast_to_float8, float8_products, float8_by};
}

}  // namespace hone::ops::cuda_table
