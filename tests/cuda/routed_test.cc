// Slots of routed experts and their rows: the kernels beside plain ATen.
#include <ATen/OpMathType.h>

#include "cuda/kernel_check.h"

namespace hone::ops::test {
namespace {

Tensor chosen(std::int64_t tokens, std::int64_t experts, std::int64_t per_token) {
  return std::get<1>(at::topk(sample({tokens, experts}, at::kFloat, 3), per_token, -1));
}

TEST(CudaRouted, SlotsByExpertInTheirOrder) {
  for (const auto& [tokens, experts, per_token] :
       {std::tuple(1, 1, 1), {7, 5, 2}, {40, 3, 3}, {300, 130, 8}, {513, 2, 1}}) {
    const Tensor expert_NK = chosen(tokens, experts, per_token);
    expect_as_reference(
        [&](const Backend& table) {
          const RoutedSlots made = table.routed.slots(expert_NK, experts);
          return Results{made.slot_S, made.place_NK, made.begin_E1};
        },
        at::kDouble, std::to_string(tokens) + " tokens of " + std::to_string(experts), 1e-300);
  }
}
TEST(CudaRouted, ExpertsWithoutSlots) {
  for (const std::int64_t only : {0, 3, 6}) {
    const Tensor expert_NK = at::full({70, 1}, only, at::kLong);
    const auto primitive = [&](const Backend& table) { return Results{table.routed.slots(expert_NK, 7).begin_E1}; };
    const Tensor begin = emulated_results(primitive, "one expert")[0];
    EXPECT_TRUE(begin.equal(at::arange(8).gt(only).to(at::kLong) * 70)) << begin;
  }
}

// Rows of whole accesses and others.
TEST(CudaRouted, RowsToSlotsAndBack) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t width : {1, 24, 37, 2080}) {
      const std::int64_t tokens = 11;
      const Tensor expert_NK = chosen(tokens, 6, 3), x = sample({tokens, width}, type, 1);
      const Tensor weight_NK = sample({tokens, 3}, at::toOpMathType(type), 2);
      const RoutedSlots routed = reference_backend().routed.slots(expert_NK, 6);
      const Tensor y_SD = sample({tokens * 3, width}, type, 4);
      const std::string what = described(type, tokens, width);
      expect_as_reference([&](const Backend& table) { return Results{table.routed.take(x, routed.slot_S)}; }, type,
                          what + ", taken", 1e-300);
      for (const Tensor& weight : {weight_NK, Tensor()})
        expect_as_reference(
            [&](const Backend& table) { return Results{table.routed.add_up(y_SD, routed.place_NK, weight)}; }, type,
            what + ", added up", once_rounded(type));
    }
}

TEST(CudaRouted, GradientsOfSlots) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t width : {1, 24, 37, 520})
      for (const Activation activation : {Activation::silu, Activation::relu}) {
        const std::int64_t tokens = 9;
        const RoutedSlots routed = reference_backend().routed.slots(chosen(tokens, 5, 2), 5);
        const auto rows = [&](std::uint64_t seed) { return sample({2 * tokens, width}, type, seed); };
        const Tensor d = rows(1), gate = rows(2), up = rows(3);
        const Tensor weight_NK = sample({tokens, 2}, at::toOpMathType(type), 4);
        expect_as_reference(
            [&](const Backend& table) {
              const Tensor given = d.clone();
              const RoutedGradients made =
                  table.routed.gated_backward(given, {gate, up, weight_NK, routed.slot_S}, activation);
              if (&table == &emulated_backend()) {
                EXPECT_EQ(made.up_SI.const_data_ptr(), given.const_data_ptr());
              }
              return Results{made.inner_SI, made.gate_SI, made.up_SI, made.weight_NK};
            },
            type, described(type, tokens, width));
      }
}

}  // namespace
}  // namespace hone::ops::test
