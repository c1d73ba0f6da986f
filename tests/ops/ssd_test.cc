// A state space against its meaning, and its meaning against attention with weights that decay, which is the same.
#include "ops/ssd.h"

#include <cmath>

#include "ops/by_document.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

const std::vector<Span> kSsdSpans{{0, 1},    {1, 4},     {6, 70},
                                  {70, 199}, {199, 199}, {200, 393}};  // tokens 4, 5, 199, 393 in none

struct SsdTestSizes {
  std::int64_t tokens, groups, heads, keys, values;
};

// forgets: what is forgotten with a token, at most, as a logarithm.
std::vector<Tensor> ssd_inputs(const SsdTestSizes& s, double forgets = 0.5) {
  const auto some = [&](at::IntArrayRef sizes, std::uint64_t seed) { return sample(sizes, at::kDouble, seed); };
  return {some({s.tokens, s.groups, s.keys}, 1) + 0.3,  some({s.tokens, s.groups, s.keys}, 2) + 0.3,
          some({s.tokens, s.heads, s.values}, 3),       -forgets * some({s.tokens, s.heads}, 4).sigmoid(),
          some({s.tokens, s.heads}, 5).sigmoid() * 0.2, some({s.heads}, 6)};
}

// Decays, steps and skips are of the type that is computed in.
SsdInput ssd_input(const std::vector<Tensor>& in) {
  const auto wide = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {in[0], in[1], in[2], in[3].to(wide), in[4].to(wide), in[5].to(wide)};
}
SsdInput ssd_part(const SsdInput& all, std::int64_t begin, std::int64_t end) {
  const auto part = [&](const Tensor& x) { return x.slice(0, begin, end); };
  return {part(all.c_NGK), part(all.b_NGK), part(all.x_NHV), part(all.decay_NH), part(all.step_NH), all.skip_H};
}

Op ssd_op(const std::vector<Span>& spans) {
  return [=](const auto& in) { return ssd(ssd_input(in), spans); };
}
Op ssd_meaning(const std::vector<Span>& spans) {
  return [=](const auto& in) {
    const SsdInput all = ssd_input(in);
    return by_document(all.x_NHV, spans, [&](std::size_t, const Span& span) {
      Tensor nothing;
      return reference::ssd(ssd_part(all, span.begin, span.end), nothing);
    });
  };
}

// Every token reads every one up to it by what is left of it, in fp64.
Tensor ssd_by_pairs(const std::vector<Tensor>& in) {
  const std::int64_t group = in[2].size(1) / in[0].size(1), tokens = in[2].size(0);
  const auto by_head = [&](const Tensor& x) { return x.repeat_interleave(group, 1).transpose(0, 1); };  // [H,T,K]
  const Tensor products_HTS = at::matmul(by_head(in[0]), by_head(in[1]).mT());
  const Tensor left_HTS = at::zeros_like(products_HTS);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t s = 0; s <= t; ++s)
      left_HTS.select(1, t).select(1, s).copy_((in[3].slice(0, s + 1, t + 1).sum(0)).exp() * in[4][s]);
  const Tensor read_HTV = at::matmul(products_HTS * left_HTS, in[2].transpose(0, 1));
  return read_HTV.transpose(0, 1) + in[5].view({1, -1, 1}) * in[2];
}

TEST(Ssd, MeaningIsAttentionWithDecay) {
  const auto in = ssd_inputs({90, 2, 6, 5, 7});
  Tensor nothing;
  expect_close(reference::ssd(ssd_input(in), nothing), ssd_by_pairs(in), 1e-12, "meaning");
}
TEST(Ssd, EveryKernelAgreesWithItsMeaning) {
  for (const SsdTestSizes& s : {SsdTestSizes{394, 2, 4, 5, 19}, SsdTestSizes{394, 1, 3, 33, 64},
                                SsdTestSizes{394, 1, 1, 1, 1}, SsdTestSizes{394, 2, 24, 16, 8}}) {
    SCOPED_TRACE(s.keys);
    expect_matches(ssd_op(kSsdSpans), ssd_meaning(kSsdSpans), ssd_inputs(s));
  }
  const std::vector<Span> one{{0, 130}};
  expect_matches(ssd_op(one), ssd_meaning(one), ssd_inputs({130, 1, 2, 128, 64}));
  expect_matches(ssd_op(one), ssd_meaning(one), ssd_inputs({130, 1, 10, 5, 19}, 8), at::kDouble);
}
TEST(Ssd, GradientsAreThoseOfDifferences) {
  gradcheck(ssd_op({{0, 3}, {3, 9}}), ssd_inputs({9, 2, 4, 2, 3}, 1));
  gradcheck(ssd_op({{1, 70}}), ssd_inputs({70, 1, 1, 2, 2}, 1));
}
TEST(Ssd, SameBitsForAnyThreads) {
  expect_same_bits_for_any_threads(ssd_op(kSsdSpans), ssd_inputs({394, 2, 20, 8, 16}));
}

// Of its document alone: another one beside it changes no bit.
TEST(Ssd, NothingIsSeenAcrossDocuments) {
  const auto in = ssd_inputs({140, 1, 2, 8, 8});
  auto other = in;
  for (Tensor& x : other) x = x.clone();
  for (std::size_t i = 0; i < 5; ++i) other[i].slice(0, 0, 70).mul_(2);
  const std::vector<Span> spans{{0, 70}, {70, 140}};
  each_level([&](const std::string& way) {
    EXPECT_TRUE(ssd(ssd_input(in), spans).slice(0, 70).equal(ssd(ssd_input(other), spans).slice(0, 70))) << way;
  });
}

// In pieces, as a prompt and an answer are read: what is left is what the next piece begins with.
TEST(Ssd, GoesOnWithWhatItLeft) {
  const auto in = ssd_inputs({150, 2, 20, 9, 12});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> typed, exact;
    for (const Tensor& x : in) typed.push_back(x.to(type)), exact.push_back(typed.back().to(at::kDouble));
    const SsdInput all = ssd_input(typed);
    const Tensor expected = ssd_by_pairs(exact).to(type);
    each_level([&](const std::string& way) {
      const Tensor state = at::zeros({3, 20, 9, 12}, all.decay_NH.options());
      std::vector<Tensor> parts;
      std::int64_t done = 0;
      for (const std::int64_t end : {1, 2, 40, 44, 145, 150}) {
        parts.push_back(ssd_on(ssd_part(all, done, end), std::vector<Span>{{0, end - done}}, {state, {1}}));
        done = end;
      }
      expect_close(at::cat(parts), expected, tolerance(type), way);
      EXPECT_EQ(largest(state[0]), 0) << way;  // of another row
      EXPECT_EQ(largest(state[2]), 0) << way;
    });
  }
}

// All is forgotten at once, nothing ever; steps of nothing.
TEST(Ssd, InputsMayBeExtreme) {
  for (const double decay : {-300.0, 0.0})
    for (const double step : {0.0, 1.0, 1e4}) {
      auto in = ssd_inputs({140, 1, 2, 4, 4});
      in[3] = at::full_like(in[3], decay), in[4] = at::full_like(in[4], step);
      for (Tensor& x : in) x = x.to(at::kFloat);
      each_level([&](const std::string& way) {
        const Result made = value_and_gradients(ssd_op({{0, 140}}), in);
        EXPECT_TRUE(made.value.isfinite().all().item<bool>()) << way << " " << decay << " " << step;
        for (const Tensor& gradient : made.gradients)
          EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << way << " " << decay << " " << step;
      });
    }
}

}  // namespace
}  // namespace hone::ops::test
