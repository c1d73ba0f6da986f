// Routed experts as one op: one product of all experts per projection, everything else over all slots at once.
#include "ops/experts.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hone/error.h"
#include "ops/checkpoint.h"
#include "ops/kept_sum.h"
#include "ops/matmul.h"
#include "ops/skinny.h"
#include "ops/slots.h"
#include "ops/weight_gradient.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One projection of all experts, as right factors.
using OfExpert = LinearWeight GatedMlpWeights::*;
GroupedFactors factors_of(const at::Tensor& x_SI, const std::vector<GatedMlpWeights>& experts, OfExpert which) {
  GroupedFactors made{x_SI, {}};
  for (const GatedMlpWeights& e : experts) made.b_KN.push_back((e.*which).weight_OI.t());
  return made;
}

// What the backward pass needs of the forward one.
struct Inner {
  at::Tensor gate_SI, up_SI;
};

at::Tensor forward_all(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                       const std::vector<GatedMlpWeights>& experts, Activation activation, Inner& inner) {
  const std::int64_t slots = routing.slot_S.size(0), width = experts[0].gate.weight_OI.size(0);
  const at::Tensor x_SD = rows_of_slots(x_ND, routing.slot_S);
  inner = {at::empty({slots, width}, x_ND.options()), at::empty({slots, width}, x_ND.options())};
  grouped_matmul_into(inner.gate_SI, {factors_of(x_SD, experts, &GatedMlpWeights::gate)}, routing.slots);
  grouped_matmul_into(inner.up_SI, {factors_of(x_SD, experts, &GatedMlpWeights::up)}, routing.slots);
  const at::Tensor product_SI = gated(inner.gate_SI, inner.up_SI, activation);
  at::Tensor y_SD = at::empty_like(x_SD);
  grouped_matmul_into(y_SD, {factors_of(product_SI, experts, &GatedMlpWeights::down)}, routing.slots);
  return add_up(y_SD, routing.place_NK, weight_NK);
}

// Few tokens, as in decoding: the experts that have any, by what is fast for few rows.
at::Tensor forward_few(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                       const std::vector<GatedMlpWeights>& experts, Activation activation) {
  const at::Tensor x_SD = rows_of_slots(x_ND, routing.slot_S);
  std::vector<SkinnyGroup> gates, ups, downs;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const std::int64_t count = routing.slots.host_counts()[e];
    if (count == 0) continue;
    gates.push_back({count, &experts[e].gate});
    ups.push_back({count, &experts[e].up});
    downs.push_back({count, &experts[e].down});
  }
  const at::Tensor y_SD = skinny_groups(skinny_gated_groups(x_SD, gates, ups, activation), downs);
  return add_up(y_SD, routing.place_NK, weight_NK);
}

// The gradients of all slots, and where those of the weights go: `made` is autograd's list, `first` the first weight's
// place in it. Saved: x, weight_NK, slot_S, place_NK, gate, up, where experts' slots begin, then each expert's gate, up
// and down.
class Backward {
 public:
  Backward(AutogradContext* ctx, const at::Tensor& dy_ND, std::size_t first, variable_list& made)
      : ctx_(ctx),
        saved_(ctx->get_saved_variables()),
        groups_(saved_[6], ctx->saved_data["counts"].toIntVector()),
        sums_(ctx->saved_data["sums"].toIntVector()),
        activation_(static_cast<Activation>(ctx->saved_data["activation"].toInt())),
        first_(first),
        made_(made),
        dy_SD_(rows_of_slots(dy_ND, saved_[2])) {}

  void run() {
    // Of the experts' inner values before the slots' weights: with the inner values it gives these weights' gradient.
    at::Tensor dinner_SI = at::empty_like(saved_[4]);
    grouped_matmul_into(dinner_SI, {back(dy_SD_, 2)}, groups_);
    const RoutedGradients both = by_table(dinner_SI, [&](const Backend::Routed& table) {
      return table.gated_backward(dinner_SI, {saved_[4], saved_[5], saved_[1], saved_[2]}, activation_);
    });
    if (ctx_->needs_input_grad(1)) made_[1] = both.weight_NK;
    weight_gradients(both);
    if (ctx_->needs_input_grad(0)) input_gradient(both);
  }

 private:
  std::size_t experts() const { return sums_.size() / 3; }
  const at::Tensor& weight(std::size_t expert, std::size_t which) const { return saved_[7 + 3 * expert + which]; }

  GroupedFactors back(const at::Tensor& dy_SO, std::size_t which) const {
    GroupedFactors made{dy_SO, {}};
    for (std::size_t e = 0; e < experts(); ++e) made.b_KN.push_back(weight(e, which));
    return made;
  }

  void weight_gradients(const RoutedGradients& both) {
    const at::Tensor x_SD = rows_of_slots(saved_[0], saved_[2]);
    const auto add = [&](std::size_t which, const at::Tensor& dy, const at::Tensor& x) {
      std::vector<WeightPlace> places;
      for (std::size_t at = which; at < sums_.size(); at += 3)
        places.push_back({ctx_->needs_input_grad(first_ + at), to_sum(sums_[at])});
      std::vector<at::Tensor> made = grouped_weight_gradients(dy, x, groups_, places);
      for (std::size_t e = 0; e < made.size(); ++e) made_[first_ + 3 * e + which] = std::move(made[e]);
    };
    add(0, both.gate_SI, x_SD), add(1, both.up_SI, x_SD), add(2, dy_SD_, both.inner_SI);
  }

  void input_gradient(const RoutedGradients& both) {
    at::Tensor dx_SD = at::empty_like(dy_SD_);
    grouped_matmul_into(dx_SD, {back(both.gate_SI, 0), back(both.up_SI, 1)}, groups_);
    made_[0] = add_up(dx_SD, saved_[3], {});
  }

  AutogradContext* ctx_;
  const variable_list saved_;
  const RowGroups groups_;
  const std::vector<std::int64_t> sums_;
  const Activation activation_;
  const std::size_t first_;
  variable_list& made_;
  const at::Tensor dy_SD_;
};

class RoutedMlpFunction : public torch::autograd::Function<RoutedMlpFunction> {
 public:
  // tensors: x, weight_NK, then each expert's gate, up and down.
  static at::Tensor forward(AutogradContext* ctx, at::TensorList tensors, const Routing& routing,
                            const std::vector<GatedMlpWeights>& experts, std::int64_t activation) {
    Inner inner;
    const at::Tensor y_ND =
        forward_all(tensors[0], tensors[1], routing, experts, static_cast<Activation>(activation), inner);
    variable_list kept{tensors[0], tensors[1], routing.slot_S, routing.place_NK, inner.gate_SI, inner.up_SI,
                       routing.slots.begin()};
    kept.insert(kept.end(), tensors.begin() + 2, tensors.end());
    ctx->save_for_backward(kept);
    std::vector<std::int64_t> sums;
    for (const GatedMlpWeights& e : experts)
      for (const LinearWeight* w : {&e.gate, &e.up, &e.down}) sums.push_back(to_number(w->sum));
    ctx->saved_data["sums"] = sums;
    ctx->saved_data["counts"] = routing.slots.known_counts();
    ctx->saved_data["activation"] = activation;
    return y_ND;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list made(2 + ctx->saved_data["sums"].toIntVector().size() + 3);
    Backward(ctx, grads[0], 2, made).run();
    return made;
  }
};

bool takes(const at::Tensor& x, const std::vector<GatedMlpWeights>& experts) {
  if (x.numel() == 0) return false;
  // What does not fit is the reference's, which says so.
  const std::int64_t hidden = x.size(-1), inner = experts[0].gate.weight_OI.size(0);
  for (const GatedMlpWeights& e : experts)
    for (const LinearWeight* w : {&e.gate, &e.up, &e.down}) {
      HONE_ASSERT(!w->bias_O.defined());
      if (w->weight_OI.numel() == 0 || !backend_for({x, w->weight_OI})) return false;
      const bool down = w == &e.down;
      if (w->weight_OI.sizes() != at::IntArrayRef({down ? hidden : inner, down ? inner : hidden})) return false;
    }
  return true;
}

// By counting. Of the meta device, where there are no values, the first expert gets all slots.
Routing route_on_host(const at::Tensor& expert_NK, std::int64_t experts) {
  const at::Tensor chosen_NK = expert_NK.is_meta() ? host::read(expert_NK) : expert_NK.contiguous();
  const std::int64_t slots = chosen_NK.numel();
  const std::int64_t* expert = chosen_NK.const_data_ptr<std::int64_t>();
  at::Tensor slot_S = at::empty({slots}, at::kLong), place_NK = at::empty(chosen_NK.sizes(), at::kLong);
  std::vector<std::int64_t> counts(experts), next(experts + 1);
  for (std::int64_t i = 0; i < slots; ++i) ++counts.at(expert[i]);
  for (std::int64_t e = 0; e < experts; ++e) next[e + 1] = next[e] + counts[e];
  const at::Tensor begin_E1 = host::tensor_of(next, {experts + 1});
  auto *slot = slot_S.mutable_data_ptr<std::int64_t>(), *place = place_NK.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < slots; ++i) slot[place[i] = next[expert[i]]++] = i;
  const at::Device device = expert_NK.device();
  const auto sent = [&](const at::Tensor& x) { return devices::sent(x, device); };
  return {sent(slot_S), sent(place_NK), RowGroups(sent(begin_E1), std::move(counts))};
}

Routing route_there(const at::Tensor& expert_NK, std::int64_t experts) {
  const RoutedSlots made = table_of(expert_NK.device().type()).routed.slots(expert_NK, experts);
  return {made.slot_S, made.place_NK, RowGroups(made.begin_E1)};
}

}  // namespace

Routing route(const at::Tensor& expert_NK, std::int64_t experts) {
  const bool on_host = expert_NK.is_cpu() || expert_NK.is_meta();
  return on_host ? route_on_host(expert_NK, experts) : route_there(expert_NK, experts);
}

// Rows are moved by permutations only: their gradients are moves too, so that even these are the same in equal runs.
at::Tensor routed(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                  const std::function<at::Tensor(std::size_t expert, const at::Tensor& x_SD)>& run) {
  const at::Tensor all_SD = x_ND.unsqueeze(1).expand({-1, weight_NK.size(1), -1}).flatten(0, 1);
  const auto x_SD = all_SD.index_select(0, routing.slot_S).split_with_sizes(routing.slots.host_counts());
  std::vector<at::Tensor> y_SD;
  for (std::size_t e = 0; e < x_SD.size(); ++e) y_SD.push_back(run(e, x_SD[e]));
  const at::Tensor y_NKD =
      at::cat(y_SD).index_select(0, routing.place_NK.flatten()).view({-1, weight_NK.size(1), x_ND.size(1)});
  return (y_NKD.to(weight_NK.scalar_type()) * weight_NK.unsqueeze(-1)).sum(1).to(x_ND.scalar_type());
}

namespace reference {

at::Tensor routed_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                      const std::vector<GatedMlpWeights>& experts, Activation activation) {
  return routed(x_ND, weight_NK, routing, [&](std::size_t e, const at::Tensor& x_SD) {
    const at::Tensor gate = reference::linear(x_SD, experts[e].gate), up = reference::linear(x_SD, experts[e].up);
    return reference::gated_linear(gate, up, activation, experts[e].down);
  });
}

}  // namespace reference

at::Tensor routed_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                      const std::vector<GatedMlpWeights>& experts, Activation activation) {
  HONE_ASSERT(static_cast<std::int64_t>(experts.size()) == routing.slots.size());
  HONE_ASSERT(weight_NK.sizes() == routing.place_NK.sizes());
  if (!takes(x_ND, experts)) return reference::routed_mlp(x_ND, weight_NK, routing, experts, activation);
  if (at::GradMode::is_enabled()) {
    variable_list tensors{x_ND, weight_NK};
    for (const GatedMlpWeights& e : experts)
      tensors.insert(tensors.end(), {e.gate.weight_OI, e.up.weight_OI, e.down.weight_OI});
    return RoutedMlpFunction::apply(at::TensorList(tensors), routing, experts, static_cast<std::int64_t>(activation));
  }
  const bool known = !routing.slots.known_counts().empty() && !is_computed_again();
  if (known && x_ND.size(0) <= kSkinnyRows) return forward_few(x_ND, weight_NK, routing, experts, activation);
  Inner unused;
  return forward_all(x_ND, weight_NK, routing, experts, activation, unused);
}

}  // namespace hone::ops
