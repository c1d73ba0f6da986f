// A memory that is corrected against its meaning, and its meaning against the recurrence; the convolution before it.
#include "ops/gated_delta.h"

#include <cmath>

#include "ops/by_document.h"
#include "ops/check.h"
#include "ops/short_conv.h"

namespace hone::ops::test {
namespace {

const std::vector<Span> kSpread{{0, 1},    {1, 4},     {6, 70},
                                {70, 199}, {199, 199}, {200, 393}};  // tokens 4, 5, 199, 393 in none

struct DeltaSizes {
  std::int64_t tokens, key_heads, value_heads, keys, values;
};

// forgets: what is forgotten with a token, at most, as a logarithm.
std::vector<Tensor> delta_inputs(const DeltaSizes& s, double forgets = 0.5) {
  const auto some = [&](at::IntArrayRef sizes, std::uint64_t seed) { return sample(sizes, at::kDouble, seed); };
  return {some({s.tokens, s.key_heads, s.keys}, 1) + 0.3, some({s.tokens, s.key_heads, s.keys}, 2) + 0.3,
          some({s.tokens, s.value_heads, s.values}, 3), -forgets * some({s.tokens, s.value_heads}, 4).sigmoid(),
          some({s.tokens, s.value_heads}, 5).sigmoid()};
}

// Decays and steps are of the type that is computed in.
DeltaInput delta_input(const std::vector<Tensor>& in) {
  const auto wide = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {in[0], in[1], in[2], in[3].to(wide), in[4].to(wide)};
}

Op delta_op(const std::vector<Span>& spans) {
  return [=](const auto& in) { return gated_delta(delta_input(in), spans); };
}
Op delta_meaning(const std::vector<Span>& spans) {
  return [=](const auto& in) {
    const DeltaInput all = delta_input(in);
    return by_document(all.v_NHV, spans, [&](std::size_t, const Span& span) {
      const auto part = [&](const Tensor& x) { return x.slice(0, span.begin, span.end); };
      Tensor nothing;
      return reference::gated_delta(
          {part(all.q_NGK), part(all.k_NGK), part(all.v_NHV), part(all.decay_NH), part(all.step_NH)}, nothing);
    });
  };
}

// The paper's equation, token by token, in fp64.
Tensor delta_by_token(const std::vector<Tensor>& in) {
  const std::int64_t tokens = in[2].size(0), heads = in[2].size(1), keys = in[0].size(2), values = in[2].size(2);
  const auto unit = [&](const Tensor& x_GK) {
    const Tensor made = x_GK / (x_GK.square().sum(-1, true) + 1e-6).sqrt();
    return made.repeat_interleave(heads / x_GK.size(0), 0).unsqueeze(-1);  // [H,K,1]
  };
  const Tensor y_NHV = at::zeros({tokens, heads, values}, at::kDouble);
  Tensor s = at::zeros({heads, keys, values}, at::kDouble);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Tensor k = unit(in[1][t]), q = unit(in[0][t]) / std::sqrt(static_cast<double>(keys));
    s = in[3][t].exp().view({-1, 1, 1}) * s;
    const Tensor left = in[2][t] - (s * k).sum(1);
    s = s + k * (in[4][t].unsqueeze(-1) * left).unsqueeze(1);
    y_NHV[t].copy_((s * q).sum(1));
  }
  return y_NHV;
}

TEST(GatedDelta, MeaningIsTheRecurrence) {
  const auto in = delta_inputs({150, 2, 6, 5, 7});
  Tensor nothing;
  expect_close(reference::gated_delta(delta_input(in), nothing), delta_by_token(in), 1e-12, "meaning");
}
TEST(GatedDelta, EveryKernelAgreesWithItsMeaning) {
  for (const DeltaSizes& s : {DeltaSizes{394, 1, 1, 8, 8}, DeltaSizes{394, 2, 4, 5, 19}, DeltaSizes{394, 1, 3, 33, 64},
                              DeltaSizes{394, 1, 1, 1, 1}, DeltaSizes{394, 2, 2, 128, 128}}) {
    SCOPED_TRACE(s.keys);
    expect_matches(delta_op(kSpread), delta_meaning(kSpread), delta_inputs(s));
    expect_matches(delta_op(kSpread), delta_meaning(kSpread), delta_inputs(s, 8), at::kDouble);
  }
}
TEST(GatedDelta, GradientsAreThoseOfDifferences) {
  gradcheck(delta_op({{0, 3}, {3, 9}}), delta_inputs({9, 2, 4, 2, 3}, 1));
  gradcheck(delta_op({{1, 70}}), delta_inputs({70, 1, 1, 2, 2}, 1));
}
TEST(GatedDelta, SameBitsForAnyThreads) {
  expect_same_bits_for_any_threads(delta_op(kSpread), delta_inputs({394, 3, 6, 8, 16}));
}

// In pieces, as a prompt and an answer are read: what is left is what the next piece begins with.
TEST(GatedDelta, GoesOnWithWhatItLeft) {
  const auto in = delta_inputs({150, 2, 4, 9, 12});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> typed, exact;
    for (const Tensor& x : in) typed.push_back(x.to(type)), exact.push_back(typed.back().to(at::kDouble));
    const DeltaInput all = delta_input(typed);
    const Tensor expected = delta_by_token(exact).to(type);
    each_level([&](const std::string& way) {
      const Tensor memory = at::zeros({3, 4, 9, 12}, all.decay_NH.options());
      std::vector<Tensor> parts;
      std::int64_t done = 0;
      for (const std::int64_t end : {1, 2, 40, 44, 145, 150}) {
        const auto part = [&](const Tensor& x) { return x.slice(0, done, end); };
        const DeltaInput own{part(all.q_NGK), part(all.k_NGK), part(all.v_NHV), part(all.decay_NH), part(all.step_NH)};
        parts.push_back(gated_delta_on(own, std::vector<Span>{{0, end - done}}, {memory, {1}}));
        done = end;
      }
      expect_close(at::cat(parts), expected, tolerance(type), way);
      EXPECT_EQ(largest(memory[0]), 0) << way;  // of another row
      EXPECT_EQ(largest(memory[2]), 0) << way;
    });
  }
}

// All is forgotten at once, nothing ever; keys of zeros, and the same key again and again.
TEST(GatedDelta, InputsMayBeExtreme) {
  for (const double decay : {-300.0, 0.0})
    for (const double key : {0.0, 1.0, 1e4}) {
      auto in = delta_inputs({140, 1, 2, 4, 4});
      in[1] = at::full_like(in[1], key), in[3] = at::full_like(in[3], decay), in[4] = at::ones_like(in[4]);
      for (Tensor& x : in) x = x.to(at::kFloat);
      each_level([&](const std::string& way) {
        const Result made = value_and_gradients(delta_op({{0, 140}}), in);
        EXPECT_TRUE(made.value.isfinite().all().item<bool>()) << way << " " << decay << " " << key;
        for (const Tensor& gradient : made.gradients)
          EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << way << " " << decay << " " << key;
      });
    }
}

// Of inputs: what is convolved, weights, and a bias or none.
ShortConvWeights conv_weights(const std::vector<Tensor>& in, bool silu) {
  return {in[1], in.size() > 2 ? in[2] : Tensor(), silu};
}
Op conv_op(const std::vector<Span>& spans, bool silu = true) {
  return [=](const auto& in) { return short_conv(in[0], conv_weights(in, silu), spans); };
}
Op conv_meaning(const std::vector<Span>& spans, bool silu = true) {
  return [=](const auto& in) { return reference::short_conv(in[0], conv_weights(in, silu), spans); };
}
std::vector<Tensor> conv_inputs(std::int64_t tokens, std::int64_t channels, std::int64_t taps, bool bias = false) {
  std::vector<Tensor> in{sample({tokens, channels}), sample({channels, taps}, at::kDouble, 2)};
  if (bias) in.push_back(sample({channels}, at::kDouble, 3));
  return in;
}
// Calls visit(silu, bias).
void each_conv_kind(const std::function<void(bool silu, bool bias)>& visit) {
  for (const bool silu : {true, false})
    for (const bool bias : {true, false}) {
      SCOPED_TRACE(std::string(silu ? "silu" : "the sum itself") + (bias ? ", a bias" : ""));
      visit(silu, bias);
    }
}

TEST(ShortConv, MeaningIsTheSumOverTokensBefore) {
  each_conv_kind([](bool silu, bool bias) {
    const auto in = conv_inputs(7, 3, 4, bias);
    const Tensor expected = at::zeros({7, 3}, at::kDouble);
    for (std::int64_t t = 0; t < 7; ++t)
      for (std::int64_t back = 0; back < 4 && back <= t; ++back)
        expected[t].add_(in[0][t - back] * in[1].select(1, 3 - back));
    if (bias) expected.add_(in[2]);
    const Tensor made = reference::short_conv(in[0], conv_weights(in, silu), {{0, 7}});
    expect_close(made, silu ? expected * expected.sigmoid() : expected, 1e-12, "meaning");
    // As torch.nn.Conv1d has it.
    const Tensor x = at::constant_pad_nd(in[0].t().unsqueeze(0), {3, 0});
    const std::optional<Tensor> bias_C = bias ? std::optional(in[2]) : std::nullopt;
    const Tensor sums = at::conv1d(x, in[1].unsqueeze(1), bias_C, 1, at::IntArrayRef{0}, 1, 3).squeeze(0).t();
    expect_close(made, silu ? at::silu(sums) : sums, 1e-12, "conv1d");
  });
}
TEST(ShortConv, EveryKernelAgreesWithItsMeaning) {
  const std::vector<Span> longer{{0, 300}, {300, 301}, {301, 303}, {305, 900}};  // over blocks of tokens
  for (const std::int64_t channels : {1, 9, 64})
    for (const std::int64_t taps : {2, 4, 5}) {
      SCOPED_TRACE(taps);
      each_conv_kind([&](bool silu, bool bias) {
        if (channels == 64 && silu == bias) return;
        expect_matches(conv_op(kSpread, silu), conv_meaning(kSpread, silu), conv_inputs(394, channels, taps, bias));
        expect_matches(conv_op(longer, silu), conv_meaning(longer, silu), conv_inputs(900, channels, taps, bias));
      });
    }
}
TEST(ShortConv, GradientsAreThoseOfDifferences) {
  each_conv_kind([](bool silu, bool bias) { gradcheck(conv_op({{0, 2}, {3, 9}}, silu), conv_inputs(10, 3, 4, bias)); });
}
TEST(ShortConv, SameBitsForAnyThreads) {
  each_conv_kind([](bool silu, bool bias) {
    expect_same_bits_for_any_threads(conv_op({{0, 300}, {310, 900}}, silu), conv_inputs(900, 24, 4, bias));
  });
}
// As sums take them where gradients of several passes are added up.
TEST(ShortConv, SumsTakeTheGradients) {
  const auto in = conv_inputs(40, 6, 3, /*bias=*/true);
  const std::vector<Span> spans{{0, 12}, {15, 40}};
  const Result expected = value_and_gradients(conv_op(spans, false), in);
  GradientSum weight, bias;
  weight.sum = at::zeros({6, 3}, at::kDouble), bias.sum = at::zeros({6}, at::kDouble);
  const Result made = value_and_gradients(
      [&](const auto& leaves) {
        return short_conv(leaves[0], conv_weights(leaves, false), spans, {&weight, &bias});
      },
      in);
  expect_close(made.gradients[0], expected.gradients[0], 1e-12, "input");
  expect_close(weight.sum, expected.gradients[1], 1e-12, "weight");
  expect_close(bias.sum, expected.gradients[2], 1e-12, "bias");
  EXPECT_EQ(largest(made.gradients[1]) + largest(made.gradients[2]), 0);
}
TEST(ShortConv, GoesOnWithTheNewestTokens) {
  each_conv_kind([](bool silu, bool bias) {
    const auto in = conv_inputs(40, 6, 4, bias);
    const ShortConvWeights weights = conv_weights(in, silu);
    const Tensor expected = reference::short_conv(in[0], weights, {{0, 40}}),
                 newest = at::zeros({3, 3, 6}, at::kDouble);
    std::vector<Tensor> parts;
    std::int64_t done = 0;
    for (const std::int64_t end : {1, 2, 3, 20, 40}) {
      const std::vector<Span> spans{{0, end - done}};
      parts.push_back(short_conv_on(in[0].slice(0, done, end), weights, spans, newest, {2}));
      done = end;
    }
    expect_close(at::cat(parts), expected, 1e-12, "in pieces");
    EXPECT_TRUE(newest[2].equal(in[0].slice(0, 37)));
    EXPECT_EQ(largest(newest[0]), 0);
  });
}
TEST(ShortConv, RowsOfEqualLengthGoOnAsOne) {
  each_conv_kind([](bool silu, bool bias) {
    const auto in = conv_inputs(40, 6, 4, bias);
    const ShortConvWeights weights = conv_weights(in, silu);
    const Tensor expected = reference::short_conv(in[0], weights, {{0, 20}, {20, 40}}).view({2, 20, 6});
    const Tensor newest = at::zeros({2, 3, 6}, at::kDouble), x = in[0].view({2, 20, 6});
    std::vector<Tensor> parts;
    for (const auto& [begin, end] : {std::pair{0, 2}, {2, 3}, {3, 4}, {4, 20}}) {
      const std::int64_t length = end - begin;
      const Tensor some = x.slice(1, begin, end).reshape({-1, 6});
      const std::vector<Span> spans{{0, length}, {length, 2 * length}};
      parts.push_back(short_conv_on(some, weights, spans, newest, {0, 1}).view({2, -1, 6}));
    }
    expect_close(at::cat(parts, 1), expected, 1e-12, "in pieces");
    EXPECT_TRUE(newest.equal(x.slice(1, 17)));
  });
}

}  // namespace
}  // namespace hone::ops::test
