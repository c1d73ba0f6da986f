// Rotary position embedding: its meaning, its gradient (the opposite rotation).
#include "ops/rope.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "base/sections.h"
#include "ops/backend.h"
#include "ops/passes.h"

namespace hone::ops {
namespace reference {

at::Tensor rope(const at::Tensor& x_NHK, const RopeTable& table) {
  const auto wide = at::toOpMathType(x_NHK.scalar_type());
  const auto per_token = [&](const at::Tensor& values) {
    return values.index_select(0, table.rows_N).to(wide).unsqueeze(1);
  };
  const at::Tensor cos = per_token(table.cos), sin = per_token(table.sin);
  const auto halves = x_NHK.to(wide).chunk(2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1).to(x_NHK.scalar_type());
}

}  // namespace reference

namespace {

void rotate_into(const at::Tensor& y_NHK, const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  const sections::Timed section(sections::Section::elementwise);
  count_bytes({x_NHK, y_NHK});
  backend_of(x_NHK).elementwise.rotate_into(y_NHK, x_NHK, table, back);
}

// Tokens may be any distance apart, as in a slice of the rows of a product.
bool whole_tokens(const at::Tensor& x_NHK) { return x_NHK.stride(2) == 1 && x_NHK.stride(1) == x_NHK.size(2); }

at::Tensor rotated(const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  at::Tensor y = at::empty(x_NHK.sizes(), x_NHK.options());
  rotate_into(y, whole_tokens(x_NHK) ? x_NHK : x_NHK.contiguous(), table, back);
  return y;
}

class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin, const at::Tensor& rows) {
    ctx->save_for_backward({cos, sin, rows});
    return rotated(x, {cos, sin, rows}, /*back=*/false);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotated(grads[0], {saved[0], saved[1], saved[2]}, /*back=*/true), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Queries and keys rotated, and values as they are, for all three gradients to come at once, which are laid side
// by side, in one matrix, for the products that q, k and v come from.
class RopeBesideFunction : public torch::autograd::Function<RopeBesideFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                                                const at::Tensor& k, const at::Tensor& v, const at::Tensor& cos,
                                                const at::Tensor& sin, const at::Tensor& rows) {
    ctx->save_for_backward({cos, sin, rows});
    ctx->set_materialize_grads(false);
    const RopeTable table{cos, sin, rows};
    return {rotated(q, table, /*back=*/false), rotated(k, table, /*back=*/false), v.view_as(v)};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const RopeTable table{saved[0], saved[1], saved[2]};
    torch::autograd::variable_list made(6);
    const bool all = grads[0].defined() && grads[1].defined() && grads[2].defined();
    const std::array<at::Tensor, 3> to = all ? side_by_side(grads) : std::array<at::Tensor, 3>{};
    for (std::size_t i = 0; i < 2; ++i) {
      if (!grads[i].defined()) continue;
      made[i] = to[i].defined() ? to[i] : at::empty(grads[i].sizes(), grads[i].options());
      rotate_into(made[i], whole_tokens(grads[i]) ? grads[i] : grads[i].contiguous(), table, /*back=*/true);
    }
    made[2] = to[2].defined() ? to[2].copy_(grads[2]) : grads[2];
    return made;
  }

 private:
  // Room for such tensors in one matrix of a row for each token.
  static std::array<at::Tensor, 3> side_by_side(const torch::autograd::variable_list& like) {
    std::array<at::Tensor, 3> parts;
    std::int64_t width = 0, at = 0;
    for (std::size_t i = 0; i < 3; ++i) width += like[i].size(1) * like[i].size(2);
    const at::Tensor room = at::empty({like[0].size(0), width}, like[0].options());
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t own = like[i].size(1) * like[i].size(2);
      parts[i] = room.narrow(1, at, own).view(like[i].sizes());
      at += own;
    }
    return parts;
  }
};

}  // namespace

bool backend_rotates(const at::Tensor& x_NHK, const RopeTable& table) {
  const bool fits = x_NHK.dim() == 3 && table.cos.dim() == 2 && table.cos.sizes() == table.sin.sizes() &&
                    2 * table.cos.size(1) == x_NHK.size(2) && table.rows_N.numel() == x_NHK.size(0);
  return fits && x_NHK.numel() > 0 && backend_for({x_NHK}) && backend_for({table.cos, table.sin}) &&
         table.cos.device() == x_NHK.device() && table.cos.scalar_type() == at::toOpMathType(x_NHK.scalar_type());
}

at::Tensor rope(const at::Tensor& x_NHK, const RopeTable& table) {
  if (!backend_rotates(x_NHK, table)) return reference::rope(x_NHK, table);
  if (!at::GradMode::is_enabled()) return rotated(x_NHK, table, /*back=*/false);
  return RopeFunction::apply(x_NHK, table.cos, table.sin, table.rows_N);
}

Rotated rope_beside(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                    const RopeTable& table) {
  // What was made of a product's rows since, as norms of heads, wants gradients whose rows are dense.
  const bool of_products = q_NHK.is_view() && k_NGK.is_view() && v_NGK.is_view();
  const bool all = at::GradMode::is_enabled() && of_products && backend_rotates(q_NHK, table) &&
                   backend_rotates(k_NGK, table) && backend_for({q_NHK, k_NGK, v_NGK}) &&
                   v_NGK.sizes() == k_NGK.sizes() && backend_of(q_NHK).products.joins_neighbours;
  if (!all) return {rope(q_NHK, table), rope(k_NGK, table), v_NGK};
  const auto made = RopeBesideFunction::apply(q_NHK, k_NGK, v_NGK, table.cos, table.sin, table.rows_N);
  return {made[0], made[1], made[2]};
}

void rope_in_place(const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  if (backend_rotates(x_NHK, table) && whole_tokens(x_NHK)) return rotate_into(x_NHK, x_NHK, table, back);
  const RopeTable turned{table.cos, back ? -table.sin : table.sin, table.rows_N};
  x_NHK.copy_(reference::rope(x_NHK, turned));
}

}  // namespace hone::ops
