#include "generate/prompt_log_probs.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "generate/rows.h"
#include "hone/layers.h"
#include "tensor/host.h"

namespace hone::generate {
namespace {

constexpr std::int64_t kRowsOfLogits = 128;

// Of hidden rows, each of which says what comes after it: `next`.
std::vector<TokenLogProbs> log_probs_of_rows(const CausalLm& model, const Pass& pass, const Tensor& hidden_ND,
                                             std::span<const std::int32_t> next, std::int64_t count) {
  std::vector<TokenLogProbs> made(next.size());
  for (std::int64_t first = 0; first < std::ssize(next); first += kRowsOfLogits) {
    const std::int64_t rows = std::min(kRowsOfLogits, std::ssize(next) - first);
    const Tensor logits_NV = host::read(model.head().logits(hidden_ND.narrow(0, first, rows), pass).to(at::kFloat));
    const auto logits = host::values<float>(logits_NV);
    const std::size_t vocab = logits.size() / static_cast<std::size_t>(rows);
    at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        made[first + r] = log_probs_of(logits.subspan(r * vocab, vocab), next[first + r], count);
    });
  }
  return made;
}

}  // namespace

std::vector<std::vector<TokenLogProbs>> prompt_log_probs(const CausalLm& model, const std::string& adapter,
                                                         const std::vector<std::span<const std::int32_t>>& prompts,
                                                         std::int64_t count) {
  const Batch batch = rows_of_ids(prompts).to(model.device());
  Pass pass(batch);
  pass.adapter = adapter;
  const Tensor hidden_BTD = model.forward(batch, pass).hidden_BTD;
  std::vector<std::vector<TokenLogProbs>> made;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    made.push_back(log_probs_of_rows(model, pass, hidden_BTD.select(0, static_cast<std::int64_t>(i)),
                                     prompts[i].subspan(1), count));
  return made;
}

}  // namespace hone::generate
