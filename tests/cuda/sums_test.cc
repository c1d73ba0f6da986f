// Kernels of sums against the reference's table.
#include "cuda/kernel_check.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/head_losses.h"
#include "ops/likeliest.h"
#include "ops/rms_norm.h"
#include "tensor/host.h"

namespace hone::ops::test {
namespace {

struct LossCase {
  Tensor logits_CV, labels_C, weight_C;
  CrossEntropyOptions options;
  bool gradient = true, statistics = true;
};

// Of a chunk between two rows that must stay as they are.
Results loss_results(const Backend& table, const LossCase& c) {
  const std::int64_t rows = c.logits_CV.size(0), vocab = c.logits_CV.size(1);
  const Tensor room = at::full({rows + 2, vocab}, 7, c.logits_CV.options());
  Tensor logits = room.narrow(0, 1, rows).copy_(c.logits_CV);
  const Tensor all_losses = at::full({rows + 2}, 7, c.weight_C.options());
  const Tensor all_statistics = at::full({rows + 2, 4}, 7, c.weight_C.options());
  Tensor losses = all_losses.narrow(0, 1, rows), statistics;
  if (c.statistics) statistics = all_statistics.narrow(0, 1, rows);
  table.sums.loss(logits, {c.labels_C, c.weight_C}, c.gradient, c.options, losses, statistics);
  return {room, all_losses, all_statistics};
}

LossCase loss_case(std::int64_t rows, std::int64_t vocab, at::ScalarType type) {
  const auto wide = at::toOpMathType(type);
  LossCase made{(3 * sample({rows, vocab}, at::kDouble, 11)).to(type),
                at::arange(rows, at::kLong).mul(17).remainder(vocab), sample({rows}, wide, 12).abs(), {}};
  made.weight_C[rows / 2] = 0;
  made.labels_C[0] = vocab - 1;
  return made;
}

// Losses and statistics are compared in fp32, the gradient in its own type.
void expect_loss(const LossCase& c, const std::string& what) {
  const auto type = c.logits_CV.scalar_type();
  const Primitive primitive = [&](const Backend& table) { return loss_results(table, c); };
  const Results got = emulated_results(primitive, what), expected = primitive(reference_backend());
  expect_same(got[0], expected[0], kernel_tolerance(type), what + ": gradient");
  const double of_sums = type == at::kDouble ? 1e-12 : 1e-5;
  expect_same(got[1], expected[1], of_sums, what + ": losses");
  expect_same(got[2], expected[2], of_sums, what + ": statistics");
}

TEST(CudaLoss, AgreesWithTheReferenceForEveryOption) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t vocab : {1, 31, 32, 33, 100, 1000})
      for (const CrossEntropyOptions& options :
           {CrossEntropyOptions{}, CrossEntropyOptions{.label_smoothing = 0.1},
            CrossEntropyOptions{.label_smoothing = 0.2, .z_loss = 0.01}, CrossEntropyOptions{.by_probability = true}}) {
        LossCase c = loss_case(vocab < 100 ? 40 : 4, vocab, type);
        c.options = options;
        expect_loss(c, described(type, c.logits_CV.size(0), vocab));
      }
}
TEST(CudaLoss, LeavesWhatIsNotAskedFor) {
  for (const bool gradient : {false, true})
    for (const bool statistics : {false, true}) {
      LossCase c = loss_case(5, 64, at::kBFloat16);
      c.gradient = gradient;
      c.statistics = statistics;
      expect_loss(c, "parts");
    }
}
TEST(CudaLoss, TakesVocabulariesLargerThanABlock) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t vocab : {9001, 10000}) {
      LossCase c = loss_case(3, vocab, type);
      c.options = {.label_smoothing = 0.1, .z_loss = 0.001};
      expect_loss(c, described(type, 3, vocab));
    }
}
TEST(CudaLoss, OfLargeLogitsOverflowsNowhere) {
  for (const at::ScalarType type : kAllTypes) {
    LossCase c = loss_case(6, 70, type);
    c.logits_CV = (c.logits_CV * 100).contiguous();
    c.logits_CV[1].fill_(-3000);
    expect_loss(c, "large");
  }
}
TEST(CudaLoss, KeepsWhatIsNotFinite) {
  for (const at::ScalarType type : kAllTypes) {
    LossCase c = loss_case(7, 70, type);
    c.weight_C.fill_(1);
    c.logits_CV[0][5] = NAN;
    c.logits_CV[1][69] = INFINITY;
    c.logits_CV[2][0] = -INFINITY;
    c.logits_CV[3].fill_(-INFINITY);
    c.logits_CV[4].slice(0, 3, 64).fill_(-INFINITY);
    expect_loss(c, "not finite");
    c.weight_C.fill_(0);  // and a weight of 0 leaves nothing of it
    expect_loss(c, "weightless");
  }
}
TEST(CudaLoss, RefusesALabelOutsideUnlessItsWeightIsZero) {
  LossCase c = loss_case(4, 50, at::kFloat);
  c.labels_C[2] = 50;
  c.weight_C.fill_(1);
  EXPECT_THROW(loss_results(emulated_backend(), c), std::runtime_error);
  c.labels_C[2] = kIgnoreIndex;
  c.weight_C[2] = 0;
  const Results made = loss_results(emulated_backend(), c);
  EXPECT_TRUE(made[0][3].equal(at::zeros({50})));
  EXPECT_EQ(made[1][3].item<float>(), 0);
}

TEST(CudaEmbedding, AddsInTheOrderOfTheTokens) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {1, 31, 33, 300}) {
      const Tensor ids = at::tensor({5, 2, 2, 0, 5, 2, 8, 8, 1, 5, 2}, at::kLong);
      const Tensor dy = sample({11, columns}, type) * 1000;
      const Primitive primitive = [&](const Backend& table) {
        const Tensor sum = sample({9, columns}, at::toOpMathType(type), 3);
        table.sums.add_to_table(dy, ids, /*skip=*/8, sum);
        return Results{sum};
      };
      expect_as_reference(primitive, type, described(type, 11, columns), type == at::kDouble ? 1e-12 : 1e-6);
      if (type != at::kHalf) {
        EXPECT_TRUE(primitive(emulated_backend())[0].equal(primitive(cpu_backend())[0])) << "another order";
      }
    }
}

TEST(CudaSums, OfColumnsAgreeWithTheReference) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {1, 31, 33, 300})
      for (const std::int64_t rows : {1, 63, 64, 65, 200}) {
        const Tensor x = sample({rows, columns}, type);
        expect_as_reference([&](const Backend& table) { return Results{table.sums.columns(x).sum(0)}; }, type,
                            described(type, rows, columns), type == at::kDouble ? 1e-12 : 1e-5);
      }
}

TEST(CudaSums, JoinSumsOfBlocksInPlaceOrToWhatIsThere) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {1, 31, 33, 64, 300})
      for (const std::int64_t rows : {1, 16, 17, 129, 300, 1024})
        for (const bool add : {false, true}) {
          const Tensor sums = sample({rows, columns}, at::toOpMathType(type));
          const Primitive primitive = [&](const Backend& table) {
            const Tensor to = sample({columns}, type, 2);
            table.sums.join(sums, {to, add});
            return Results{to};
          };
          expect_as_reference(primitive, type, described(type, rows, columns) + (add ? " added" : ""),
                              type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 0);
        }
}

TEST(CudaSums, FindWhatIsNotFinite) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t count : {1, 33, 64, 3000}) {
      const Tensor x = sample({count}, type);
      x[0] = type == at::kHalf ? 65504 : type == at::kDouble ? 1e308 : 3e38;
      EXPECT_TRUE(emulated_backend().sums.all_finite(x)) << described(type, 1, count);
      for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1})
        for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
          const Tensor spoiled = x.clone();
          spoiled[place] = bad;
          EXPECT_FALSE(emulated_backend().sums.all_finite(spoiled)) << described(type, 1, count) << " at " << place;
        }
    }
}

TEST(CudaSums, FindTheLikeliest) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {1, 2, 33, 64, 3000, 9000}) {
      const Tensor x = sample({5, columns}, type);
      x[1].fill_(-3), x[2][columns - 1] = 7, x[3][columns / 2] = x[3].max(), x[4][columns / 3] = NAN;
      EXPECT_TRUE(emulated_backend().sums.likeliest(x).equal(reference_backend().sums.likeliest(x)))
          << described(type, 5, columns);
      EXPECT_EQ(emulated_backend().sums.likeliest(x)[1].item<std::int64_t>(), 0) << "of equal ones the first";
      x[0][columns - 1] = HUGE_VAL, x[1][0] = -HUGE_VAL;
      const Tensor spoiled = emulated_backend().sums.likeliest(x);
      EXPECT_TRUE(spoiled.slice(0, 0, 2).eq(-1).all().item<bool>()) << described(type, 5, columns);
    }
}
TEST(CudaSums, TheLikeliestBeginTheNextStep) {
  const Tensor x = sample({3, 3000}, at::kBFloat16);
  x[1][7] = NAN;
  const auto run = [&](const Backend& table) {
    const BackendScope scope(table);
    NextStep next{at::full({3, 1}, 9, at::kLong), {}};
    for (const std::int64_t count : {0, 1, 3, 6}) {  // the last one: more than a launch takes
      next.held_R.clear();
      for (std::int64_t i = 0; i < count; ++i) next.held_R.push_back(at::arange(3, at::kLong) * (i + 2));
      likeliest_then(x, next);
    }
    return Results{likeliest_then(x, next), next.ids_R1, at::stack(next.held_R)};
  };
  const Results got = emulated_results(run, "next step"), expected = run(reference_backend());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
  EXPECT_EQ(got[0][1].item<std::int64_t>(), -1);
  EXPECT_EQ(got[1][1].item<std::int64_t>(), 0);
  EXPECT_EQ(got[2][5][2].item<std::int64_t>(), 2 * 7 + 2);
}

// Through the ops: an embedding, a norm and a head, and their gradients, with the table of the GPU.
TEST(CudaTable, TrainsAsTheReferenceDoesAndWaitsForNothing) {
  const Tensor ids = at::arange(20, at::kLong).remainder(11);
  const Tensor labels = at::arange(20, at::kLong).mul(3).remainder(11);
  labels.slice(0, 4, 9).fill_(kIgnoreIndex);
  const auto run = [&](const Backend& table) {
    const BackendScope scope(table);
    const auto leaf = [](at::IntArrayRef shape, std::uint64_t seed) {
      return sample(shape, at::kFloat, seed).requires_grad_();
    };
    const Tensor words = leaf({11, 6}, 1), norm = leaf({6}, 2), head = leaf({11, 6}, 3);
    const Tensor loss = linear_cross_entropy(rms_norm(ops::embedding(words, ids), norm, 1e-6), head, labels, {});
    (loss * 0.5).backward();
    return Results{loss.detach().view({1}), words.grad(), norm.grad(), head.grad()};
  };
  const std::int64_t before = host::waits();
  expect_as_reference(run, at::kFloat, "training");
  EXPECT_EQ(host::waits(), before);
}

// A loss whose divisor is known beforehand has its gradients made for it; any other gradient that comes is right, too.
TEST(CudaTable, GradientsOfALossAreMadeForWhatItWillBeDividedBy) {
  const Tensor labels = at::arange(20, at::kLong).mul(3).remainder(11), divisor = at::scalar_tensor(48.0, at::kDouble);
  labels.slice(0, 4, 9).fill_(kIgnoreIndex);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const double more : {1., 3.}) {
      for (const bool lent : {false, true}) {
        const auto run = [&](const CrossEntropyOptions& given) {
          const BackendScope scope(emulated_backend());
          const Tensor hidden = sample({20, 6}, type).requires_grad_();
          const Tensor head = sample({11, 6}, type, 3).requires_grad_();
          GradientSum sum{at::empty({11, 6}, at::toOpMathType(type))};
          CrossEntropyOptions options = given;
          if (lent) options.head_sum = &sum;
          const Tensor loss = linear_cross_entropy(hidden, head, labels, {}, options);
          (loss / divisor.to(loss.scalar_type()) * more).backward();
          return Results{loss.detach().view({1}), hidden.grad(), lent ? sum.sum : head.grad()};
        };
        const std::int64_t waits = host::waits();
        const Results expected = run({}), got = run({.divisor = &divisor});
        EXPECT_EQ(host::waits(), waits);
        for (std::size_t i = 0; i < got.size(); ++i)
          expect_same(got[i], expected[i], i == 0 ? once_rounded(at::kFloat) : kernel_tolerance(type),
                      described(type, 20, 6));
      }
    }
}
TEST(CudaTable, ALossOfNothingIsNothing) {
  const BackendScope scope(emulated_backend());
  const Tensor labels = at::full({20}, kIgnoreIndex, at::kLong), divisor = at::scalar_tensor(0.0, at::kDouble);
  const Tensor hidden = sample({20, 6}, at::kBFloat16).requires_grad_(), head = sample({11, 6}, at::kBFloat16, 3);
  CrossEntropyOptions options;
  options.divisor = &divisor;
  const Tensor loss = linear_cross_entropy(hidden, head, labels, {}, options);
  (loss * 1.0).backward();
  EXPECT_EQ(loss.item<float>(), 0);
  EXPECT_EQ(hidden.grad().abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace hone::ops::test
