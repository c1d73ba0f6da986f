// The loss by a kernel of ours.
#include <ATen/ATen.h>

#include "ops/cuda/program.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

void loss(at::Tensor& logits_CV, const LossTargets& targets, bool gradient, const CrossEntropyOptions& options,
          at::Tensor& losses_C, at::Tensor& statistics_C4) {
  const bool dense = logits_CV.is_contiguous() && losses_C.is_contiguous() && targets.labels_C.is_contiguous() &&
                     targets.weight_C.is_contiguous() && (!statistics_C4.defined() || statistics_C4.is_contiguous());
  if (!has_kernel(logits_CV.scalar_type()) || !dense)
    return reference_table::sums().loss(logits_CV, targets, gradient, options, losses_C, statistics_C4);
  std::int64_t columns = logits_CV.size(1);
  int wanted = gradient ? 1 : 0;
  double smoothing = options.label_smoothing, z_loss = options.z_loss;
  void *logits = logits_CV.data_ptr(), *labels = targets.labels_C.data_ptr(), *weights = targets.weight_C.data_ptr(),
       *losses = losses_C.data_ptr(), *statistics = statistics_C4.defined() ? statistics_C4.data_ptr() : nullptr;
  cuda::launch("cross_entropy", kernel_for("cross_entropy", logits_CV.scalar_type()), logits_CV.size(0),
               columns > 8192 ? 1024 : threads_for(columns),
               {&logits, &columns, &labels, &weights, &wanted, &smoothing, &z_loss, &losses, &statistics});
}

}  // namespace

Backend::Sums sums() {
  Backend::Sums table = reference_table::sums();
  table.loss = loss;
  return table;
}

}  // namespace hone::ops::cuda_table
