// Which table is taken, and that the ops above it go by no other.
#include "ops/backend.h"

#include "hone/gradient_sum.h"
#include "ops/check.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/gated.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "tensor/host.h"

namespace hone::ops::test {
namespace {

TEST(Backend, IsTheDevicesAndTheTypes) {
  const Tensor x = sample({3, 4}, at::kFloat);
  EXPECT_EQ(backend_for({x, x})->name, "cpu");
  EXPECT_EQ(backend_for({x.to(at::kHalf)})->name, "reference");
  EXPECT_EQ(backend_for({at::empty({2}, at::TensorOptions().device(at::kMeta))})->name, "meta");
  EXPECT_EQ(backend_for({x, x.to(at::kBFloat16)}), nullptr);
  EXPECT_EQ(backend_for({x, at::empty({2}, at::TensorOptions().device(at::kMeta))}), nullptr);
  EXPECT_EQ(backend_for({x.to(at::kLong)}), nullptr);
  const LevelScope composed(Level::reference);
  EXPECT_EQ(backend_for({x}), nullptr);
}

TEST(Backend, IsWhatATestChooses) {
  const Tensor x = sample({3, 4}, at::kFloat);
  {
    const BackendScope scope(reference_backend());
    EXPECT_EQ(backend_for({x}), &reference_backend());
    EXPECT_EQ(&backend_of(x), &reference_backend());
  }
  EXPECT_EQ(backend_for({x}), &cpu_backend());
}

int calls = 0;

// A device's table that counts one of its own primitives and has the others from the reference.
TEST(Backend, OfAFurtherDeviceIsUsedForwardAndBackward) {
  Backend table = reference_backend();
  table.products.into = [](Tensor& out, const std::vector<Factors>& factors, bool add) {
    ++calls;
    reference_backend().products.into(out, factors, add);
  };
  const BackendScope scope(table);
  calls = 0;
  const Tensor x = sample({5, 4}, at::kFloat).requires_grad_(), w = sample({3, 4}, at::kFloat, 2).requires_grad_();
  linear(x, {w, {}}).sum().backward();
  EXPECT_EQ(calls, 3);  // the product, and the gradients of both factors
}

// What the kernels do not take has no gradient sums in its composed form; by the reference's table it has.
TEST(Backend, SumsGradientsOfHalfPrecisionUnrounded) {
  const Tensor x = sample({300, 8}, at::kHalf), w = sample({5, 8}, at::kHalf, 2).requires_grad_(),
               norm = at::ones({8}, at::kHalf).requires_grad_(), dy = sample({300, 5}, at::kHalf, 3);
  GradientSum sum{at::empty({5, 8}, at::kFloat)}, norm_sum{at::empty({8}, at::kFloat)};
  for (int pass = 0; pass < 2; ++pass) linear(rms_norm(x, norm, 1e-6, &norm_sum), {w, {}, &sum}).backward(dy);
  EXPECT_FALSE(w.grad().defined() || norm.grad().defined());
  const Tensor normed = reference::rms_norm(x, norm, 1e-6).detach().to(at::kDouble);
  expect_close(sum.sum.to(at::kDouble), 2 * at::mm(dy.to(at::kDouble).t(), normed), 1e-5, "sum");
  EXPECT_TRUE(norm_sum.full());
}

// Gate and up are multiplied again in backward rather than kept, on the way of their gradients, and only for a weight
// whose gradient is wanted.
TEST(Backend, RecomputationStaysAboveTheTable) {
  static int wishes = 0;
  Backend table = reference_backend();
  table.elementwise.gated_backward = [](const Tensor& dy, const Tensor& gate, const Tensor& up, Activation activation,
                                        GatedWish wish) {
    wishes += wish.inner ? 1 : 0;
    return reference_backend().elementwise.gated_backward(dy, gate, up, activation, wish);
  };
  table.elementwise.gated = [](const Tensor& gate, const Tensor& up, Activation activation) {
    ++calls;
    return reference_backend().elementwise.gated(gate, up, activation);
  };
  const BackendScope scope(table);
  const auto leaf = [](at::IntArrayRef shape, std::uint64_t seed) {
    return sample(shape, at::kFloat, seed).requires_grad_();
  };
  const auto count = [&](const Tensor& gate, const Tensor& weight) {
    calls = wishes = 0;
    gated_linear(gate, gate * 2, Activation::silu, {weight, {}}).sum().backward();
    return std::pair(calls, wishes);
  };
  EXPECT_EQ(count(leaf({4, 6}, 1), leaf({3, 6}, 3)), std::pair(1, 1));
  EXPECT_EQ(count(leaf({4, 6}, 1), sample({3, 6}, at::kFloat, 3)), std::pair(1, 0));
  EXPECT_EQ(count(sample({4, 6}, at::kFloat, 1), leaf({3, 6}, 3)), std::pair(2, 0));
}

// On a device nobody asks how many labels there are, or by what the loss is scaled.
TEST(Backend, ALossAwayFromTheHostWaitsForNothing) {
  const Tensor hidden = sample({20, 6}, at::kFloat), head = sample({11, 6}, at::kFloat, 2);
  Tensor labels = at::arange(20, at::kLong).remainder(11), ids = at::arange(20, at::kLong).remainder(11);
  labels.slice(0, 4, 9).fill_(kIgnoreIndex);
  const auto run = [&] {
    GradientSum sum{at::zeros({11, 6})};
    std::vector<Tensor> made;
    for (const double scale : {0.5, 0.25}) {  // lent, then added
      const Tensor h = hidden.detach().requires_grad_(), w = head.detach().requires_grad_();
      const Tensor loss = linear_cross_entropy(h + ops::embedding(w, ids), w, labels, {}, {.head_sum = &sum});
      (loss * scale).backward();
      made.insert(made.end(), {loss.detach(), h.grad(), w.grad(), sum.sum.clone()});
    }
    return made;
  };
  const std::vector<Tensor> on_host = run();
  const BackendScope scope(reference_backend());
  const std::int64_t before = host::waits();
  const std::vector<Tensor> away = run();
  EXPECT_EQ(host::waits(), before);
  for (std::size_t i = 0; i < away.size(); ++i) expect_close(away[i], on_host[i], 1e-5, std::to_string(i));
}

TEST(Backend, StoresInACacheWhereverItLies) {
  for (const Backend* table : {&cpu_backend(), &reference_backend()}) {
    const BackendScope scope(*table);
    for (const bool strided : {false, true}) {
      const Tensor k = strided ? sample({2, 5, 4}).transpose(0, 1) : sample({5, 2, 4}), v = sample({5, 2, 4});
      const CacheRoom to{at::zeros({5, 2, 8, 4}, at::kDouble), at::zeros({5, 2, 8, 4}, at::kDouble)};
      store_in_cache(k, v, to, {{1, 3, 1, 4}, {4, 1, 3, 7}, {0, 0, 2, 0}});
      for (const auto& [from, cache] : {std::pair(k, to.k_RGCK), std::pair(v, to.v_RGCK)}) {
        EXPECT_TRUE(cache[1].narrow(1, 4, 3).equal(from.narrow(0, 1, 3).transpose(0, 1))) << table->name;
        EXPECT_TRUE(cache[3].narrow(1, 7, 1).equal(from.narrow(0, 4, 1).transpose(0, 1))) << table->name;
        EXPECT_EQ(cache.ne(0).sum().item<std::int64_t>(), 4 * 2 * 4);
      }
      store_one_each(k, v, to, at::tensor({0, 7, 2, 3, 5}, at::kLong));
      for (const auto& [from, cache] : {std::pair(k, to.k_RGCK), std::pair(v, to.v_RGCK)}) {
        for (const auto& [row, at] : {std::pair(0, 0), {1, 7}, {2, 2}, {3, 3}, {4, 5}})
          EXPECT_TRUE(cache[row].select(1, at).equal(from[row])) << table->name;
        EXPECT_EQ(cache.ne(0).sum().item<std::int64_t>(), 9 * 2 * 4);
      }
    }
  }
}

}  // namespace
}  // namespace hone::ops::test
