// A state space of channels: its meaning, its gradient.
#include "ops/selective_scan.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/by_document.h"
#include "ops/kept_documents.h"

namespace hone::ops {
namespace reference {

at::Tensor selective_scan(const ScanInput& input, at::Tensor& state_KC) {
  const auto wide = at::toOpMathType(input.x_NC.scalar_type());
  const at::Tensor x_NC = input.x_NC.to(wide), rate_KC = input.rate_CK.t();
  const auto step_C = input.step_NC.unbind(0), written_C = (x_NC * input.step_NC).unbind(0),
             b_K1 = input.b_NK.to(wide).unsqueeze(-1).unbind(0), c_K1 = input.c_NK.to(wide).unsqueeze(-1).unbind(0);
  std::vector<at::Tensor> read;
  for (std::size_t t = 0; t < step_C.size(); ++t) {
    const at::Tensor taken_KC = b_K1[t] * written_C[t];
    state_KC = state_KC.defined() ? (step_C[t] * rate_KC).exp() * state_KC + taken_KC : taken_KC;
    read.push_back((c_K1[t] * state_KC).sum(0));
  }
  return (at::stack(read) + input.skip_C * x_NC).to(input.x_NC.scalar_type());
}

namespace {

ScanInput part_of(const ScanInput& all, const Span& span) {
  const auto part = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
  return {part(all.x_NC), part(all.step_NC), all.rate_CK, part(all.b_NK), part(all.c_NK), all.skip_C};
}

// past: rows are of documents; without rows each begins with zeros.
at::Tensor scan_of_all(const ScanInput& input, const std::vector<Span>& spans, const ScanPast& past) {
  return by_document(input.x_NC, spans, [&](std::size_t i, const Span& span) {
    const at::Tensor row = past.rows.empty() ? at::Tensor() : past.state_RKC.select(0, past.rows[i]);
    at::Tensor state = row;
    at::Tensor y = selective_scan(part_of(input, span), state);
    if (row.defined()) row.copy_(state);
    return y;
  });
}

}  // namespace
}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Token by token: the product of b and x, and c's with the state; backward, the gradients of both factors of each.
constexpr double kScanProducts = 2, kScanBackwardProducts = 4;

void add_flop(const ScanInput& input, double products) {
  if (sections::running())
    sections::add_flop(2 * products * static_cast<double>(input.x_NC.numel() * input.b_NK.size(1)));
}

ScanInput dense(const ScanInput& input) {
  return {input.x_NC.contiguous(), input.step_NC.contiguous(), input.rate_CK.contiguous(),
          input.b_NK.contiguous(), input.c_NK.contiguous(),    input.skip_C.contiguous()};
}

class ScanFunction : public torch::autograd::Function<ScanFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& step, const at::Tensor& rate,
                            const at::Tensor& b, const at::Tensor& c, const at::Tensor& skip,
                            const Documents& documents) {
    const sections::Timed section(sections::Section::attention);
    const ScanInput in = dense({x, step, rate, b, c, skip});
    add_flop(in, kScanProducts);
    ctx->save_for_backward({in.x_NC, in.step_NC, in.rate_CK, in.b_NK, in.c_NK, in.skip_C});
    ctx->saved_data["documents"] = to_value(documents);
    return backend_of(x).selective_scan.forward(in, documents, {});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    const auto kept = ctx->get_saved_variables();
    const ScanInput input{kept[0], kept[1], kept[2], kept[3], kept[4], kept[5]};
    add_flop(input, kScanBackwardProducts);
    const ScanInput to = backend_of(kept[0]).selective_scan.backward(grads[0].contiguous(), input,
                                                                     to_documents(ctx->saved_data["documents"]));
    return {to.x_NC, to.step_NC, to.rate_CK, to.b_NK, to.c_NK, to.skip_C, at::Tensor()};
  }
};

// Kernels look at no shapes.
void check(const ScanInput& in, const Documents& documents) {
  const auto &x = in.x_NC, &b = in.b_NK;
  const auto wide = at::toOpMathType(x.scalar_type());
  HONE_ASSERT(x.dim() == 2 && b.dim() == 2 && b.size(0) == x.size(0) && in.c_NK.sizes() == b.sizes() &&
              in.step_NC.sizes() == x.sizes() && in.step_NC.scalar_type() == wide && in.rate_CK.dim() == 2 &&
              in.rate_CK.size(0) == x.size(1) && in.rate_CK.size(1) == b.size(1) &&
              in.rate_CK.scalar_type() == wide && in.skip_C.dim() == 1 && in.skip_C.size(0) == x.size(1) &&
              in.skip_C.scalar_type() == wide);
  check_tokens("selective_scan", x.size(0), documents);
}

bool backend_fits(const ScanInput& in) {
  return in.x_NC.numel() > 0 && in.b_NK.numel() > 0 && backend_for({in.x_NC, in.b_NK, in.c_NK});
}

}  // namespace

at::Tensor selective_scan(const ScanInput& input, const Documents& documents) {
  check(input, documents);
  if (!backend_fits(input)) return reference::scan_of_all(input, documents.spans(), {});
  return ScanFunction::apply(input.x_NC, input.step_NC, input.rate_CK, input.b_NK, input.c_NK, input.skip_C, documents);
}

at::Tensor selective_scan_on(const ScanInput& input, const Documents& documents, const ScanPast& past) {
  check(input, documents);
  HONE_ASSERT(past.rows.size() == documents.counted_spans().size());
  if (!backend_fits(input)) return reference::scan_of_all(input, documents.spans(), past);
  const sections::Timed section(sections::Section::attention);
  const ScanInput in = dense(input);
  add_flop(in, kScanProducts);
  return backend_of(in.x_NC).selective_scan.forward(in, documents, past);
}

}  // namespace hone::ops
