// Sums in plain ATen: over columns, into a table, of losses; and whether values are finite.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/cross_entropy.h"
#include "ops/log_probs.h"
#include "ops/reference/table.h"
#include "tensor/host.h"

namespace hone::ops::reference_table {
namespace {

at::Tensor columns(const at::Tensor& x) {
  return at::sum(x.reshape({-1, x.size(-1)}), {0}, /*keepdim=*/true, at::toOpMathType(x.scalar_type()));
}

void join(const at::Tensor& sums_BO, const Target& to) {
  const at::Tensor sum = sums_BO.sum(0).view(to.out.sizes());
  to.add ? to.out.add_(sum) : to.out.copy_(sum);
}

// With `accumulate` equal ids are added in a fixed order on every device.
void add_to_table(const at::Tensor& dy, const at::Tensor& ids, std::int64_t skip, const at::Tensor& sum_VD) {
  const at::Tensor flat = ids.flatten(), left_out = flat.eq(skip).unsqueeze(1);
  const at::Tensor rows = dy.reshape({-1, dy.size(-1)}).to(sum_VD.scalar_type()).masked_fill(left_out, 0);
  sum_VD.index_put_({flat}, rows, /*accumulate=*/true);
}

void loss(at::Tensor& logits_CV, const LossTargets& targets, bool gradient, const CrossEntropyOptions& options,
          at::Tensor& losses_C, at::Tensor& statistics_C4) {
  const double smoothing = options.label_smoothing, vocab = static_cast<double>(logits_CV.size(1));
  const at::Tensor logits = logits_CV.to(targets.weight_C.scalar_type()), lse = logits.logsumexp(-1);
  const at::Tensor label_C1 = targets.labels_C.unsqueeze(1), weightless = targets.weight_C.eq(0);
  const at::Tensor weight_C = reference::token_weights(logits, lse, targets.labels_C, targets.weight_C, options);
  const at::Tensor each_C = reference::token_losses(logits, lse, targets.labels_C, options);
  losses_C.copy_((each_C * weight_C).masked_fill(weightless, 0));
  if (statistics_C4.defined()) statistics_C4.copy_(reference::token_statistics(logits, lse, targets.labels_C));
  if (!gradient) return;
  const at::Tensor scale = (1 + 2 * options.z_loss * lse).unsqueeze(1);  // of p, whose sum is one
  at::Tensor d = (logits - lse.unsqueeze(1)).exp() * scale - smoothing / vocab;
  d.scatter_add_(1, label_C1, at::full_like(label_C1, -(1 - smoothing), d.options()));
  logits_CV.copy_((d * weight_C.unsqueeze(1)).masked_fill(weightless.unsqueeze(1), 0));
}

bool all_finite(const at::Tensor& x) { return host::number(at::isfinite(x).all()) != 0; }

}  // namespace

at::Tensor likeliest(const at::Tensor& logits_RV) {
  return logits_RV.argmax(-1).masked_fill(logits_RV.isfinite().all(-1).logical_not(), -1);
}

// More than a host's cache holds is read from memory once for each thing that is made of it.
std::int64_t chunk_bytes() { return 16 << 20; }

Backend::Sums sums() { return {columns, join, add_to_table, loss, all_finite, likeliest, chunk_bytes}; }

}  // namespace hone::ops::reference_table
