// Slots of routed experts and their rows, by kernels of ours.
#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr int kSortThreads = 512, kRowThreads = 256, kRoutedWarp = 32;

// A kernel is found by a type of floating numbers.
at::Tensor like_of(const at::Tensor& x) { return at::empty({0}, x.options().dtype(at::kFloat)); }

RoutedSlots slots(const at::Tensor& given, std::int64_t experts) {
  const at::Tensor expert = given.contiguous();
  const std::int64_t count = expert.numel();
  const auto room = [&](at::IntArrayRef sizes) { return at::empty(sizes, expert.options()); };
  RoutedSlots made{room({count}), room(expert.sizes()), room({experts + 1})};
  const Grid grid{.x = experts, .threads = threads_for(count, kSortThreads)};
  launch({"routed", "sort_slots"}, like_of(expert), grid, expert, made.slot_S, made.place_NK, made.begin_E1, count);
  return made;
}

// A block for several rows where they are short.
Grid of_rows(std::int64_t rows, std::int64_t accesses, int most) {
  Grid grid{.threads = threads_for(accesses, most)};
  grid.threads_y = kRowThreads / grid.threads;
  grid.x = ceil_div(rows, grid.threads_y);
  return grid;
}

at::Tensor take(const at::Tensor& x_ND, const at::Tensor& slot_S) {
  const at::Tensor x = x_ND.contiguous();
  const std::int64_t count = slot_S.size(0), width = x.size(1);
  const at::Tensor y = at::empty({count, width}, x.options());
  const bool wide = wide_rows(width, {x, y});
  launch({"routed", "take_slots"}, x, of_rows(count, width / values_at_once(x, wide), kRowThreads), x, slot_S, y, count,
         static_cast<int>(count / x.size(0)), width, wide);
  return y;
}

at::Tensor add_up(const at::Tensor& y_SD, const at::Tensor& place_NK, const at::Tensor& weight_NK) {
  const at::Tensor y = y_SD.contiguous(), place = place_NK.contiguous();
  const at::Tensor weight = weight_NK.defined() ? weight_NK.contiguous() : weight_NK;
  const std::int64_t tokens = place.size(0), width = y.size(1);
  const at::Tensor sum = at::empty({tokens, width}, y.options());
  const bool wide = wide_rows(width, {y, sum});
  launch({"routed", "add_up"}, y, of_rows(tokens, width / values_at_once(y, wide), kRowThreads), y, place, weight, sum,
         tokens, static_cast<int>(place.size(1)), width, wide);
  return sum;
}

RoutedGradients gated_backward(const at::Tensor& given, const RoutedGated& saved, Activation activation) {
  const at::Tensor d = given.contiguous(), gate = saved.gate_SI.contiguous(), up = saved.up_SI.contiguous();
  const at::Tensor weight = saved.weight_NK.contiguous();
  const std::int64_t count = d.size(0), width = d.size(1);
  RoutedGradients made{at::empty_like(d), at::empty_like(d), d, at::empty_like(weight)};
  const bool wide = wide_rows(width, {d, gate, up, made.inner_SI, made.gate_SI});
  launch({"routed", "gated_slots_backward"}, d, of_rows(count, width / values_at_once(d, wide), kRoutedWarp), d, gate,
         up, weight, saved.slot_S, made.inner_SI, made.gate_SI, made.weight_NK, count, width,
         static_cast<int>(activation), wide);
  return made;
}

}  // namespace

Backend::Routed routed() {
  return {slots, take, add_up, gated_backward, choose_experts, choose_experts_backward, measure_spread};
}

}  // namespace hone::ops::cuda_table
