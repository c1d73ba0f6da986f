// A matrix memory against its meaning, and its meaning against the paper's recurrence.
#include "ops/mlstm.h"

#include <cmath>

#include "ops/by_document.h"
#include "ops/check.h"
#include "ops/head_norm.h"

namespace hone::ops::test {
namespace {

constexpr double kEps = 1e-6;
const std::vector<Span> kRagged{{0, 1},    {1, 4},     {6, 70},
                                {70, 199}, {199, 199}, {200, 393}};  // tokens 4, 5, 199, 393 in none

struct Shape {
  std::int64_t tokens, heads, keys, values;
};

// Gates as strong as fresh models' and beyond. Queries and keys that point the same way, more or less: where a sum of
// products is nearly 0 what is divided by it has no digits left in fp32. spread > 1: any way.
std::vector<Tensor> inputs_of(const Shape& s, double gates = 4, double spread = 0.4) {
  const auto some = [&](std::int64_t size, std::uint64_t seed) {
    return sample({s.tokens, s.heads, size}, at::kDouble, seed);
  };
  return {some(s.keys, 1) * spread + 1, some(s.keys, 2) * spread + 1, some(s.values, 3),
          sample({s.tokens, s.heads}, at::kDouble, 4) * gates - 2,
          sample({s.tokens, s.heads}, at::kDouble, 5) * gates + 4};
}

// Gates are of the type that is computed in.
MlstmInput input_of(const std::vector<Tensor>& in) {
  const auto wide = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {in[0], in[1], in[2], in[3].to(wide), in[4].to(wide)};
}

Op op_of(const std::vector<Span>& spans) {
  return [=](const auto& in) { return mlstm(input_of(in), spans, kEps); };
}
Op meaning_of(const std::vector<Span>& spans) {
  return [=](const auto& in) {
    const MlstmInput all = input_of(in);
    return by_document(all.v_NHV, spans, [&](std::size_t, const Span& span) {
      const auto part = [&](const Tensor& x) { return x.slice(0, span.begin, span.end); };
      MlstmMemory nothing;
      return reference::mlstm(
          {part(all.q_NHK), part(all.k_NHK), part(all.v_NHV), part(all.input_NH), part(all.forget_NH)}, nothing, kEps);
    });
  };
}

// The paper's equations, token by token, in fp64.
Tensor token_by_token(const std::vector<Tensor>& in) {
  const std::int64_t tokens = in[0].size(0), heads = in[0].size(1), keys = in[0].size(2), values = in[2].size(2);
  const Tensor h_NHV = at::zeros({tokens, heads, values}, at::kDouble);
  Tensor c = at::zeros({heads, keys, values}, at::kDouble), n = at::zeros({heads, keys}, at::kDouble);
  Tensor m = at::zeros({heads}, at::kDouble);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Tensor log_forget = at::log_sigmoid(in[4][t]), next = at::maximum(log_forget + m, in[3][t]);
    const Tensor f = (log_forget + m - next).exp(), i = (in[3][t] - next).exp();
    const Tensor q = in[0][t] / std::sqrt(static_cast<double>(keys));
    c = f.view({-1, 1, 1}) * c + i.view({-1, 1, 1}) * in[1][t].unsqueeze(-1) * in[2][t].unsqueeze(1);
    n = f.unsqueeze(-1) * n + i.unsqueeze(-1) * in[1][t];
    m = next;
    const Tensor divisor = at::maximum((n * q).sum(-1).abs(), (-m).exp()) + kEps;
    h_NHV[t].copy_((c * q.unsqueeze(-1)).sum(1) / divisor.unsqueeze(-1));
  }
  return h_NHV;
}

TEST(Mlstm, MeaningIsThePapersRecurrence) {
  const auto in = inputs_of({150, 2, 5, 7});
  MlstmMemory nothing;
  expect_close(reference::mlstm(input_of(in), nothing, kEps), token_by_token(in), 1e-12, "meaning");
}
TEST(Mlstm, EveryKernelAgreesWithItsMeaning) {
  for (const Shape& s : {Shape{394, 1, 8, 8}, Shape{394, 3, 5, 19}, Shape{394, 2, 33, 64}, Shape{394, 1, 1, 1}}) {
    SCOPED_TRACE(s.keys);
    expect_matches(op_of(kRagged), meaning_of(kRagged), inputs_of(s));
    expect_matches(op_of(kRagged), meaning_of(kRagged), inputs_of(s, 4, 3), at::kDouble);
  }
}
TEST(Mlstm, GradientsAreThoseOfDifferences) {
  gradcheck(op_of({{0, 3}, {3, 9}}), inputs_of({9, 2, 2, 3}, 1, 3));
  gradcheck(op_of({{1, 70}}), inputs_of({70, 1, 1, 2}, 1, 3));
}
TEST(Mlstm, SameBitsForAnyThreads) { expect_same_bits_for_any_threads(op_of(kRagged), inputs_of({394, 3, 8, 16})); }

// In pieces, as a prompt and an answer are read: what is left is what the next piece begins with.
TEST(Mlstm, GoesOnWithWhatItLeft) {
  const auto in = inputs_of({150, 2, 9, 12});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> typed;
    for (const Tensor& x : in) typed.push_back(x.to(type));
    const MlstmInput all = input_of(typed);
    std::vector<Tensor> exact;
    for (const Tensor& x : typed) exact.push_back(x.to(at::kDouble));
    const Tensor expected = token_by_token(exact).to(type);
    each_level([&](const std::string& way) {
      const auto wide = all.input_NH.options();
      const MlstmMemory memory{at::zeros({3, 2, 9, 12}, wide), at::zeros({3, 2, 9}, wide), at::zeros({3, 2}, wide)};
      std::vector<Tensor> parts;
      std::int64_t done = 0;
      for (const std::int64_t end : {1, 2, 40, 44, 145, 150}) {
        const auto part = [&](const Tensor& x) { return x.slice(0, done, end); };
        const MlstmInput own{part(all.q_NHK), part(all.k_NHK), part(all.v_NHV), part(all.input_NH),
                             part(all.forget_NH)};
        parts.push_back(mlstm_on(own, std::vector<Span>{{0, end - done}}, kEps, {memory, {1}}));
        done = end;
      }
      expect_close(at::cat(parts), expected, tolerance(type), way);
      EXPECT_EQ(largest(memory.values_RHKV[0]), 0) << way;  // of another row
      EXPECT_EQ(largest(memory.values_RHKV[2]), 0) << way;
    });
  }
}

// Gates at the ends of what numbers can be: nothing that is not a number comes of it.
TEST(Mlstm, GatesMayBeExtreme) {
  for (const double input : {-200.0, 0.0, 200.0})
    for (const double forget : {-200.0, 0.0, 200.0}) {
      auto in = inputs_of({140, 1, 4, 4});
      in[3] = at::full_like(in[3], input), in[4] = at::full_like(in[4], forget);
      for (Tensor& x : in) x = x.to(at::kFloat);
      each_level([&](const std::string& way) {
        const Result made = value_and_gradients(op_of({{0, 140}}), in);
        EXPECT_TRUE(made.value.isfinite().all().item<bool>()) << way << " " << input << " " << forget;
        for (const Tensor& gradient : made.gradients)
          EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << way << " " << input << " " << forget;
      });
    }
}

const Op kHeadNorm = [](const auto& in) {
  return gated_head_norm(in[0].view({-1, 3, in[2].size(0) / 3}), in[1], in[2], kEps);
};
const Op kPlainHeadNorm = [](const auto& in) {
  return reference::gated_head_norm(in[0].view({-1, 3, in[2].size(0) / 3}), in[1], in[2], kEps);
};

TEST(GatedHeadNorm, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t size : {5, 7, 8, 33, 64}) {
    SCOPED_TRACE(size);
    const std::int64_t columns = 3 * size;
    expect_matches(kHeadNorm, kPlainHeadNorm,
                   {sample({70, columns}), sample({70, columns}, at::kDouble, 2), sample({columns}, at::kDouble, 3)});
  }
}
TEST(GatedHeadNorm, GradientsAreThoseOfDifferences) {
  gradcheck(kHeadNorm, {sample({4, 12}), sample({4, 12}, at::kDouble, 2), sample({12}, at::kDouble, 3)});
}

}  // namespace
}  // namespace hone::ops::test
