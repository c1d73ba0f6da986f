// Which experts tokens go to, by kernels of ours.
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr int kRouterThreads = 256;
constexpr std::int64_t kTokensOfBlock = kRouterThreads / 32, kMostExperts = 512, kMostPerToken = 32;

bool chooses(const at::Tensor& logits, std::int64_t per_token) {
  return logits.size(1) <= kMostExperts && per_token <= kMostPerToken && logits.numel() > 0;
}
Grid of_tokens(std::int64_t tokens) { return {.x = ceil_div(tokens, kTokensOfBlock), .threads = kRouterThreads}; }

}  // namespace

RoutedChoice choose_experts(const at::Tensor& logits_NE, const ChoiceOptions& options) {
  if (!chooses(logits_NE, options.per_token)) return reference_table::routed().choose(logits_NE, options);
  const at::Tensor logits = logits_NE.contiguous();
  const std::int64_t tokens = logits.size(0), experts = logits.size(1);
  const auto wide = wide_options(logits);
  const RoutedChoice made{at::empty({tokens, experts}, wide), at::empty({tokens, options.per_token}, wide),
                          at::empty({tokens, options.per_token}, wide.dtype(at::kLong))};
  launch({"router", "choose_experts"}, logits, of_tokens(tokens), logits, made.probability_NE, made.weight_NK,
         made.expert_NK, tokens, static_cast<int>(experts), static_cast<int>(options.per_token), options.normalise);
  return made;
}

at::Tensor choose_experts_backward(const RoutedChoice& made, const ChoiceOptions& options,
                                   const at::Tensor& dweight_NK, const at::Tensor& dsum_E, at::ScalarType type) {
  if (!chooses(made.probability_NE, options.per_token))
    return reference_table::routed().choose_backward(made, options, dweight_NK, dsum_E, type);
  const auto dense = [](const at::Tensor& x) { return x.defined() ? x.contiguous() : x; };
  const at::Tensor dweight = dense(dweight_NK), dsum = dense(dsum_E);
  const std::int64_t tokens = made.probability_NE.size(0), experts = made.probability_NE.size(1);
  const at::Tensor dlogits = at::empty({tokens, experts}, made.probability_NE.options().dtype(type));
  launch({"router", "choose_experts_backward"}, dlogits, of_tokens(tokens), made.probability_NE, made.weight_NK,
         made.expert_NK, dweight, dsum, dlogits, tokens, static_cast<int>(experts),
         static_cast<int>(options.per_token), options.normalise);
  return dlogits;
}

at::Tensor measure_spread(const at::Tensor& begin_E1, double weight) {
  const at::Tensor begin = begin_E1.contiguous(), made = at::empty({3}, begin.options().dtype(at::kDouble));
  launch({"router", "measure_spread"}, made, {}, begin, made, static_cast<int>(begin.size(0) - 1), weight);
  return made;
}

}  // namespace hone::ops::cuda_table
