// A short causal convolution: its meaning, its gradient.
#include "ops/short_conv.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/by_document.h"
#include "ops/column_sum.h"
#include "ops/kept_documents.h"
#include "ops/kept_sum.h"
#include "ops/passes.h"

namespace hone::ops {
namespace reference {

at::Tensor short_conv(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents) {
  const auto wide = at::toOpMathType(x_NC.scalar_type());
  const at::Tensor weight = weights.weight_CT.to(wide);
  const std::int64_t taps = weight.size(1);
  return by_document(x_NC, documents.spans(), [&](std::size_t, const Span& span) {
    const at::Tensor x = at::constant_pad_nd(x_NC.slice(0, span.begin, span.end).to(wide), {0, 0, taps - 1, 0});
    at::Tensor sum = weights.bias_C.defined() ? weights.bias_C.to(wide) : at::Tensor();
    for (std::int64_t j = 0; j < taps; ++j) {
      const at::Tensor part = x.narrow(0, j, span.end - span.begin) * weight.select(1, j);
      sum = sum.defined() ? sum + part : part;
    }
    return (weights.silu ? at::silu(sum) : sum).to(x_NC.scalar_type());
  });
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class ShortConvFunction : public torch::autograd::Function<ShortConvFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const at::Tensor& weight_CT,
                            const std::optional<at::Tensor>& bias_C, bool silu, const Documents& documents,
                            const ShortConvSums& sums) {
    const sections::Timed section(sections::Section::elementwise);
    const at::Tensor x_NC = given.contiguous();
    const ShortConvWeights weights{weight_CT.contiguous(), bias_C ? bias_C->contiguous() : at::Tensor(), silu};
    count_bytes({x_NC, x_NC});
    ctx->save_for_backward({x_NC, weights.weight_CT, weights.bias_C});
    ctx->saved_data["silu"] = silu;
    ctx->saved_data["documents"] = to_value(documents);
    ctx->saved_data["weight_sum"] = to_number(sums.weight);
    ctx->saved_data["bias_sum"] = to_number(sums.bias);
    return backend_of(x_NC).short_conv.forward(x_NC, weights, documents);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::elementwise);
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor dy = grads[0].contiguous();
    const ShortConvWeights weights{kept[1], kept[2], ctx->saved_data["silu"].toBool()};
    const ShortConvGradients made =
        backend_of(dy).short_conv.backward(dy, kept[0], weights, to_documents(ctx->saved_data["documents"]));
    count_bytes({dy, kept[0], made.x_NC});
    const auto given = [&](const at::Tensor& sums_BO, const at::Tensor& weight, const char* sum) {
      if (!weight.defined()) return at::Tensor();
      const at::Tensor all = row_gradient(sums_BO, weight.scalar_type(), to_sum(ctx->saved_data[sum].toInt()));
      return all.defined() ? all.view(weight.sizes()) : all;
    };
    const at::Tensor none;
    const at::Tensor weight_CT = given(made.weight_BO, weights.weight_CT, "weight_sum"),
                     bias_C = given(made.bias_BO, weights.bias_C, "bias_sum");
    return {made.x_NC, weight_CT, bias_C, none, none, none};
  }
};

bool backend_fits(const at::Tensor& x_NC, const ShortConvWeights& weights) {
  const at::Tensor &weight = weights.weight_CT, &bias = weights.bias_C;
  return x_NC.numel() > 0 && backend_for({x_NC, weight, bias.defined() ? bias : weight});
}

}  // namespace

at::Tensor short_conv(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents,
                      const ShortConvSums& sums) {
  HONE_ASSERT(x_NC.dim() == 2 && weights.weight_CT.dim() == 2 && weights.weight_CT.size(0) == x_NC.size(1));
  HONE_ASSERT(!weights.bias_C.defined() || weights.bias_C.numel() == x_NC.size(1));
  const std::vector<Span>& spans = documents.counted_spans();
  HONE_ASSERT(spans.empty() || spans.back().end <= x_NC.size(0));  // kernels look at no shapes
  if (!backend_fits(x_NC, weights)) return reference::short_conv(x_NC, weights, documents);
  const auto bias_C = weights.bias_C.defined() ? std::optional(weights.bias_C) : std::nullopt;
  return ShortConvFunction::apply(x_NC, weights.weight_CT, bias_C, weights.silu, documents, sums);
}

namespace {

// Whether each row of a cache has as many tokens as the next one, in their order, and nothing lies between them.
bool is_grid(const std::vector<Span>& spans, const std::vector<std::int64_t>& rows, std::int64_t tokens,
             std::int64_t all_rows) {
  if (std::ssize(spans) != all_rows || all_rows == 0 || tokens % all_rows != 0) return false;
  const std::int64_t length = tokens / all_rows;
  for (std::int64_t i = 0; i < all_rows; ++i)
    if (rows[i] != i || spans[i].begin != i * length || spans[i].end != (i + 1) * length) return false;
  return true;
}

}  // namespace

// As documents with those tokens before them, whose results nobody wants.
at::Tensor short_conv_on(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents,
                         const at::Tensor& newest_RTC, const std::vector<std::int64_t>& rows) {
  const std::vector<Span>& spans = documents.spans();
  const std::int64_t more = newest_RTC.size(1), channels = x_NC.size(1), all_rows = newest_RTC.size(0);
  HONE_ASSERT(rows.size() == spans.size() && more + 1 == weights.weight_CT.size(1));
  std::vector<Span> longer;
  std::int64_t end = 0;
  for (const Span& span : spans) {
    longer.push_back({end, end + more + span.end - span.begin});
    end = longer.back().end;
  }
  if (is_grid(spans, rows, x_NC.size(0), all_rows)) {  // as in decoding
    const at::Tensor all_RLC = at::cat({newest_RTC, x_NC.view({all_rows, -1, channels})}, 1);
    const std::int64_t length = all_RLC.size(1);
    newest_RTC.copy_(all_RLC.narrow(1, length - more, more));
    const at::Tensor y_NC = short_conv(all_RLC.view({-1, channels}), weights, Documents(longer));
    return y_NC.view(all_RLC.sizes()).narrow(1, more, length - more).reshape({-1, channels});
  }
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const at::Tensor newest_TC = newest_RTC.select(0, rows[i]);
    parts.push_back(at::cat({newest_TC, x_NC.slice(0, spans[i].begin, spans[i].end)}));
    newest_TC.copy_(parts.back().slice(0, parts.back().size(0) - more));
  }
  const at::Tensor made = at::zeros_like(x_NC, at::MemoryFormat::Contiguous);
  if (parts.empty()) return made;
  const at::Tensor y_NC = short_conv(at::cat(parts), weights, Documents(longer));
  for (std::size_t i = 0; i < spans.size(); ++i)
    made.slice(0, spans[i].begin, spans[i].end).copy_(y_NC.slice(0, longer[i].begin + more, longer[i].end));
  return made;
}

}  // namespace hone::ops
