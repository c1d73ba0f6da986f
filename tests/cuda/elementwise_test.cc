// Elementwise kernels against the reference's table.
#include "cuda/kernel_check.h"
#include "ops/dropout.h"

namespace hone::ops::test {
namespace {

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu};

Results gated_results(const Backend& table, const Tensor& gate, const Tensor& up, const Tensor& dy,
                      Activation activation) {
  const GatedGradients made = table.elementwise.gated_backward(dy, gate, up, activation, {.inner = true});
  return {table.elementwise.gated(gate, up, activation), made.gate, made.up, made.inner};
}

TEST(CudaGated, EveryActivationAgreesWithTheReference) {
  for (const at::ScalarType type : kAllTypes)
    for (const Activation activation : kActivations)
      for (const std::int64_t count : {1, 31, 33, 64, 1000}) {
        const Tensor gate = 3 * sample({3, count}, type), up = sample({3, count}, type, 2),
                     dy = sample({3, count}, type, 3);
        expect_as_reference(
            [&](const Backend& table) { return gated_results(table, gate, up, dy, activation); }, type,
            described(type, 3, count) + " activation " + std::to_string(static_cast<int>(activation)));
      }
}
TEST(CudaGated, KeepsEdges) {
  const Tensor edges = at::tensor({0., -0., 20., -20., 1e4, -1e4, static_cast<double>(NAN)}, at::kDouble);
  for (const at::ScalarType type : kAllTypes)
    for (const Activation activation : kActivations) {
      const Tensor gate = edges.to(type), one = at::ones_like(gate);
      expect_as_reference([&](const Backend& table) { return gated_results(table, gate, one, one, activation); }, type,
                          "edges " + std::to_string(static_cast<int>(activation)));
    }
  const Tensor gate = at::full({8}, -1., at::kFloat), big = at::full({8}, INFINITY, at::kFloat);
  const auto made = emulated_backend().elementwise.gated_backward(at::ones({8}), gate, big, Activation::relu, {});
  EXPECT_TRUE(made.gate.equal(at::zeros({8})));
}
TEST(CudaGated, WritesOneGradientOverAnother) {
  const Tensor gate = sample({7, 40}, at::kFloat), up = sample({7, 40}, at::kFloat, 2);
  Tensor taken;
  const Results got = emulated_results(
      [&](const Backend& table) {
        taken = sample({7, 40}, at::kFloat, 3);
        const GatedGradients made =
            table.elementwise.gated_backward(taken, gate, up, Activation::silu, {.overwrite = true});
        EXPECT_TRUE(made.up.is_alias_of(taken));
        return Results{made.gate, made.up};
      },
      "overwritten");
  const auto plain = reference_backend().elementwise.gated_backward(sample({7, 40}, at::kFloat, 3), gate, up,
                                                                    Activation::silu, {});
  expect_same(got[0], plain.gate, 1e-5, "gate");
  expect_same(got[1], plain.up, 1e-5, "up");
}
// As halves of one matrix, in which the gradient of the product lies before.
TEST(CudaGated, WritesGradientsSideBySide) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {1, 40, 64, 264}) {
      const Tensor gate = sample({2, 9, columns}, type), up = sample({2, 9, columns}, type, 2),
                   dy = sample({2, 9, columns}, type, 3);
      const Primitive both = [&](const Backend& table) {
        const Tensor room = at::zeros({18, 2 * columns}, gate.options());
        const auto half = [&](std::int64_t which) {
          return room.narrow(1, which * columns, columns).view(gate.sizes());
        };
        half(1).copy_(dy);
        const GatedWish wish{.overwrite = true, .inner = true, .gate = half(0)};
        const GatedGradients made = table.elementwise.gated_backward(half(1), gate, up, Activation::silu, wish);
        EXPECT_TRUE(made.gate.is_alias_of(room) && made.up.is_alias_of(room));
        return Results{room, made.inner};
      };
      const Results got = emulated_results(both, described(type, 18, columns));
      const auto plain = emulated_backend().elementwise.gated_backward(dy, gate, up, Activation::silu, {.inner = true});
      EXPECT_TRUE(got[0].equal(at::cat({plain.gate, plain.up}, -1).view({18, -1}))) << described(type, 18, columns);
      EXPECT_TRUE(got[1].equal(plain.inner)) << described(type, 18, columns);
    }
}
TEST(CudaMultiply, IsByANumberThatIsThere) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t count : {1, 33, 64, 3000})
      for (const bool misplace : {false, true})
        for (const double factor : {1., 0.3}) {
          const Tensor x = misplace ? misplaced(sample({count}, type)) : sample({count}, type);
          const Tensor by = at::scalar_tensor(factor, at::toOpMathType(type));
          const Tensor expected = (x.to(at::toOpMathType(type)) * by).to(type);
          emulated_backend().elementwise.multiply(x, by);
          EXPECT_TRUE(x.equal(expected)) << described(type, 1, count) << " by " << factor;
        }
}
TEST(CudaGated, GoesOnWhereThereAreMoreValuesThanThreads) {
  const Tensor many = misplaced(sample({1100000}, at::kBFloat16));  // one each for 2^12 blocks of 256 threads, and more
  const Primitive primitive = [&](const Backend& table) {
    return Results{table.elementwise.gated(many, many, Activation::relu)};
  };
  expect_as_reference(primitive, at::kBFloat16, "many values");
}

struct Rotated {
  Tensor rows;  // wider than a token's heads: x and what lies behind it
  Tensor heads() const { return rows.narrow(1, 0, 3).narrow(0, 1, rows.size(0) - 2); }
};

TEST(CudaRope, TurnsForthAndBackInPlaceAndElsewhere) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t size : {2, 6, 32, 64, 100, 128}) {
      const auto wide = at::toOpMathType(type);
      const Tensor angles = sample({50, size / 2}, at::kDouble, 7);
      const RopeTable table{angles.cos().to(wide), angles.sin().to(wide),
                            at::tensor({3, 49, 0, 7, 7}, at::kLong)};
      for (const bool back : {false, true})
        for (const bool in_place : {false, true})
          expect_as_reference(
              [&](const Backend& device) {
                const Rotated x{sample({7, 4, size}, type)}, y{at::zeros({7, 5, size}, x.rows.options())};
                device.elementwise.rotate_into(in_place ? x.heads() : y.heads(), x.heads(), table, back);
                return Results{x.rows, y.rows};  // and nothing else has changed
              },
              type, described(type, 5, size) + (back ? " back" : "") + (in_place ? " in place" : ""));
    }
}

TEST(CudaDropout, KeepsTheSameValues) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {1, 31, 32, 33, 64, 1000}) {
      Tensor x = sample({2, 9, columns}, type);
      x[1][3][columns / 2] = NAN;
      const std::string what = described(type, 18, columns);
      expect_as_reference([&](const Backend& table) { return Results{table.elementwise.dropout(x, 0.3, 77)}; }, type,
                          what);
      const Tensor ones = at::ones_like(x), made = emulated_backend().elementwise.dropout(ones, 0.3, 77);
      EXPECT_TRUE(made.equal(reference::seeded_dropout(ones, 0.3, 77))) << what;
    }
}

}  // namespace
}  // namespace hone::ops::test
