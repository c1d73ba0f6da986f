// The divergence from a teacher's stored log-probabilities.
//
// Letters: N tokens, K tokens that were said of each, V vocabulary, C tokens of a chunk.
#include "ops/stored_divergence.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <limits>

#include "ops/backend.h"

namespace hone::ops {
namespace {

// Of a chunk's room, as in taught_loss(): fewer tensors in fp32 are made of the logits here.
constexpr std::int64_t kPart = 32;

// The teacher's distribution of what it has said: 0 where there is no further token, and where it has said nothing.
struct SaidDistribution {
  at::Tensor p_NK, log_p_NK, absent_NK, silent_N;
};

SaidDistribution distribution_of(const Said& said, const Teacher& teacher, at::ScalarType type) {
  const at::Tensor log_NK = said.log_probs_NK.to(type) * (said.temperature / teacher.temperature);
  SaidDistribution made;
  made.absent_NK = said.log_probs_NK.isneginf();
  made.silent_N = made.absent_NK.all(-1);
  made.log_p_NK = at::log_softmax(log_NK, -1).masked_fill(made.absent_NK, 0);
  made.p_NK = made.log_p_NK.exp().masked_fill(made.absent_NK, 0);
  return made;
}

// The model's logarithms for the tokens that were said, of logits that the temperature has divided.
at::Tensor log_model_of(const at::Tensor& cooled_NV, const Said& said, const SaidDistribution& taught) {
  const at::Tensor there_NK = cooled_NV.gather(-1, said.ids_NK);
  if (!said.among) return there_NK - cooled_NV.logsumexp(-1, /*keepdim=*/true);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const at::Tensor silent_N1 = taught.silent_N.unsqueeze(-1);  // where all would be kept out
  return at::log_softmax(there_NK.masked_fill(taught.absent_NK.logical_and(~silent_N1), kNever), -1);
}

// Where p is 0 the model may be anywhere.
at::Tensor divergence_from(const SaidDistribution& taught, const at::Tensor& log_model_NK) {
  const at::Tensor apart_NK = (taught.log_p_NK - log_model_NK).masked_fill(taught.absent_NK, 0);
  return (taught.p_NK * apart_NK).sum(-1);
}

at::Tensor at_label(const at::Tensor& values_NV, const at::Tensor& labels_N) {
  return values_NV.gather(-1, labels_N.unsqueeze(-1)).squeeze(-1);
}

struct Part {
  at::Tensor logits_CV;
  Said said;
  LossTargets targets;
  at::Tensor losses_C, statistics_C4;
};

void compute(Part part, bool gradient, const Teacher& teacher) {
  const auto wide = at::toOpMathType(part.logits_CV.scalar_type());
  const double t = teacher.temperature, w = teacher.weight;
  const at::Tensor logits_CV = part.logits_CV.to(wide), cooled_CV = t == 1 ? logits_CV : logits_CV / t;
  const SaidDistribution taught = distribution_of(part.said, teacher, wide);
  const at::Tensor log_model_CK = log_model_of(cooled_CV, part.said, taught);
  const at::Tensor lse_C = logits_CV.logsumexp(-1);
  const at::Tensor divergence_C = t * t * divergence_from(taught, log_model_CK);
  const at::Tensor label_C = lse_C - at_label(logits_CV, part.targets.labels_C);
  // What is not learnt may be anything, not finite, too.
  const at::Tensor weightless_C = part.targets.weight_C == 0;
  const auto counted = [&](const at::Tensor& values_C) { return values_C.masked_fill(weightless_C, 0); };
  part.losses_C.copy_(counted((w * divergence_C + (1 - w) * label_C) * part.targets.weight_C));
  if (part.statistics_C4.defined()) {
    const at::Tensor right_C = at_label(logits_CV, part.targets.labels_C).ge(logits_CV.amax(-1)).to(wide);
    part.statistics_C4.copy_(at::stack({counted(divergence_C), counted(label_C), right_C, lse_C}, -1));
  }
  if (!gradient) return;
  at::Tensor gradient_CV;
  if (part.said.among) {
    gradient_CV = at::zeros_like(logits_CV);
    gradient_CV.scatter_add_(-1, part.said.ids_NK, log_model_CK.exp().masked_fill(taught.absent_NK, 0));
  } else {
    gradient_CV = at::softmax(cooled_CV, -1).masked_fill_(taught.silent_N.unsqueeze(-1), 0);
  }
  gradient_CV.scatter_add_(-1, part.said.ids_NK, -taught.p_NK).mul_(w * t);
  if (w != 1) {
    gradient_CV.add_((logits_CV - lse_C.unsqueeze(-1)).exp(), 1 - w);
    const at::Tensor index_C1 = part.targets.labels_C.unsqueeze(-1);
    gradient_CV.scatter_add_(-1, index_C1, at::full_like(index_C1, w - 1, gradient_CV.options()));
  }
  gradient_CV.mul_(part.targets.weight_C.unsqueeze(-1)).masked_fill_(weightless_C.unsqueeze(-1), 0);
  part.logits_CV.copy_(gradient_CV);
}

}  // namespace

namespace reference {

TaughtLosses stored_losses(const at::Tensor& logits_NV, const at::Tensor& labels_N, const Teacher& teacher) {
  const double t = teacher.temperature;
  const SaidDistribution taught = distribution_of(*teacher.said, teacher, logits_NV.scalar_type());
  TaughtLosses made;
  made.divergence_N = t * t * divergence_from(taught, log_model_of(logits_NV / t, *teacher.said, taught));
  made.label_N = -at_label(at::log_softmax(logits_NV, -1), labels_N);
  made.losses_N = teacher.weight * made.divergence_N + (1 - teacher.weight) * made.label_N;
  return made;
}

}  // namespace reference

void stored_loss(at::Tensor& logits_CV, const Said& said, const LossTargets& targets, bool gradient,
                 const Teacher& teacher, at::Tensor& losses_C, at::Tensor& statistics_C4) {
  const std::int64_t count = logits_CV.size(0);
  const std::int64_t logits = backend_of(logits_CV).sums.chunk_bytes() / kPart;
  const std::int64_t step = std::max<std::int64_t>(1, logits / logits_CV.size(1));
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t rows = std::min(step, count - begin);
    const auto some = [&](const at::Tensor& all) { return all.defined() ? all.narrow(0, begin, rows) : all; };
    compute({some(logits_CV),
             said.of(begin, rows),
             {some(targets.labels_C), some(targets.weight_C)},
             some(losses_C),
             some(statistics_C4)},
            gradient, teacher);
  }
}

}  // namespace hone::ops
