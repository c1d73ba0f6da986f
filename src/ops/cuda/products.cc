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

// Factors side by side along one dimension: one matrix, which may be there already.
struct SideBySide {
  std::vector<at::Tensor> parts;
  std::int64_t dim;

  std::int64_t size() const {
    std::int64_t all = 0;
    for (const at::Tensor& x : parts) all += x.size(dim);
    return all;
  }
  // Each begins where the one before it ends, in the same memory, and rows are as far apart as one of all wants.
  bool are_neighbours() const {
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const at::Tensor &x = parts[i - 1], &next = parts[i];
      const auto* const end = static_cast<const char*>(x.const_data_ptr()) +
                              x.size(dim) * x.stride(dim) * static_cast<std::int64_t>(x.element_size());
      if (next.const_data_ptr() != end || next.strides() != x.strides() || !next.is_alias_of(x)) return false;
    }
    const std::int64_t least = dim == 1 ? size() : parts[0].size(1);
    return parts[0].stride(1) == 1 && parts[0].stride(0) >= least;
  }
  std::int64_t bytes_copied() const {
    std::int64_t bytes = 0;
    if (!are_neighbours())
      for (const at::Tensor& x : parts) bytes += 2 * static_cast<std::int64_t>(x.nbytes());
    return bytes;
  }
  at::Tensor joined() const {
    if (!are_neighbours()) return at::cat(parts, dim);
    std::array<std::int64_t, 2> sizes{parts[0].size(0), parts[0].size(1)};
    sizes[static_cast<std::size_t>(dim)] = size();
    return parts[0].as_strided(sizes, parts[0].strides());
  }
};

// Several products are one of their factors side by side, summed up before it is rounded. Whether to copy those there
// that are not moves fewer bytes than sums in fp32 would, which each further product reads and writes.
struct OneProduct {
  explicit OneProduct(const std::vector<Factors>& factors) : a{{}, 1}, b{{}, 0} {
    for (const Factors& f : factors) a.parts.push_back(f.a_MK), b.parts.push_back(f.b_KN);
  }
  bool is_less(const at::Tensor& out) const {
    constexpr std::int64_t kWide = 4, kAligned = 8;  // rows that begin elsewhere are multiplied slowly
    if (a.size() % kAligned != 0) return false;
    const auto products = static_cast<std::int64_t>(a.parts.size());
    const std::int64_t each = kWide + 2 * kWide * (products - 1) + kWide;  // written; read and written; read at the end
    return a.bytes_copied() + b.bytes_copied() < out.numel() * each;
  }
  Factors joined() const { return {a.joined(), b.joined()}; }
  SideBySide a, b;
};

// What an adapter adds to a product is of little depth. It is rounded by itself and starts the other one's sum, which
// costs a pass over the result; sums in fp32 would cost four.
constexpr std::int64_t kMuchDeeper = 8;
bool is_much_deeper(const Factors& a, const Factors& b) { return a.a_MK.size(1) >= kMuchDeeper * b.a_MK.size(1); }
void multiply_after(at::Tensor& out, const Factors& deep, const Factors& shallow) {
  multiply_alike(out, shallow, false);
  multiply_alike(out, deep, true);
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
  if (narrow_out && !add && factors.size() == 2) {
    if (is_much_deeper(factors[0], factors[1])) return multiply_after(out, factors[0], factors[1]);
    if (is_much_deeper(factors[1], factors[0])) return multiply_after(out, factors[1], factors[0]);
  }
  if (narrow_out && !add)
    if (const OneProduct one(factors); one.is_less(out)) return multiply_alike(out, one.joined(), false);
  at::Tensor sum = narrow_out ? at::empty(out.sizes(), out.options().dtype(wide)) : out;
  if (narrow_out && add) sum.copy_(out);
  for (const Factors& f : factors) {
    multiply_wide(sum, f, add);
    add = true;
  }
  if (narrow_out) out.copy_(sum);
}

void with_bias_into(at::Tensor& out, const std::vector<Factors>& factors, const at::Tensor& bias) {
  if (factors.size() == 1) {
    at::addmm_out(out, bias, factors[0].a_MK, factors[0].b_KN);
  } else {
    into(out, factors, false);
    out.add_(bias);
  }
}

void with_packed(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, at::Tensor& /*packed*/) {
  into(out, {{a, b}}, false);
}

constexpr std::size_t kWeightsTogether = 4;
constexpr int kFewThreads = 128;
// What a block shares for weights on their way, at most for rows and the norm's weights, and by the kernel's own
// variables: so much that two blocks each of two kernels have room on a multiprocessor of 9.0, where rows are as short
// as they mostly are.
constexpr std::int64_t kStepsRoom = 3 * 8 * kFewThreads * kAccessBytes, kMostRowsRoom = 44 << 10, kOwnRoom = 2 << 10;

bool few_takes(const at::Tensor& x_RI, const LinearWeight& w) {
  const auto fits = [&](const at::Tensor& x) { return x.is_contiguous() && x.scalar_type() == x_RI.scalar_type(); };
  return x_RI.size(0) <= kFewRows && fits(w.weight_OI) && (!w.bias_O.defined() || fits(w.bias_O)) &&
         most_room(x_RI) >= kStepsRoom + kOwnRoom;
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
// Blocks for so many warps, up to half of those that a GPU runs at once: their warps take what is left one after
// another, a block makes its rows' norm only once, and the next kernel's find room beside them.
Grid warps_for(const at::Tensor& x, std::int64_t warps, std::int64_t rows_room) {
  constexpr std::int64_t kAtOnce = 2;
  return {.x = std::min(ceil_div(warps, kFewThreads / 32), kAtOnce * multiprocessors(x)),
          .threads = kFewThreads,
          .shared_bytes = kStepsRoom + rows_room,
          .early = true};
}
// The one of two kernels, for one row in whole accesses or for more.
bool is_one_row(const at::Tensor& x, bool wide) { return wide && x.size(0) == 1; }
std::int64_t outs_of_warp(const at::Tensor& x, bool wide) { return is_one_row(x, wide) ? 2 : 4; }

// What rows are the norm of, as the kernels take it: with nothing defined they are x itself.
struct FewNorm {
  explicit FewNorm(const at::Tensor& x) : x(x) {}
  explicit FewNorm(const NormedRows& rows)
      : x(rows.x_RI.contiguous()), residual(rows.residual_RI), weight(rows.norm_I), eps(rows.form.eps) {
    if (residual.defined()) residual = residual.contiguous(), sum = at::empty_like(x);
  }
  // What is only read where there is one.
  bool wide() const { return wide_rows(x.size(1), {x, residual, weight, sum}); }
  std::int64_t rows_room() const { return weight.defined() ? room_of(x) : 0; }
  static std::int64_t room_of(const at::Tensor& x_RI) {  // with the norm's weights
    return static_cast<std::int64_t>(x_RI.nbytes()) / x_RI.size(0) * (x_RI.size(0) + 1);
  }
  NormedProducts made(std::vector<at::Tensor> products) const { return {sum.defined() ? sum : x, std::move(products)}; }
  at::Tensor x, residual, weight, sum;
  double eps = 0;
};
bool takes_norm(const NormedRows& rows) {
  const auto fits = [&](const at::Tensor& x) { return !x.defined() || x.scalar_type() == rows.x_RI.scalar_type(); };
  const std::int64_t room = FewNorm::room_of(rows.x_RI);
  return rows.form.factor == RmsFactor::weight && room <= kMostRowsRoom &&
         kStepsRoom + room + kOwnRoom <= most_room(rows.x_RI) && fits(rows.residual_RI) && fits(rows.norm_I) &&
         rows.norm_I.is_contiguous();
}

// With up to kWeightsTogether weights, in one launch.
void multiply_few(const FewNorm& norm, std::span<const LinearWeight> weights, std::span<const at::Tensor> made) {
  const at::Tensor& x = norm.x;
  std::array<const void*, kWeightsTogether> from{}, bias{};
  std::array<void*, kWeightsTogether> to{};
  std::array<std::int64_t, kWeightsTogether> outs{};
  bool wide = norm.wide();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const LinearWeight& w = weights[i];
    from[i] = parameter(w.weight_OI), bias[i] = parameter(w.bias_O), to[i] = parameter(made[i]);
    outs[i] = w.weight_OI.size(0);
    wide = wide && wide_rows(x.size(1), {w.weight_OI});
  }
  const int split = split_of(*std::max_element(outs.begin(), outs.end()), x.size(1));
  std::int64_t groups = 0;
  for (const std::int64_t count : outs) groups += ceil_div(count, outs_of_warp(x, wide));
  const Grid grid = warps_for(x, groups * split, norm.rows_room());
  launch({"skinny", is_one_row(x, wide) ? "products_of_row" : "products"}, x, grid, x, from, bias, to, outs, x.size(1),
         static_cast<int>(x.size(0)), split, norm.residual, norm.weight, norm.sum, norm.eps, wide);
}

bool few_take(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  return std::all_of(weights.begin(), weights.end(), [&](const auto& w) { return few_takes(x_RI, w); });
}
std::vector<at::Tensor> rooms_of(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  std::vector<at::Tensor> made;
  for (const LinearWeight& w : weights) made.push_back(room_of(x, w));
  return made;
}

std::vector<at::Tensor> skinny(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  if (!few_take(x_RI, weights)) return reference_table::products().skinny(x_RI, weights);
  const FewNorm rows(x_RI.contiguous());
  std::vector<at::Tensor> made = rooms_of(rows.x, weights);
  constexpr std::size_t kTogether = kWeightsTogether;
  for (std::size_t first = 0; first < weights.size(); first += kTogether) {
    const std::size_t count = std::min(kTogether, weights.size() - first);
    multiply_few(rows, std::span(weights).subspan(first, count), std::span(made).subspan(first, count));
  }
  return made;
}

void multiply_gated(const FewNorm& norm, const LinearWeight& gate, const LinearWeight& up, Activation activation,
                    const at::Tensor& y) {
  const at::Tensor& x = norm.x;
  const std::int64_t outs = gate.weight_OI.size(0), in = x.size(1);
  const bool wide = norm.wide() && wide_rows(in, {gate.weight_OI, up.weight_OI});
  const Grid grid = warps_for(x, ceil_div(outs, outs_of_warp(x, wide) / 2), norm.rows_room());
  launch({"skinny", is_one_row(x, wide) ? "gated_products_of_row" : "gated_products"}, x, grid, x, gate.weight_OI,
         gate.bias_O, up.weight_OI, up.bias_O, y, outs, in, static_cast<int>(x.size(0)), static_cast<int>(activation),
         norm.residual, norm.weight, norm.sum, norm.eps, wide);
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  if (!few_takes(x_RI, gate) || !few_takes(x_RI, up)) {
    const std::vector<at::Tensor> both = reference_table::products().skinny(x_RI, {gate, up});
    return elementwise().gated(both[0], both[1], activation);
  }
  const FewNorm rows(x_RI.contiguous());
  const at::Tensor y = room_of(rows.x, gate);
  multiply_gated(rows, gate, up, activation, y);
  return y;
}

NormedProducts norm_skinny(const NormedRows& rows, const std::vector<LinearWeight>& weights) {
  if (!takes_norm(rows) || weights.size() > kWeightsTogether || !few_take(rows.x_RI, weights)) {
    const RmsNormed norm = norms().rms_norm(rows.x_RI, rows.residual_RI, rows.norm_I, rows.form);
    return {norm.sum, skinny(norm.normed, weights)};
  }
  const FewNorm norm(rows);
  const std::vector<at::Tensor> made = rooms_of(norm.x, weights);
  multiply_few(norm, weights, made);
  return norm.made(made);
}

NormedProducts norm_skinny_gated(const NormedRows& rows, const LinearWeight& gate, const LinearWeight& up,
                                 Activation activation) {
  if (!takes_norm(rows) || !few_take(rows.x_RI, {gate, up})) {
    const RmsNormed norm = norms().rms_norm(rows.x_RI, rows.residual_RI, rows.norm_I, rows.form);
    return {norm.sum, {skinny_gated(norm.normed, gate, up, activation)}};
  }
  const FewNorm norm(rows);
  const at::Tensor y = room_of(norm.x, gate);
  multiply_gated(norm, gate, up, activation, y);
  return norm.made({y});
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
  return {.into = into,
          .with_packed = with_packed,
          .skinny = skinny,
          .skinny_gated = skinny_gated,
          .grouped = by_groups,
          .over_groups = over_rows,
          .to_float8 = cast_to_float8,
          .float8_into = float8_products,
          .float8_by = float8_by,
          .norm_skinny = norm_skinny,
          .norm_skinny_gated = norm_skinny_gated,
          .with_bias_into = with_bias_into,
          .joins_neighbours = true};
}

}  // namespace hone::ops::cuda_table
