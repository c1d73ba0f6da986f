// A state space: its meaning, its gradient.
#include "ops/ssd.h"

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

at::Tensor ssd(const SsdInput& input, at::Tensor& state_HKV) {
  const auto wide = at::toOpMathType(input.x_NHV.scalar_type());
  const std::int64_t heads = input.x_NHV.size(1), group = heads / input.c_NGK.size(1);
  const auto of_heads = [&](const at::Tensor& x_NGK) { return x_NGK.to(wide).repeat_interleave(group, 1).unbind(0); };
  const auto c_HK = of_heads(input.c_NGK), b_HK = of_heads(input.b_NGK);
  const at::Tensor x_NHV = input.x_NHV.to(wide);
  const auto kept_H11 = input.decay_NH.exp().unsqueeze(-1).unsqueeze(-1).unbind(0),
             written_HV = (x_NHV * input.step_NH.unsqueeze(-1)).unbind(0);
  std::vector<at::Tensor> read;
  for (std::size_t t = 0; t < written_HV.size(); ++t) {
    const at::Tensor taken = b_HK[t].unsqueeze(-1) * written_HV[t].unsqueeze(1);
    state_HKV = state_HKV.defined() ? kept_H11[t] * state_HKV + taken : taken;
    read.push_back((c_HK[t].unsqueeze(-1) * state_HKV).sum(1));
  }
  return (at::stack(read) + input.skip_H.unsqueeze(-1) * x_NHV).to(input.x_NHV.scalar_type());
}

namespace {

// past: rows are of documents; without rows each begins with zeros.
at::Tensor ssd_of_all(const SsdInput& input, const std::vector<Span>& spans, const SsdPast& past) {
  return by_document(input.x_NHV, spans, [&](std::size_t i, const Span& span) {
    const auto part = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
    const at::Tensor row = past.rows.empty() ? at::Tensor() : past.state_RHKV.select(0, past.rows[i]);
    at::Tensor state = row;
    at::Tensor y = ssd({part(input.c_NGK), part(input.b_NGK), part(input.x_NHV), part(input.decay_NH),
                        part(input.step_NH), input.skip_H},
                       state);
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
constexpr double kSsdProducts = 2, kSsdBackwardProducts = 4;

void add_flop(const SsdInput& input, double products) {
  if (sections::running())
    sections::add_flop(2 * products * static_cast<double>(input.x_NHV.numel() * input.c_NGK.size(2)));
}

SsdInput dense(const SsdInput& input) {
  return {dense_rows(input.c_NGK),     dense_rows(input.b_NGK),    dense_rows(input.x_NHV),
          input.decay_NH.contiguous(), input.step_NH.contiguous(), input.skip_H.contiguous()};
}

class SsdFunction : public torch::autograd::Function<SsdFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& c, const at::Tensor& b, const at::Tensor& x,
                            const at::Tensor& decay, const at::Tensor& step, const at::Tensor& skip,
                            const Documents& documents) {
    const sections::Timed section(sections::Section::attention);
    const SsdInput in = dense({c, b, x, decay, step, skip});
    add_flop(in, kSsdProducts);
    ctx->save_for_backward({in.c_NGK, in.b_NGK, in.x_NHV, in.decay_NH, in.step_NH, in.skip_H});
    ctx->saved_data["documents"] = to_value(documents);
    return backend_of(x).ssd.forward(in, documents, {});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    const auto kept = ctx->get_saved_variables();
    const SsdInput input{kept[0], kept[1], kept[2], kept[3], kept[4], kept[5]};
    add_flop(input, kSsdBackwardProducts);
    const SsdInput to =
        backend_of(kept[2]).ssd.backward(dense_rows(grads[0]), input, to_documents(ctx->saved_data["documents"]));
    return {to.c_NGK, to.b_NGK, to.x_NHV, to.decay_NH, to.step_NH, to.skip_H, at::Tensor()};
  }
};

// Kernels look at no shapes.
void check(const SsdInput& in, const Documents& documents) {
  const auto &c = in.c_NGK, &x = in.x_NHV;
  const auto wide = at::toOpMathType(x.scalar_type());
  const auto gate_fits = [&](const at::Tensor& gate) {
    return gate.sizes() == x.sizes().slice(0, 2) && gate.scalar_type() == wide;
  };
  HONE_ASSERT(c.dim() == 3 && in.b_NGK.sizes() == c.sizes() && x.dim() == 3 && x.size(0) == c.size(0) &&
              c.size(1) > 0 && x.size(1) % c.size(1) == 0 && gate_fits(in.decay_NH) && gate_fits(in.step_NH) &&
              in.skip_H.dim() == 1 && in.skip_H.size(0) == x.size(1) && in.skip_H.scalar_type() == wide);
  check_tokens("ssd", c.size(0), documents);
}

bool backend_fits(const SsdInput& in) {
  return in.x_NHV.numel() > 0 && in.c_NGK.numel() > 0 && backend_for({in.c_NGK, in.b_NGK, in.x_NHV});
}

}  // namespace

at::Tensor ssd(const SsdInput& input, const Documents& documents) {
  check(input, documents);
  if (!backend_fits(input)) return reference::ssd_of_all(input, documents.spans(), {});
  return SsdFunction::apply(input.c_NGK, input.b_NGK, input.x_NHV, input.decay_NH, input.step_NH, input.skip_H,
                            documents);
}

at::Tensor ssd_on(const SsdInput& input, const Documents& documents, const SsdPast& past) {
  check(input, documents);
  HONE_ASSERT(past.rows.size() == documents.counted_spans().size());
  if (!backend_fits(input)) return reference::ssd_of_all(input, documents.spans(), past);
  const sections::Timed section(sections::Section::attention);
  const SsdInput in = dense(input);
  add_flop(in, kSsdProducts);
  return backend_of(in.x_NHV).ssd.forward(in, documents, past);
}

}  // namespace hone::ops
