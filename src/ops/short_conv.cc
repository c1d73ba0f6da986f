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

at::Tensor short_conv(const at::Tensor& x_NC, const at::Tensor& weight_CT, const Documents& documents) {
  const auto wide = at::toOpMathType(x_NC.scalar_type());
  const at::Tensor weight = weight_CT.to(wide);
  const std::int64_t taps = weight.size(1);
  return by_document(x_NC, documents.spans(), [&](std::size_t, const Span& span) {
    const at::Tensor x = at::constant_pad_nd(x_NC.slice(0, span.begin, span.end).to(wide), {0, 0, taps - 1, 0});
    at::Tensor sum;
    for (std::int64_t j = 0; j < taps; ++j) {
      const at::Tensor part = x.narrow(0, j, span.end - span.begin) * weight.select(1, j);
      sum = sum.defined() ? sum + part : part;
    }
    return at::silu(sum).to(x_NC.scalar_type());
  });
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class ShortConvFunction : public torch::autograd::Function<ShortConvFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const at::Tensor& weight_CT,
                            const Documents& documents, std::int64_t weight_sum) {
    const sections::Timed section(sections::Section::elementwise);
    const at::Tensor x_NC = given.contiguous(), weight = weight_CT.contiguous();
    count_bytes({x_NC, x_NC});
    ctx->save_for_backward({x_NC, weight});
    ctx->saved_data["documents"] = to_value(documents);
    ctx->saved_data["weight_sum"] = weight_sum;
    return backend_of(x_NC).short_conv.forward(x_NC, weight, documents);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::elementwise);
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor dy = grads[0].contiguous(), &weight = kept[1];
    const ShortConvGradients made =
        backend_of(dy).short_conv.backward(dy, kept[0], weight, to_documents(ctx->saved_data["documents"]));
    count_bytes({dy, kept[0], made.x_NC});
    const at::Tensor to_weight =
        row_gradient(made.weight_BO, weight.scalar_type(), to_sum(ctx->saved_data["weight_sum"].toInt()));
    return {made.x_NC, to_weight.defined() ? to_weight.view(weight.sizes()) : to_weight, at::Tensor(), at::Tensor()};
  }
};

bool backend_fits(const at::Tensor& x_NC, const at::Tensor& weight_CT) {
  return x_NC.numel() > 0 && backend_for({x_NC, weight_CT});
}

}  // namespace

at::Tensor short_conv(const at::Tensor& x_NC, const at::Tensor& weight_CT, const Documents& documents,
                      GradientSum* weight_sum) {
  HONE_ASSERT(x_NC.dim() == 2 && weight_CT.dim() == 2 && weight_CT.size(0) == x_NC.size(1));
  const std::vector<Span>& spans = documents.counted_spans();
  HONE_ASSERT(spans.empty() || spans.back().end <= x_NC.size(0));  // kernels look at no shapes
  if (!backend_fits(x_NC, weight_CT)) return reference::short_conv(x_NC, weight_CT, documents);
  return ShortConvFunction::apply(x_NC, weight_CT, documents, to_number(weight_sum));
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
at::Tensor short_conv_on(const at::Tensor& x_NC, const at::Tensor& weight_CT, const Documents& documents,
                         const at::Tensor& newest_RTC, const std::vector<std::int64_t>& rows) {
  const std::vector<Span>& spans = documents.spans();
  const std::int64_t more = newest_RTC.size(1), channels = x_NC.size(1), all_rows = newest_RTC.size(0);
  HONE_ASSERT(rows.size() == spans.size() && more + 1 == weight_CT.size(1));
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
    const at::Tensor y_NC = short_conv(all_RLC.view({-1, channels}), weight_CT, Documents(longer));
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
  const at::Tensor y_NC = short_conv(at::cat(parts), weight_CT, Documents(longer));
  for (std::size_t i = 0; i < spans.size(); ++i)
    made.slice(0, spans[i].begin, spans[i].end).copy_(y_NC.slice(0, longer[i].begin + more, longer[i].end));
  return made;
}

}  // namespace hone::ops
