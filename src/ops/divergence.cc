// Divergences from a teacher.
//
// Letters: N tokens, V vocabulary, C tokens of a chunk.
#include "ops/divergence.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>

#include "hone/error.h"
#include "ops/backend.h"

namespace hone::ops {
namespace {

// The share of a chunk's room that logits are worked on at a time: of what is made of them in fp32 there are up to
// eight times as many, which in host memory a cache is to hold.
constexpr std::int64_t kShare = 64;

at::Tensor log_mixture(const at::Tensor& log_p, const at::Tensor& log_t, double mix) {
  return at::logaddexp(log_t + std::log(mix), log_p + std::log1p(-mix));
}

// KL(a || b) of distributions as logarithms. Their sums are 1 up to rounding, which would otherwise be added to small
// divergences of large vocabularies.
at::Tensor kl(const at::Tensor& log_a_NV, const at::Tensor& log_b_NV) {
  const at::Tensor a_NV = log_a_NV.exp();
  return (a_NV * (log_a_NV - log_b_NV) - a_NV + log_b_NV.exp()).sum(-1);
}

at::Tensor divergence_of(const at::Tensor& log_p_NV, const at::Tensor& log_t_NV, double mix) {
  if (mix == 0) return kl(log_t_NV, log_p_NV);
  if (mix == 1) return kl(log_p_NV, log_t_NV);
  const at::Tensor log_m_NV = log_mixture(log_p_NV, log_t_NV, mix);
  return mix * kl(log_t_NV, log_m_NV) + (1 - mix) * kl(log_p_NV, log_m_NV);
}

// By what log_p is the softmax of.
at::Tensor gradient_of(const at::Tensor& log_p_CV, const at::Tensor& log_t_CV, double mix) {
  at::Tensor p_CV = log_p_CV.exp();
  if (mix == 0) return p_CV.sub_(log_t_CV.exp());
  const at::Tensor than_CV = mix == 1 ? log_t_CV : log_mixture(log_p_CV, log_t_CV, mix);
  at::Tensor slope_CV = log_p_CV - than_CV;
  if (mix != 1) slope_CV.mul_(1 - mix);
  slope_CV.sub_((p_CV * slope_CV).sum(-1, /*keepdim=*/true));
  return slope_CV.mul_(p_CV);
}

at::Tensor at_labels(const at::Tensor& values_NV, const at::Tensor& labels_N) {
  return values_NV.gather(-1, labels_N.unsqueeze(-1)).squeeze(-1);
}

at::Tensor tempered(const at::Tensor& logits, double temperature) {
  return at::log_softmax(temperature == 1 ? logits : logits / temperature, -1);
}

// What a chunk's work is made of, for some of its tokens.
struct Slice {
  at::Tensor logits_CV, teacher_CV;
  LossTargets targets;
  at::Tensor losses_C, statistics_C4;
};

void work(Slice slice, bool gradient, const Teacher& teacher) {
  const auto wide = at::toOpMathType(slice.logits_CV.scalar_type());
  const double t = teacher.temperature, w = teacher.weight;
  const at::Tensor logits_CV = slice.logits_CV.to(wide);
  const at::Tensor log_p_CV = tempered(logits_CV, t), log_t_CV = tempered(slice.teacher_CV.to(wide), t);
  const at::Tensor log_q_CV = t == 1 ? log_p_CV : at::log_softmax(logits_CV, -1);
  const at::Tensor divergence_C = t * t * divergence_of(log_p_CV, log_t_CV, teacher.mix);
  const at::Tensor label_C = -at_labels(log_q_CV, slice.targets.labels_C);
  // What is not learnt may be anything, not finite, too.
  const at::Tensor weightless_C = slice.targets.weight_C == 0;
  const auto counted = [&](const at::Tensor& values_C) { return values_C.masked_fill(weightless_C, 0); };
  slice.losses_C.copy_(counted((w * divergence_C + (1 - w) * label_C) * slice.targets.weight_C));
  if (slice.statistics_C4.defined()) {
    const at::Tensor right_C = at_labels(logits_CV, slice.targets.labels_C).ge(logits_CV.amax(-1)).to(wide);
    slice.statistics_C4.copy_(
        at::stack({counted(divergence_C), counted(label_C), right_C, logits_CV.logsumexp(-1)}, -1));
  }
  if (!gradient) return;
  at::Tensor gradient_CV = gradient_of(log_p_CV, log_t_CV, teacher.mix).mul_(w * t);
  if (w != 1) {
    gradient_CV.add_(log_q_CV.exp(), 1 - w);
    const at::Tensor index_C1 = slice.targets.labels_C.unsqueeze(-1);
    gradient_CV.scatter_add_(-1, index_C1, at::full_like(index_C1, w - 1, gradient_CV.options()));
  }
  gradient_CV.mul_(slice.targets.weight_C.unsqueeze(-1)).masked_fill_(weightless_C.unsqueeze(-1), 0);
  slice.logits_CV.copy_(gradient_CV);
}

}  // namespace

namespace reference {

TaughtLosses taught_losses(const at::Tensor& logits_NV, const at::Tensor& teacher_NV, const at::Tensor& labels_N,
                           const Teacher& teacher) {
  const double t = teacher.temperature;
  TaughtLosses made;
  made.divergence_N = t * t * divergence_of(tempered(logits_NV, t), tempered(teacher_NV, t), teacher.mix);
  made.label_N = -at_labels(at::log_softmax(logits_NV, -1), labels_N);
  made.losses_N = teacher.weight * made.divergence_N + (1 - teacher.weight) * made.label_N;
  return made;
}

}  // namespace reference

void taught_loss(at::Tensor& logits_CV, const at::Tensor& teacher_CV, const LossTargets& targets, bool gradient,
                 const Teacher& teacher, at::Tensor& losses_C, at::Tensor& statistics_C4) {
  const std::int64_t count = logits_CV.size(0);
  const std::int64_t logits = backend_of(logits_CV).sums.chunk_bytes() / kShare;
  const std::int64_t step = std::max<std::int64_t>(1, logits / logits_CV.size(1));
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const auto rows = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, begin, std::min(step, count - begin)) : all;
    };
    work({rows(logits_CV),
          rows(teacher_CV),
          {rows(targets.labels_C), rows(targets.weight_C)},
          rows(losses_C),
          rows(statistics_C4)},
         gradient, teacher);
  }
}

Said Said::of(std::int64_t begin, std::int64_t count) const {
  return {ids_NK.narrow(0, begin, count), log_probs_NK.narrow(0, begin, count), temperature, among};
}

TaughtOptions::TaughtOptions(const CrossEntropyOptions& given, const at::Tensor& index_S) : options(given) {
  if (!given.teacher) return;
  HONE_ASSERT(given.label_smoothing == 0 && given.z_loss == 0 && !given.by_probability && given.by_entropy_of == 0);
  teacher = *given.teacher;
  if (teacher.said) {
    said = *teacher.said, teacher.said = &said;
    if (index_S.defined()) said.ids_NK = said.ids_NK.index_select(0, index_S);
    if (index_S.defined()) said.log_probs_NK = said.log_probs_NK.index_select(0, index_S);
  } else if (index_S.defined()) {
    teacher.hidden_NE = teacher.hidden_NE.index_select(0, index_S);
  }
  options.teacher = &teacher;
}

}  // namespace hone::ops
