// Attention within documents by LibTorch's flash attention, where it can: narrow types, heads of up to 256, documents
// that lie one behind another; else by plain ATen.
#include <ATen/ATen.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include "ops/cuda/table.h"
#include "ops/reference/table.h"
#include "tensor/host.h"

namespace hone::ops::cuda_table {
namespace {

bool can_flash(const at::Tensor& q_NHK, const std::vector<Span>& spans, const AttentionOptions& options) {
  const auto type = q_NHK.scalar_type();
  std::int64_t end = 0;
  for (const Span& span : spans) {
    if (span.begin != end || span.end <= span.begin) return false;
    end = span.end;
  }
  return (type == at::kBFloat16 || type == at::kHalf) && q_NHK.size(2) <= 256 && q_NHK.size(2) % 8 == 0 &&
         options.soft_cap == 0 && options.dropout == 0 && end == q_NHK.size(0) && end > 0;
}

// What both passes say of documents and masks.
struct Documents {
  at::Tensor ends;  // int32, where each begins, and the end of the last, on the device
  std::int64_t longest = 0;
  bool causal = true;
  std::optional<std::int64_t> before, after;  // whom a token sees; nothing: all

  Documents(const std::vector<Span>& spans, const AttentionOptions& options, at::Device device) {
    std::vector<std::int32_t> places{0};
    for (const Span& span : spans) {
      places.push_back(static_cast<std::int32_t>(span.end));
      longest = std::max(longest, span.end - span.begin);
    }
    ends = host::tensor_of(places, {std::ssize(places)}).pin_memory().to(device, /*non_blocking=*/true);
    causal = options.mask.kind == Mask::Kind::causal;
    if (options.mask.window > 0) before = options.mask.window - 1, after = causal ? 0 : options.mask.window - 1;
  }
};

Attended forward(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                 const std::vector<Span>& spans, const AttentionOptions& options) {
  if (!can_flash(q_NHK, spans, options))
    return reference_table::attention().forward(q_NHK, k_NGK, v_NGK, spans, options);
  const Documents docs(spans, options, q_NHK.device());
  const auto made = at::_flash_attention_forward(q_NHK, k_NGK, v_NGK, docs.ends, docs.ends, docs.longest, docs.longest,
                                                 0.0, docs.causal, false, options.scale, docs.before, docs.after);
  return {std::get<0>(made), std::get<1>(made)};
}

AttentionGradients backward(const at::Tensor& dy_NHK, const AttentionSaved& saved, const std::vector<Span>& spans,
                            const AttentionOptions& options) {
  if (!can_flash(saved.q_NHK, spans, options))
    return reference_table::attention().backward(dy_NHK, saved, spans, options);
  const Documents docs(spans, options, dy_NHK.device());
  const at::Tensor no_draws = at::zeros({2}, dy_NHK.options().dtype(at::kUInt64));  // there is no dropout
  const auto made = at::_flash_attention_backward(dy_NHK, saved.q_NHK, saved.k_NGK, saved.v_NGK, saved.result.y_NHK,
                                                  saved.result.lse_HN, docs.ends, docs.ends, docs.longest, docs.longest,
                                                  0.0, docs.causal, no_draws, no_draws, options.scale, docs.before,
                                                  docs.after);
  return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
}

}  // namespace

Backend::Attention attention() {
  Backend::Attention table = reference_table::attention();
  table.forward = forward;
  table.backward = backward;
  return table;
}

}  // namespace hone::ops::cuda_table
