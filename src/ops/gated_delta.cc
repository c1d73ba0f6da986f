// A memory that each token corrects: its meaning, its gradient.
#include "ops/gated_delta.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/by_document.h"
#include "ops/kept_documents.h"
#include "ops/unit_heads.h"

namespace hone::ops {
namespace reference {

// What tokens write, as the solution of one triangle of equations over all of them.
at::Tensor gated_delta(const DeltaInput& input, at::Tensor& memory_HKV) {
  const auto wide = at::toOpMathType(input.v_NHV.scalar_type());
  const std::int64_t group = input.v_NHV.size(1) / input.q_NGK.size(1), length = input.v_NHV.size(0);
  const auto by_head = [&](const at::Tensor& x) { return x.to(wide).transpose(0, 1); };
  const auto units = [&](const at::Tensor& x) { return to_units(by_head(x)).repeat_interleave(group, 0); };
  const at::Tensor k_HTK = units(input.k_NGK), v_HTV = by_head(input.v_NHV),
                   sum_HT = by_head(input.decay_NH).cumsum(-1);
  const at::Tensor q_HTK = units(input.q_NGK) / std::sqrt(static_cast<double>(k_HTK.size(-1)));
  const at::Tensor step_HT1 = by_head(input.step_NH).unsqueeze(-1), seen_HT1 = sum_HT.exp().unsqueeze(-1);
  const at::Tensor later = at::ones({length, length}, v_HTV.options().dtype(at::kBool)).triu(1);
  const at::Tensor shares =
      (sum_HT.unsqueeze(-1) - sum_HT.unsqueeze(-2)).masked_fill(later, -INFINITY).exp();  // [H,T,S]
  const at::Tensor before = (step_HT1 * at::matmul(k_HTK, k_HTK.mT()) * shares).tril(-1);
  at::Tensor above = v_HTV;
  if (memory_HKV.defined()) above = above - seen_HT1 * at::matmul(k_HTK, memory_HKV);
  const at::Tensor written = at::linalg_solve_triangular(before + at::eye(length, v_HTV.options()), step_HT1 * above,
                                                         /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  at::Tensor y_HTV = at::matmul(at::matmul(q_HTK, k_HTK.mT()) * shares, written);
  if (memory_HKV.defined()) y_HTV = y_HTV + seen_HT1 * at::matmul(q_HTK, memory_HKV);
  const at::Tensor total_H1 = sum_HT.narrow(-1, length - 1, 1);
  const at::Tensor taken = at::matmul((k_HTK * (total_H1 - sum_HT).exp().unsqueeze(-1)).mT(), written);
  memory_HKV = memory_HKV.defined() ? taken + total_H1.exp().unsqueeze(-1) * memory_HKV : taken;
  return y_HTV.transpose(0, 1).to(input.v_NHV.scalar_type());
}

namespace {

// So many tokens at a time: sums of decays over a long document have no digits left for what is near.
constexpr std::int64_t kPiece = 64;

// past: rows are of documents; without rows each begins with zeros.
at::Tensor gated_delta_of_all(const DeltaInput& input, const std::vector<Span>& spans, const DeltaPast& past) {
  return by_document(input.v_NHV, spans, [&](std::size_t i, const Span& span) {
    const at::Tensor row = past.rows.empty() ? at::Tensor() : past.memory_RHKV.select(0, past.rows[i]);
    at::Tensor memory = row;
    std::vector<at::Tensor> pieces;
    for (std::int64_t begin = span.begin; begin < span.end; begin += kPiece) {
      const auto part = [&](const at::Tensor& x) { return x.slice(0, begin, std::min(begin + kPiece, span.end)); };
      const DeltaInput own{part(input.q_NGK), part(input.k_NGK), part(input.v_NHV), part(input.decay_NH),
                           part(input.step_NH)};
      pieces.push_back(gated_delta(own, memory));
    }
    if (row.defined()) row.copy_(memory);
    return at::cat(pieces);
  });
}

}  // namespace
}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Token by token: what the memory has for its key, what is written, and what is read; backward, the gradients of both
// factors of each.
constexpr double kDeltaProducts = 3, kDeltaBackwardProducts = 6;

void add_flop(const DeltaInput& input, double products) {
  if (sections::running())
    sections::add_flop(2 * products * static_cast<double>(input.v_NHV.numel() * input.q_NGK.size(2)));
}

DeltaInput dense(const DeltaInput& input) {
  return {dense_rows(input.q_NGK), dense_rows(input.k_NGK), dense_rows(input.v_NHV), input.decay_NH.contiguous(),
          input.step_NH.contiguous()};
}

class DeltaFunction : public torch::autograd::Function<DeltaFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& decay, const at::Tensor& step, const Documents& documents) {
    const sections::Timed section(sections::Section::attention);
    const DeltaInput in = dense({q, k, v, decay, step});
    add_flop(in, kDeltaProducts);
    ctx->save_for_backward({in.q_NGK, in.k_NGK, in.v_NHV, in.decay_NH, in.step_NH});
    ctx->saved_data["documents"] = to_value(documents);
    return backend_of(v).gated_delta.forward(in, documents, {});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    const auto kept = ctx->get_saved_variables();
    const DeltaInput input{kept[0], kept[1], kept[2], kept[3], kept[4]};
    add_flop(input, kDeltaBackwardProducts);
    const DeltaInput to = backend_of(kept[0]).gated_delta.backward(dense_rows(grads[0]), input,
                                                                   to_documents(ctx->saved_data["documents"]));
    return {to.q_NGK, to.k_NGK, to.v_NHV, to.decay_NH, to.step_NH, at::Tensor()};
  }
};

// Kernels look at no shapes.
void check(const DeltaInput& x, const Documents& documents) {
  const auto &q = x.q_NGK, &v = x.v_NHV;
  const auto gate_fits = [&](const at::Tensor& gate) {
    return gate.sizes() == v.sizes().slice(0, 2) && gate.scalar_type() == at::toOpMathType(v.scalar_type());
  };
  HONE_ASSERT(q.dim() == 3 && x.k_NGK.sizes() == q.sizes() && v.dim() == 3 && v.size(0) == q.size(0) && q.size(1) > 0 &&
              v.size(1) % q.size(1) == 0 && gate_fits(x.decay_NH) && gate_fits(x.step_NH));
  check_tokens("gated_delta", q.size(0), documents);
}

bool backend_fits(const DeltaInput& x) {
  return x.v_NHV.numel() > 0 && x.q_NGK.numel() > 0 && backend_for({x.q_NGK, x.k_NGK, x.v_NHV});
}

}  // namespace

at::Tensor gated_delta(const DeltaInput& input, const Documents& documents) {
  check(input, documents);
  if (!backend_fits(input)) return reference::gated_delta_of_all(input, documents.spans(), {});
  return DeltaFunction::apply(input.q_NGK, input.k_NGK, input.v_NHV, input.decay_NH, input.step_NH, documents);
}

at::Tensor gated_delta_on(const DeltaInput& input, const Documents& documents, const DeltaPast& past) {
  check(input, documents);
  HONE_ASSERT(past.rows.size() == documents.counted_spans().size());
  if (!backend_fits(input)) return reference::gated_delta_of_all(input, documents.spans(), past);
  const sections::Timed section(sections::Section::attention);
  const DeltaInput in = dense(input);
  add_flop(in, kDeltaProducts);
  return backend_of(in.v_NHV).gated_delta.forward(in, documents, past);
}

}  // namespace hone::ops
