// Stacked experts as one op: one product of all experts per projection. Biases are added by the expert of each slot;
// their gradients are products with rows of zeros and ones, which no device adds in an order of its own.
//
// Letters: S slots, O outputs.
#include "ops/stacked_experts.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hone/error.h"
#include "ops/backend.h"
#include "ops/checkpoint.h"
#include "ops/kept_sum.h"
#include "ops/matmul.h"
#include "ops/row_products.h"
#include "ops/skinny.h"
#include "ops/slots.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType wide_type(const at::Tensor& x) { return at::toOpMathType(x.scalar_type()); }

at::Tensor grouped(const at::Tensor& a_SK, const at::Tensor& b_EKO, const RowGroups& groups) {
  at::Tensor out_SO = at::empty({a_SK.size(0), b_EKO.size(2)}, a_SK.options());
  grouped_matmul_into(out_SO, {{a_SK, b_EKO.unbind(0)}}, groups);
  return out_SO;
}

// Rows of the shape [E,S] that are 1, or what `share_S1` says, where the slot is the expert's.
at::Tensor belongs(const at::Tensor& expert_S, std::int64_t experts, const at::Tensor& like,
                   const at::Tensor& share_S1 = {}) {
  const at::Tensor is_ES = at::arange(experts, expert_S.options()).unsqueeze(1).eq(expert_S);
  return share_S1.defined() ? (is_ES * share_S1.t()).to(like.scalar_type()) : is_ES.to(like.scalar_type());
}

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  at::Tensor out_MN = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options().dtype(wide_type(a_MK)));
  matmul_into(out_MN, {{a_MK, b_KN}});
  return out_MN;
}

struct Forward {
  at::Tensor both_SJ, y_ND;
};

// product(a, b, groups): of each group's rows with its b.
template <class Product>
Forward forward_by(const at::Tensor& x_ND, const at::Tensor& weight_NK, const at::Tensor& expert_S,
                   const Routing& routing, const StackedExperts& e, Product&& product) {
  const auto add_bias = [&](const at::Tensor& to_SO, const at::Tensor& bias_EO) {
    const sections::Timed section(sections::Section::elementwise);
    each_part_of_rows(to_SO.size(0), to_SO.size(1), [&](std::int64_t first, std::int64_t rows) {
      to_SO.narrow(0, first, rows).add_(bias_EO.index_select(0, expert_S.narrow(0, first, rows)));
    });
  };
  const at::Tensor both_SJ = product(rows_of_slots(x_ND, routing.slot_S), e.gate_up_EDJ, routing.slots);
  add_bias(both_SJ, e.gate_up_bias_EJ);
  const at::Tensor y_SD = product(clamped_gate(both_SJ, e.gate), e.down_EID, routing.slots);
  add_bias(y_SD, e.down_bias_ED);
  return {both_SJ, add_up(y_SD, routing.place_NK, weight_NK)};
}

Forward forward_all(const at::Tensor& x_ND, const at::Tensor& weight_NK, const at::Tensor& expert_S,
                    const Routing& routing, const StackedExperts& e) {
  return forward_by(x_ND, weight_NK, expert_S, routing, e, grouped);
}

// Few tokens, as in decoding: the experts that have any, by what is fast for few rows.
at::Tensor forward_few(const at::Tensor& x_ND, const at::Tensor& weight_NK, const at::Tensor& expert_S,
                       const Routing& routing, const StackedExperts& e) {
  const auto few = [](const at::Tensor& a_SK, const at::Tensor& b_EKO, const RowGroups& groups) {
    std::vector<LinearWeight> weights;
    std::vector<SkinnyGroup> all;
    weights.reserve(groups.host_counts().size());
    for (std::size_t i = 0; i < groups.host_counts().size(); ++i)
      if (const std::int64_t rows = groups.host_counts()[i]; rows > 0)
        all.push_back({rows, &weights.emplace_back(LinearWeight{b_EKO[static_cast<std::int64_t>(i)].t()})});
    return skinny_groups(a_SK, all);
  };
  return forward_by(x_ND, weight_NK, expert_S, routing, e, few).y_ND;
}

// a^T b of each expert's rows: into the sum, or as the gradient of all.
at::Tensor stacked_gradient(const at::Tensor& a_SK, const at::Tensor& b_SO, const RowGroups& groups, GradientSum* sum) {
  const bool takes = sum && sum->takes();
  const at::Tensor all_EKO =
      takes ? sum->sum : at::empty({groups.size(), a_SK.size(1), b_SO.size(1)}, a_SK.options());
  std::vector<Target> targets;
  for (const at::Tensor& out : all_EKO.unbind(0)) targets.push_back({out, takes && sum->full()});
  matmul_over_groups(a_SK, b_SO, groups, targets);
  if (!takes) return all_EKO;
  sum->fill();
  return {};
}

// Of the function's tensors, in their order; then what else is saved.
enum Place : std::size_t { kX, kWeight, kGateUp, kGateUpBias, kDown, kDownBias, kExpert, kSlot, kPlace, kBegin, kBoth };
constexpr std::size_t kInputs = kExpert + 3;  // of forward()

class StackedFunction : public torch::autograd::Function<StackedFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& gate_up, const at::Tensor& gate_up_bias, const at::Tensor& down,
                            const at::Tensor& down_bias, const at::Tensor& expert_S, const Routing& routing,
                            const StackedExperts& experts) {
    const Forward made = forward_all(x, weight, expert_S, routing, experts);
    ctx->save_for_backward({x, weight, gate_up, gate_up_bias, down, down_bias, expert_S, routing.slot_S,
                            routing.place_NK, routing.slots.begin(), made.both_SJ});
    ctx->saved_data["counts"] = routing.slots.known_counts();
    ctx->saved_data["sums"] =
        std::vector<std::int64_t>{to_number(experts.gate_up_sum), to_number(experts.down_sum)};
    ctx->saved_data["alpha"] = experts.gate.alpha, ctx->saved_data["limit"] = experts.gate.limit;
    return made.y_ND;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &expert_S = saved[kExpert], &slot_S = saved[kSlot], &both_SJ = saved[kBoth];
    const RowGroups groups(saved[kBegin], ctx->saved_data["counts"].toIntVector());
    const auto sums = ctx->saved_data["sums"].toIntVector();
    const ClampedGate gate{ctx->saved_data["alpha"].toDouble(), ctx->saved_data["limit"].toDouble()};
    const auto wants = [&](Place place) { return ctx->needs_input_grad(place); };
    variable_list made(kInputs);

    const at::Tensor dy_SD = rows_of_slots(grads[0], slot_S);
    const at::Tensor weight_S1 = saved[kWeight].flatten().index_select(0, slot_S).unsqueeze(1);
    at::Tensor d_SI = grouped(dy_SD, saved[kDown].transpose(1, 2), groups), inner_SI = clamped_gate(both_SJ, gate);
    if (wants(kWeight)) {
      const at::Tensor bias_SE = product(dy_SD, saved[kDownBias].t());
      const at::Tensor d_S =
          row_products(d_SI, inner_SI) + bias_SE.gather(1, expert_S.unsqueeze(1)).squeeze(1);
      made[kWeight] = at::empty_like(saved[kWeight], at::MemoryFormat::Contiguous);
      made[kWeight].view({-1}).index_copy_(0, slot_S, d_S.to(weight_S1.scalar_type()));
    }
    if (wants(kDown)) made[kDown] = stacked_gradient(inner_SI.mul_(weight_S1), dy_SD, groups, to_sum(sums[1]));
    const auto bias_gradient = [&](Place place, const at::Tensor& d_SO, const at::Tensor& share_S1) {
      if (!wants(place)) return;
      const at::Tensor is_ES = belongs(expert_S, groups.size(), d_SO, share_S1);
      made[place] = product(is_ES, d_SO).to(saved[place].scalar_type());
    };
    bias_gradient(kDownBias, dy_SD, weight_S1);
    const at::Tensor dboth_SJ = clamped_gate_backward(d_SI.mul_(weight_S1), both_SJ, gate);
    if (wants(kGateUp))
      made[kGateUp] = stacked_gradient(rows_of_slots(saved[kX], slot_S), dboth_SJ, groups, to_sum(sums[0]));
    bias_gradient(kGateUpBias, dboth_SJ, {});
    if (wants(kX)) made[kX] = add_up(grouped(dboth_SJ, saved[kGateUp].transpose(1, 2), groups), saved[kPlace], {});
    return made;
  }
};

bool fits(const at::Tensor& x_ND, const StackedExperts& e) {
  const std::int64_t experts = e.gate_up_EDJ.size(0), hidden = x_ND.size(1), both = e.gate_up_EDJ.size(2);
  return x_ND.numel() > 0 && both % 2 == 0 && e.gate_up_EDJ.size(1) == hidden &&
         e.gate_up_bias_EJ.sizes() == at::IntArrayRef({experts, both}) &&
         e.down_EID.sizes() == at::IntArrayRef({experts, both / 2, hidden}) &&
         e.down_bias_ED.sizes() == at::IntArrayRef({experts, hidden}) &&
         backend_for({x_ND, e.gate_up_EDJ, e.gate_up_bias_EJ, e.down_EID, e.down_bias_ED});
}

}  // namespace

namespace reference {

at::Tensor stacked_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                       const StackedExperts& e) {
  const auto gate_up = e.gate_up_EDJ.unbind(0), gate_up_bias = e.gate_up_bias_EJ.unbind(0);
  const auto down = e.down_EID.unbind(0), down_bias = e.down_bias_ED.unbind(0);
  return routed(x_ND, weight_NK, routing, [&](std::size_t i, const at::Tensor& x_SD) {
    const at::Tensor both_SJ = at::matmul(x_SD, gate_up[i]) + gate_up_bias[i];
    return at::matmul(reference::clamped_gate(both_SJ, e.gate), down[i]) + down_bias[i];
  });
}

}  // namespace reference

at::Tensor stacked_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const at::Tensor& expert_NK,
                       const Routing& routing, const StackedExperts& experts) {
  HONE_ASSERT(experts.gate_up_EDJ.size(0) == routing.slots.size());
  HONE_ASSERT(weight_NK.sizes() == routing.place_NK.sizes() && expert_NK.sizes() == weight_NK.sizes());
  if (!fits(x_ND, experts)) return reference::stacked_mlp(x_ND, weight_NK, routing, experts);
  const at::Tensor expert_S = expert_NK.flatten().index_select(0, routing.slot_S);
  const bool known = !routing.slots.known_counts().empty() && !is_computed_again();
  if (!at::GradMode::is_enabled() && known && x_ND.size(0) <= kSkinnyRows)
    return forward_few(x_ND, weight_NK, expert_S, routing, experts);
  return StackedFunction::apply(x_ND, weight_NK, experts.gate_up_EDJ, experts.gate_up_bias_EJ, experts.down_EID,
                                experts.down_bias_ED, expert_S, routing, experts);
}

}  // namespace hone::ops
