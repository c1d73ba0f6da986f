// A matrix memory: its meaning, its gradient.
#include "ops/mlstm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/by_document.h"
#include "ops/kept_documents.h"

namespace hone::ops {
namespace reference {

// As attention whose weights are what the gates leave of them, over all tokens of the document at once.
at::Tensor mlstm(const MlstmInput& input, MlstmMemory& memory, double eps) {
  const auto wide = at::toOpMathType(input.q_NHK.scalar_type());
  const auto by_head = [&](const at::Tensor& x) { return x.to(wide).transpose(0, 1); };
  const at::Tensor q_HTK = by_head(input.q_NHK) / std::sqrt(static_cast<double>(input.q_NHK.size(2)));
  const at::Tensor k_HTK = by_head(input.k_NHK), v_HTV = by_head(input.v_NHV);
  const at::Tensor b_HT = at::log_sigmoid(by_head(input.forget_NH)).cumsum(-1);
  const at::Tensor level_HT = by_head(input.input_NH) - b_HT;
  const bool begins = !memory.m_RH.defined();
  const at::Tensor m_H1 = begins ? at::zeros({q_HTK.size(0), 1}, q_HTK.options()) : memory.m_RH.unsqueeze(-1);
  const at::Tensor top_HT = at::maximum(std::get<0>(level_HT.cummax(-1)), m_H1);
  const at::Tensor exponents = (level_HT.unsqueeze(-2) - top_HT.unsqueeze(-1));  // [H,T,S]
  const at::Tensor later = at::ones(exponents.sizes().slice(1), exponents.options().dtype(at::kBool)).triu(1);
  const at::Tensor weights = at::matmul(q_HTK, k_HTK.mT()) * exponents.masked_fill(later, -INFINITY).exp();
  at::Tensor sums = at::matmul(weights, v_HTV), divisor = weights.sum(-1, /*keepdim=*/true);
  if (!begins) {
    const at::Tensor seen_HTK = q_HTK * (m_H1 - top_HT).exp().unsqueeze(-1);
    sums = sums + at::matmul(seen_HTK, memory.values_RHKV);
    divisor = divisor + at::matmul(seen_HTK, memory.keys_RHK.unsqueeze(-1));
  }
  const at::Tensor smallest = (-(b_HT + top_HT)).exp().unsqueeze(-1);
  const at::Tensor last_H1 = top_HT.narrow(-1, top_HT.size(-1) - 1, 1);
  const at::Tensor kept_HTK = k_HTK * (level_HT - last_H1).exp().unsqueeze(-1);
  const at::Tensor values = at::matmul(kept_HTK.mT(), v_HTV), keys = kept_HTK.sum(-2);
  const at::Tensor decay_H1 = (m_H1 - last_H1).exp();
  memory.values_RHKV = begins ? values : values + memory.values_RHKV * decay_H1.unsqueeze(-1);
  memory.keys_RHK = begins ? keys : keys + memory.keys_RHK * decay_H1;
  memory.m_RH = (last_H1 + b_HT.narrow(-1, b_HT.size(-1) - 1, 1)).squeeze(-1);
  const at::Tensor h_HTV = sums / (at::maximum(divisor.abs(), smallest) + eps);
  return h_HTV.transpose(0, 1).to(input.q_NHK.scalar_type());
}

namespace {

// past: rows are of documents; without rows each begins with nothing.
at::Tensor mlstm_of_all(const MlstmInput& input, const std::vector<Span>& spans, double eps, const MlstmPast& past) {
  return by_document(input.v_NHV, spans, [&](std::size_t i, const Span& span) {
    const auto part = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
    const MlstmInput own{part(input.q_NHK), part(input.k_NHK), part(input.v_NHV), part(input.input_NH),
                         part(input.forget_NH)};
    MlstmMemory memory;
    if (past.rows.empty()) return mlstm(own, memory, eps);
    const auto row = [&](const at::Tensor& x) { return x.select(0, past.rows[i]); };
    const MlstmMemory rows{row(past.memory.values_RHKV), row(past.memory.keys_RHK), row(past.memory.m_RH)};
    memory = rows;
    const at::Tensor h = mlstm(own, memory, eps);
    rows.values_RHKV.copy_(memory.values_RHKV), rows.keys_RHK.copy_(memory.keys_RHK), rows.m_RH.copy_(memory.m_RH);
    return h;
  });
}

}  // namespace
}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Token by token: the product of key and value, and the query's with the memory; backward, the gradients of both
// factors of each.
constexpr double kMlstmProducts = 2, kMlstmBackwardProducts = 4;

void add_flop(const MlstmInput& input, double products) {
  if (sections::running())
    sections::add_flop(2 * products * static_cast<double>(input.q_NHK.numel() * input.v_NHV.size(2)));
}

MlstmInput dense(const MlstmInput& input) {
  return {dense_rows(input.q_NHK), dense_rows(input.k_NHK), dense_rows(input.v_NHV), input.input_NH.contiguous(),
          input.forget_NH.contiguous()};
}

class MlstmFunction : public torch::autograd::Function<MlstmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& input_gate, const at::Tensor& forget_gate, const Documents& documents,
                            double eps) {
    const sections::Timed section(sections::Section::attention);
    const MlstmInput in = dense({q, k, v, input_gate, forget_gate});
    add_flop(in, kMlstmProducts);
    const MlstmMade made = backend_of(q).mlstm.forward(in, documents, eps, {});
    ctx->save_for_backward({in.q_NHK, in.k_NHK, in.v_NHV, in.input_NH, in.forget_NH, made.h_NHV, made.divisor_HN});
    ctx->saved_data["documents"] = to_value(documents);
    ctx->saved_data["eps"] = eps;
    return made.h_NHV;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    const auto kept = ctx->get_saved_variables();
    const MlstmSaved saved{{kept[0], kept[1], kept[2], kept[3], kept[4]}, {kept[5], kept[6]}};
    add_flop(saved.input, kMlstmBackwardProducts);
    const MlstmInput to = backend_of(kept[0]).mlstm.backward(
        dense_rows(grads[0]), saved, to_documents(ctx->saved_data["documents"]), ctx->saved_data["eps"].toDouble());
    return {to.q_NHK, to.k_NHK, to.v_NHV, to.input_NH, to.forget_NH, at::Tensor(), at::Tensor()};
  }
};

// Kernels look at no shapes.
void check(const MlstmInput& x, const Documents& documents) {
  const auto &q = x.q_NHK, &v = x.v_NHV;
  const auto gate_fits = [&](const at::Tensor& gate) {
    return gate.sizes() == q.sizes().slice(0, 2) && gate.scalar_type() == at::toOpMathType(q.scalar_type());
  };
  HONE_ASSERT(q.dim() == 3 && x.k_NHK.sizes() == q.sizes() && v.dim() == 3 &&
              v.sizes().slice(0, 2) == q.sizes().slice(0, 2) && gate_fits(x.input_NH) && gate_fits(x.forget_NH));
  check_tokens("mlstm", q.size(0), documents);
}

bool backend_fits(const MlstmInput& x) {
  return x.v_NHV.numel() > 0 && x.q_NHK.numel() > 0 && backend_for({x.q_NHK, x.k_NHK, x.v_NHV});
}

}  // namespace

at::Tensor mlstm(const MlstmInput& input, const Documents& documents, double eps) {
  check(input, documents);
  if (!backend_fits(input)) return reference::mlstm_of_all(input, documents.spans(), eps, {});
  return MlstmFunction::apply(input.q_NHK, input.k_NHK, input.v_NHV, input.input_NH, input.forget_NH, documents, eps);
}

at::Tensor mlstm_on(const MlstmInput& input, const Documents& documents, double eps, const MlstmPast& past) {
  check(input, documents);
  HONE_ASSERT(past.rows.size() == documents.counted_spans().size());
  if (!backend_fits(input)) return reference::mlstm_of_all(input, documents.spans(), eps, past);
  const sections::Timed section(sections::Section::attention);
  const MlstmInput in = dense(input);
  add_flop(in, kMlstmProducts);
  return backend_of(in.q_NHK).mlstm.forward(in, documents, eps, past).h_NHV;
}

}  // namespace hone::ops
