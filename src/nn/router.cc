// A router by groups of experts.
#include "nn/router.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

namespace hone::nn {
namespace {

// DeepSeek-AI, 2024, arXiv:2412.19437, section 2.1.2: balance without a loss.
Tensor corrected(const Tensor& value, const Tensor& tokens_E, double rate) {
  return value + rate * (tokens_E.mean() - tokens_E).sign();
}

Tensor widened(const Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

}  // namespace

GroupedRouter::GroupedRouter(std::int64_t hidden, std::int64_t experts, const Options& options, double std)
    : options_(options), weight_(parameter(options.weight, {experts, hidden}, {.std = std})) {
  if (!options.corrected) return;
  const auto update = [rate = options.correction_rate](const Tensor& value, const Tensor& seen) {
    return rate > 0 ? corrected(value, seen, rate) : value;
  };
  correction_ = &buffer(options.correction, {experts}, {.kind = Init::Kind::zeros}, update);
}

ops::Choice GroupedRouter::operator()(const Tensor& x_ND, const Pass& pass) const {
  const Tensor logits_NE = at::linear(widened(x_ND), widened(weight_.use()));
  return ops::choose_by_groups(logits_NE, correction_ ? correction_->use() : Tensor(), options_.rule,
                               /*with_sum=*/pass.training);
}

void GroupedRouter::observe(const ops::RowGroups& slots, Pass& pass) const {
  if (!correction_ || options_.correction_rate == 0) return;
  pass.observe(*correction_, slots.counts().to(correction_->use().options()));
}

}  // namespace hone::nn
