// Tokens drawn from what a head says.
#include "nn/draw_labels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "nn/context.h"

namespace hone::nn {
namespace {

constexpr std::int64_t kRows = 256;  // whose logits are in memory at once

Tensor uniform(const Random& random, std::int64_t begin, std::int64_t count) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(random.uniform(static_cast<std::uint64_t>(begin + i)));
  return at::tensor(numbers, at::kDouble);
}

}  // namespace

Tensor draw_labels(const Head& head, const Tensor& hidden_BTD, const Tensor& labels_BT, const Pass& pass,
                   const Random& random) {
  const Tensor labels = labels_BT.reshape({-1}), places = (labels >= 0).nonzero().squeeze(1);
  const Tensor hidden = hidden_BTD.flatten(0, -2).index_select(0, places);
  const std::int64_t before = pass.batch.context ? pass.batch.context->labels_before() : 0;
  std::vector<Tensor> drawn;
  for (std::int64_t begin = 0; begin < places.numel(); begin += kRows) {
    const std::int64_t count = std::min(kRows, places.numel() - begin);
    const Tensor shares = at::softmax(head.logits(hidden.narrow(0, begin, count), pass), -1, at::kDouble).cumsum(1);
    const Tensor even = uniform(random, before + begin, count).to(shares.device()).unsqueeze(1);
    const Tensor numbers = even * shares.narrow(1, -1, 1);
    drawn.push_back(at::searchsorted(shares, numbers, /*out_int32=*/false, /*right=*/true).squeeze(1));
  }
  if (drawn.empty()) return labels_BT;
  return labels.index_copy(0, places, at::cat(drawn).clamp_max(head.vocab_size() - 1)).view(labels_BT.sizes());
}

}  // namespace hone::nn
