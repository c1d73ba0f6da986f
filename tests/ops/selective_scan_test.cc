// A state space of channels against its meaning, and its meaning against sums over all that was written, by what is
// left of it.
#include "ops/selective_scan.h"

#include <cmath>

#include "ops/by_document.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

const std::vector<Span> kScanSpans{{0, 1},    {1, 4},     {6, 70},
                                   {70, 199}, {199, 199}, {200, 393}};  // tokens 4, 5, 199, 393 in none

struct ScanTestSizes {
  std::int64_t tokens, channels, states;
};

// forgets: what is forgotten with a token, at most, as a logarithm.
std::vector<Tensor> scan_inputs(const ScanTestSizes& s, double forgets = 0.5) {
  const auto some = [&](at::IntArrayRef sizes, std::uint64_t seed) { return sample(sizes, at::kDouble, seed); };
  return {some({s.tokens, s.channels}, 1),      some({s.tokens, s.channels}, 2).sigmoid(),
          -forgets * some({s.channels, s.states}, 3).sigmoid(), some({s.tokens, s.states}, 4) + 0.3,
          some({s.tokens, s.states}, 5) + 0.3,  some({s.channels}, 6)};
}

// Steps, rates and skips are of the type that is computed in.
ScanInput scan_input(const std::vector<Tensor>& in) {
  const auto wide = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {in[0], in[1].to(wide), in[2].to(wide), in[3], in[4], in[5].to(wide)};
}
ScanInput scan_part(const ScanInput& all, std::int64_t begin, std::int64_t end) {
  const auto part = [&](const Tensor& x) { return x.slice(0, begin, end); };
  return {part(all.x_NC), part(all.step_NC), all.rate_CK, part(all.b_NK), part(all.c_NK), all.skip_C};
}

Op scan_op(const std::vector<Span>& spans) {
  return [=](const auto& in) { return selective_scan(scan_input(in), spans); };
}
Op scan_meaning(const std::vector<Span>& spans) {
  return [=](const auto& in) {
    const ScanInput all = scan_input(in);
    return by_document(all.x_NC, spans, [&](std::size_t, const Span& span) {
      Tensor nothing;
      return reference::selective_scan(scan_part(all, span.begin, span.end), nothing);
    });
  };
}

// Every token reads every one up to it by what is left of it, in fp64.
Tensor scan_by_pairs(const std::vector<Tensor>& in) {
  const std::int64_t tokens = in[0].size(0);
  const Tensor y_NC = in[5] * in[0];
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t s = 0; s <= t; ++s) {
      const Tensor left_CK = (in[1].slice(0, s + 1, t + 1).sum(0).unsqueeze(-1) * in[2]).exp();
      y_NC[t].add_(at::mv(left_CK, in[3][s] * in[4][t]) * in[1][s] * in[0][s]);
    }
  return y_NC;
}

TEST(SelectiveScan, MeaningIsASumOverAllThatWasWritten) {
  const auto in = scan_inputs({40, 6, 5});
  Tensor nothing;
  expect_close(reference::selective_scan(scan_input(in), nothing), scan_by_pairs(in), 1e-12, "meaning");
}
TEST(SelectiveScan, EveryKernelAgreesWithItsMeaning) {
  for (const ScanTestSizes& s : {ScanTestSizes{394, 19, 5}, ScanTestSizes{394, 1, 1}, ScanTestSizes{394, 130, 16}}) {
    SCOPED_TRACE(s.channels);
    expect_matches(scan_op(kScanSpans), scan_meaning(kScanSpans), scan_inputs(s));
  }
  const std::vector<Span> one{{0, 130}};
  expect_matches(scan_op(one), scan_meaning(one), scan_inputs({130, 33, 16}, 4), at::kDouble);
}
TEST(SelectiveScan, GradientsAreThoseOfDifferences) {
  gradcheck(scan_op({{0, 3}, {3, 9}}), scan_inputs({9, 3, 2}, 1));
  gradcheck(scan_op({{1, 70}}), scan_inputs({70, 2, 2}, 1));
}
// More shares of channels than are made at least, and several parts of documents.
TEST(SelectiveScan, SameBitsForAnyThreads) {
  expect_same_bits_for_any_threads(scan_op(kScanSpans), scan_inputs({394, 200, 6}));
}

// Of its document alone: another one beside it changes no bit.
TEST(SelectiveScan, NothingIsSeenAcrossDocuments) {
  const auto in = scan_inputs({140, 20, 8});
  auto other = in;
  for (Tensor& x : other) x = x.clone();
  for (const std::size_t i : {0, 1, 3, 4}) other[i].slice(0, 0, 70).mul_(2);
  const std::vector<Span> spans{{0, 70}, {70, 140}};
  each_level([&](const std::string& way) {
    const Tensor one = selective_scan(scan_input(in), spans), two = selective_scan(scan_input(other), spans);
    EXPECT_TRUE(one.slice(0, 70).equal(two.slice(0, 70))) << way;
    EXPECT_FALSE(one.slice(0, 0, 70).equal(two.slice(0, 0, 70))) << way;
  });
}

// In pieces, as a prompt and an answer are read: what is left is what the next piece begins with.
TEST(SelectiveScan, GoesOnWithWhatItLeft) {
  const auto in = scan_inputs({60, 70, 9});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> typed, exact;
    for (const Tensor& x : in) typed.push_back(x.to(type)), exact.push_back(typed.back().to(at::kDouble));
    const ScanInput all = scan_input(typed);
    const Tensor expected = scan_by_pairs(exact).to(type);
    each_level([&](const std::string& way) {
      const Tensor state = at::zeros({3, 9, 70}, all.step_NC.options());
      std::vector<Tensor> parts;
      std::int64_t done = 0;
      for (const std::int64_t end : {1, 2, 20, 24, 55, 60}) {
        parts.push_back(
            selective_scan_on(scan_part(all, done, end), std::vector<Span>{{0, end - done}}, {state, {1}}));
        done = end;
      }
      expect_close(at::cat(parts), expected, tolerance(type), way);
      EXPECT_EQ(largest(state[0]), 0) << way;  // of another row
      EXPECT_EQ(largest(state[2]), 0) << way;
    });
  }
}

// All is forgotten at once, nothing ever; steps of nothing.
TEST(SelectiveScan, InputsMayBeExtreme) {
  for (const double rate : {-300.0, 0.0})
    for (const double step : {0.0, 1.0, 1e4}) {
      auto in = scan_inputs({140, 4, 4});
      in[1] = at::full_like(in[1], step), in[2] = at::full_like(in[2], rate);
      for (Tensor& x : in) x = x.to(at::kFloat);
      each_level([&](const std::string& way) {
        const Result made = value_and_gradients(scan_op({{0, 140}}), in);
        EXPECT_TRUE(made.value.isfinite().all().item<bool>()) << way << " " << rate << " " << step;
        for (const Tensor& gradient : made.gradients)
          EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << way << " " << rate << " " << step;
      });
    }
}

}  // namespace
}  // namespace hone::ops::test
