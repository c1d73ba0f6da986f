// Norms by kernels of ours.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/cuda/program.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kSums = 256;  // rows of weights' gradients, which are then added up

void* address(const at::Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }

RmsNormed rms_norm(const at::Tensor& given, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  if (!has_kernel(given.scalar_type()))
    return reference_table::norms().rms_norm(given, residual, weight, eps);
  const at::Tensor x = given.contiguous(), beside = residual.defined() ? residual.contiguous() : residual;
  std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  const auto wide = x.options().dtype(at::toOpMathType(x.scalar_type()));
  RmsNormed made{beside.defined() ? at::empty_like(x) : x, at::empty_like(x), at::empty({rows}, wide)};
  void *in = address(x), *more = address(beside), *factor = address(weight), *sum = address(made.sum),
       *normed = address(made.normed), *inverse = address(made.inv_rms);
  cuda::launch("rms_norm", kernel_for("rms_norm", x.scalar_type()), blocks_for(rows), threads_for(columns),
               {&in, &more, &factor, &eps, &rows, &columns, &sum, &normed, &inverse});
  return made;
}

NormGradients rms_norm_backward(const at::Tensor& given, const at::Tensor& extra, const at::Tensor& weight,
                                const RmsNormed& saved) {
  if (!has_kernel(given.scalar_type()))
    return reference_table::norms().rms_norm_backward(given, extra, weight, saved);
  const at::Tensor dy = given.contiguous(), beside = extra.defined() ? extra.contiguous() : extra;
  const at::Tensor kept = saved.sum.contiguous();
  std::int64_t columns = dy.size(-1), rows = dy.numel() / columns;
  const std::int64_t blocks = blocks_for(rows, kSums);
  NormGradients made{at::empty_like(dy), at::empty({blocks, columns}, saved.inv_rms.options()), {}};
  void *gradient = address(dy), *more = address(beside), *factor = address(weight), *sum = address(kept),
       *inverse = address(saved.inv_rms), *dx = address(made.x), *weights = address(made.weight_BO);
  cuda::launch("rms_norm", kernel_for("rms_norm_backward", dy.scalar_type()), blocks, threads_for(columns),
               {&gradient, &more, &factor, &sum, &inverse, &rows, &columns, &dx, &weights});
  return made;
}

}  // namespace

Backend::Norms norms() {
  const Backend::Norms plain = reference_table::norms();
  return {rms_norm, rms_norm_backward, plain.layer_norm, plain.layer_norm_backward};
}

}  // namespace hone::ops::cuda_table
