// Attention within documents against its meaning, forward, backward, cached and one token at a time.
#include "ops/attention.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "ops/check.h"

namespace hone::ops::test {
namespace {

struct Case {
  const char* name;
  std::int64_t tokens;
  std::vector<Span> spans;
  Mask mask = {};
  double dropout = 0, soft_cap = 0;
};
const std::vector<Case> kCases = {
    {"one", 7, {{0, 7}}},
    {"a single token", 1, {{0, 1}}},
    {"equal documents", 12, {{0, 4}, {4, 8}, {8, 12}}},
    {"packed, with padding", 20, {{1, 4}, {4, 9}, {11, 12}, {13, 19}}},
    {"many short ones",
     40,
     {{0, 2}, {2, 5}, {5, 6}, {6, 10}, {10, 12}, {12, 17}, {17, 19}, {19, 25}, {25, 27}, {27, 40}}},
    {"window", 20, {{0, 3}, {3, 17}}, Mask::causal(4)},
    {"window of one", 6, {{0, 6}}, Mask::causal(1)},
    {"a window in blocks", 300, {{0, 100}, {100, 299}}, Mask::causal(5)},
    {"full", 20, {{1, 4}, {4, 9}, {11, 12}, {13, 19}}, Mask::full()},
    {"full, in blocks", 430, {{0, 129}, {130, 430}}, Mask::full()},
    {"full with a window", 20, {{0, 3}, {3, 17}}, Mask::full(3)},
    {"full with a window, in blocks", 560, {{0, 129}, {130, 560}}, Mask::full(140)},
    {"capped", 20, {{0, 3}, {3, 17}}, Mask::causal(), 0, 0.9},
    {"capped, full, in blocks", 200, {{0, 150}, {150, 199}}, Mask::full(), 0, 2.5},
    {"nothing", 4, {}}};

AttentionOptions options_of(const Case& c) { return {0.37, c.mask, c.soft_cap, c.dropout, 7}; }

Op fast_attention(const Case& c) {
  return [c](const auto& in) { return attention(in[0], in[1], in[2], c.spans, options_of(c)); };
}
Op plain(const Case& c) {
  return [c](const auto& in) { return reference::attention(in[0], in[1], in[2], c.spans, options_of(c)); };
}
std::vector<Tensor> inputs(const Case& c, std::int64_t heads, std::int64_t groups, std::int64_t size) {
  return {sample({c.tokens, heads, size}), sample({c.tokens, groups, size}, at::kDouble, 2),
          sample({c.tokens, groups, size}, at::kDouble, 3)};
}

TEST(Attention, EveryKernelAgreesWithItsMeaning) {
  for (const Case& c : kCases)
    for (const auto& [heads, groups] : {std::pair{1, 1}, {4, 4}, {4, 2}, {6, 1}}) {
      SCOPED_TRACE(std::string(c.name) + ", heads " + std::to_string(heads) + "/" + std::to_string(groups));
      expect_matches(fast_attention(c), plain(c), inputs(c, heads, groups, 8));
    }
}
TEST(Attention, TakesEveryHeadSize) {
  for (const std::int64_t size : {1, 2, 7, 16, 33, 64, 80, 96, 128, 256, 512}) {
    SCOPED_TRACE(size);
    expect_matches(fast_attention(kCases[3]), plain(kCases[3]), inputs(kCases[3], 2, 1, size));
  }
}
TEST(Attention, TakesDocumentsOfEveryLength) {
  Case all{"lengths 1 to 130 and about 256", 0, {}};
  for (std::int64_t length = 1; length <= 130; ++length) {
    all.spans.push_back({all.tokens, all.tokens + length});
    all.tokens += length + (length % 10 == 0);  // some tokens are in no document
  }
  for (const std::int64_t length : {255, 256, 257}) {
    all.spans.push_back({all.tokens, all.tokens + length});
    all.tokens += length;
  }
  expect_matches(fast_attention(all), plain(all), inputs(all, 2, 1, 16));
}
TEST(Attention, TakesEveryWindow) {
  for (const std::int64_t window : {1, 7, 63, 64, 65, 127, 128, 129, 150, 1000}) {
    SCOPED_TRACE(window);
    for (const Mask mask : {Mask::causal(window), Mask::full(window)}) {
      const Case c{"window", 403, {{0, 200}, {201, 202}, {202, 266}, {270, 401}}, mask};
      expect_matches(fast_attention(c), plain(c), inputs(c, 2, 1, 8));
    }
  }
}
TEST(Attention, SharesKeysAmongQueryHeads) {
  const Case c{"one", 140, {{0, 140}}};
  for (const std::int64_t groups : {1, 2, 4, 8}) expect_matches(fast_attention(c), plain(c), inputs(c, 8, groups, 16));
}

// Later keys have ever larger scores: what was summed before becomes nothing.
TEST(Attention, ScoresMayRiseWithoutBound) {
  const Case c{"rising", 300, {{0, 300}}};
  auto in = inputs(c, 2, 2, 8);
  in[0] = in[0] * 0.125 + 4, in[1] = in[1] * 0.125 + at::arange(300, at::kDouble).div(4).floor().view({300, 1, 1});
  for (Tensor& x : in) x = x.mul(8).round().div(8);  // products are exact in fp32
  expect_matches(fast_attention(c), plain(c), in, at::kDouble);
  const Tensor expected = fast_attention(c)(in);
  at_each_kernel_level([&](const std::string& way) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Result got = value_and_gradients(fast_attention(c), {in[0].to(type), in[1].to(type), in[2].to(type)});
      for (const Tensor& x : got.gradients) EXPECT_TRUE(x.isfinite().all().item<bool>()) << way;
      if (type == at::kFloat) expect_close(got.value, expected.to(type), 1e-3, way);  // scores of 900 in fp32
    }
  });
}
TEST(Attention, AScoreOfMinusInfinityIsNoShare) {
  const Case c{"one", 70, {{0, 70}}};
  auto in = inputs(c, 1, 1, 8);
  in[0] = in[0].abs();
  in[1].slice(0, 1, 70, 3).fill_(-1e30);
  in[0].slice(0, 2).mul_(1e10);
  in[1].slice(0, 0, 70, 3).mul_(1e-10);
  in[1].slice(0, 2, 70, 3).mul_(1e-10);
  expect_matches(fast_attention(c), plain(c), in, at::kFloat);
}
TEST(Attention, WhatIsNotANumberStaysInItsDocument) {
  const Case c{"two", 140, {{0, 70}, {70, 140}}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble})
    for (int which = 0; which < 3; ++which)
      at_each_kernel_level([&](const std::string&) {
        auto in = inputs(c, 1, 1, 8);
        for (Tensor& x : in) x = x.to(type);
        in[which][69][0][3] = NAN;
        const Result got = value_and_gradients(fast_attention(c), in);
        EXPECT_TRUE(got.value[69].isnan().any().item<bool>());
        EXPECT_TRUE(got.value.slice(0, 70).isfinite().all().item<bool>());
        for (const Tensor& x : got.gradients) {
          EXPECT_TRUE(x.slice(0, 70).isfinite().all().item<bool>());
          EXPECT_TRUE(x.slice(0, 0, 70).isnan().any().item<bool>() || which == 2);
        }
      });
}

TEST(Attention, ThreadsDoNotChangeABit) {
  // One document is most of the work, so that threads share it; the last case is many small ones.
  std::vector<Case> cases{{"long", 700, {{0, 600}, {600, 610}, {610, 700}}},
                          {"window", 500, {{0, 500}}, Mask::causal(100), 0.2},
                          {"full", 700, {{0, 600}, {600, 700}}, Mask::full(), 0.2},
                          {"full window", 900, {{0, 900}}, Mask::full(150)}};
  cases.push_back({"small", 400, {}});
  for (std::int64_t i = 0; i < 40; ++i) cases.back().spans.push_back({10 * i, 10 * i + 9});
  const auto check = [&](at::ScalarType type, const std::string& way) {
    for (const Case& c : cases) {
      SCOPED_TRACE(way + " " + c.name);
      auto in = inputs(c, 4, 2, 24);
      for (Tensor& x : in) x = x.to(type);
      std::vector<Result> results;
      for (const int count : {1, 2, 5}) {
        const Threads threads(count);
        results.push_back(value_and_gradients(fast_attention(c), in));
      }
      for (std::size_t i = 1; i < results.size(); ++i) {
        EXPECT_TRUE(at::equal(results[i].value, results[0].value));
        for (int g = 0; g < 3; ++g) EXPECT_TRUE(at::equal(results[i].gradients[g], results[0].gradients[g]));
      }
    }
  };
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) check(type, c10::toString(type));
  at_each_kernel_level([&](const std::string& way) { check(at::kBFloat16, way); });
}
TEST(Attention, TakesSlicesOfOneTensor) {
  const Case c{"one", 90, {{0, 30}, {30, 90}}};
  const Tensor joined = sample({90, 8, 16}, at::kFloat);
  const std::vector<Tensor> slices{joined.slice(1, 0, 4), joined.slice(1, 4, 6), joined.slice(1, 6, 8)};
  const Op sum = [&](const auto& in) {
    return fast_attention(c)({in[0].slice(1, 0, 4), in[0].slice(1, 4, 6), in[0].slice(1, 6)});
  };
  const Result got = value_and_gradients(sum, {joined}), expected = value_and_gradients(fast_attention(c), slices);
  EXPECT_TRUE(at::equal(got.value, expected.value));
  EXPECT_TRUE(at::equal(got.gradients[0], at::cat(expected.gradients, 1)));
}
TEST(Attention, GradientsAreThoseOfDifferences) {
  gradcheck(fast_attention(kCases[0]), inputs(kCases[0], 2, 1, 4));
  gradcheck(fast_attention(kCases[5]), inputs(kCases[5], 2, 1, 2));
  gradcheck(fast_attention({"full", 9, {{0, 9}}, Mask::full(), 0, 0.7}), inputs({"", 9, {}}, 2, 1, 3));
}
TEST(Attention, AWindowOfTheWholeDocumentIsNoWindow) {
  const auto in = inputs(kCases[0], 2, 2, 4);
  expect_close(attention(in[0], in[1], in[2], {{0, 7}}, {1, Mask::causal(7)}),
               attention(in[0], in[1], in[2], {{0, 7}}, {1}), 0, "window 7");
}
TEST(Attention, LaterTokensAndOtherDocumentsAreNotSeen) {
  auto in = inputs(kCases[3], 2, 1, 4);
  const Tensor before = fast_attention(kCases[3])(in);
  for (Tensor& x : in) x.slice(0, 7, 9) += 1;  // the end of the second document
  const Tensor after = fast_attention(kCases[3])(in);
  EXPECT_TRUE(at::equal(before.slice(0, 0, 7), after.slice(0, 0, 7)));
  EXPECT_TRUE(at::equal(before.slice(0, 9), after.slice(0, 9)));
  EXPECT_FALSE(at::equal(before.slice(0, 7, 9), after.slice(0, 7, 9)));
}

TEST(Attention, DropoutIsTheSameInEveryKernel) {
  for (const std::int64_t window : {0, 70, 1}) {
    const Case c{
        "dropout", 400, {{3, 200}, {200, 210}, {212, 399}}, window == 1 ? Mask::full() : Mask::causal(window), 0.3};
    expect_matches(fast_attention(c), plain(c), inputs(c, 4, 2, 16));
  }
  Case small = kCases[3];
  small.dropout = 0.5;
  gradcheck(fast_attention(small), inputs(small, 2, 1, 4));
}
// All weights of a row together are 1 without dropout: with values of 1, what is kept of them is the result.
TEST(Attention, DropoutKeepsTheMeanAndDependsOnTheSeedOnly) {
  const Tensor q = at::zeros({500, 4, 8}), v = at::ones({500, 4, 8});
  const auto run = [&](double rate, std::uint64_t seed) {
    return attention(q, q, v, {{0, 500}}, {1, {}, 0, rate, seed}).select(2, 0);
  };
  for (const double rate : {0.1, 0.5, 0.9}) {
    const Tensor one = run(rate, 1), long_rows = one.slice(0, 250);
    EXPECT_NEAR(long_rows.mean().item<double>(), 1, 4 * std::sqrt(rate / (1 - rate) / 360 / 1000)) << rate;
    EXPECT_NEAR(long_rows.var().item<double>(), rate / (1 - rate) / 360, 0.25 * rate / (1 - rate) / 360) << rate;
    EXPECT_TRUE(at::equal(one, run(rate, 1)));
    EXPECT_FALSE(at::equal(one, run(rate, 2)));
    EXPECT_FALSE(at::equal(one.select(1, 0), one.select(1, 1)));  // each head has its own
  }
  EXPECT_TRUE(at::equal(run(0, 1), run(0, 2)));
}

// ---- sinks

AttentionOptions with_sinks_of(AttentionOptions options, const Tensor& sinks) {
  options.sinks = &sinks;
  return options;
}

TEST(Attention, SinksTakeTheirShareInEveryKernel) {
  for (Case c : kCases)
    for (const double dropout : {0.0, 0.3})
      for (const auto& [heads, groups] : {std::pair{4, 2}, {6, 1}}) {
        SCOPED_TRACE(c.name);
        c.dropout = dropout;
        auto in = inputs(c, heads, groups, 8);
        in.push_back(sample({heads}, at::kDouble, 4) * 3);  // some are above all scores, some below
        const auto op = [c](auto&& run) {
          return [c, run](const auto& x) {
            return run(x[0], x[1], x[2], c.spans, with_sinks_of(options_of(c), x[3]));
          };
        };
        expect_matches(op([](auto&&... x) { return attention(x...); }),
                       op([](auto&&... x) { return reference::attention(x...); }), in);
      }
}
TEST(Attention, GradientsWithSinksAreThoseOfDifferences) {
  const Case c{"window", 20, {{0, 3}, {4, 17}}, Mask::causal(4)};
  auto in = inputs(c, 4, 2, 3);
  in.push_back(sample({4}, at::kDouble, 4));
  gradcheck([c](const auto& x) { return attention(x[0], x[1], x[2], c.spans, with_sinks_of(options_of(c), x[3])); },
            in);
}
// A softmax over the keys and one more score.
TEST(Attention, ASinkIsAScoreThatGivesNothing) {
  const Tensor q = sample({1, 1, 4}), k = sample({1, 1, 4}, at::kDouble, 2), v = sample({1, 1, 4}, at::kDouble, 3);
  for (const double sink : {-800.0, -0.5, 0.0, 2.0, 900.0}) {
    const Tensor sinks = at::full({1}, sink, at::kDouble);
    const double score = (q * k).sum().item<double>() * 0.3;
    const Tensor got = attention(q, k, v, {{0, 1}}, with_sinks_of({0.3}, sinks));
    expect_close(got, v / (1 + std::exp(sink - score)), 1e-12, std::to_string(sink));
  }
}
TEST(Attention, SinksThatDoNotFitAreRefused) {
  const Tensor q = sample({5, 4, 8}), k = sample({1, 2, 5, 8}), held = at::tensor({4}, at::kLong), sinks = sample({3});
  const AttentionOptions options = with_sinks_of({0.3}, sinks);
  EXPECT_ANY_THROW(attention(q, k[0].transpose(0, 1), k[0].transpose(0, 1), {{0, 5}}, options));
  EXPECT_ANY_THROW(cached_attention(q, k[0], k[0], options));
  EXPECT_ANY_THROW(decode_attention(q.slice(0, 4), k, k, held, options));
}
TEST(Attention, WithSinksTheCacheGivesWhatAWholePassGives) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const std::int64_t window : {0, 6})
      each_level([&](const std::string& way) {
        const Tensor q = sample({100, 4, 8}, type), k = sample({100, 2, 8}, type, 2), v = sample({100, 2, 8}, type, 3),
                     sinks = sample({4}, type, 4) * 2, held = at::tensor({99}, at::kLong);
        const AttentionOptions options = with_sinks_of({0.3, Mask::causal(window)}, sinks);
        const Tensor all = attention(q, k, v, {{0, 100}}, options);
        const Tensor k_GLK = k.transpose(0, 1), v_GLK = v.transpose(0, 1);
        for (const std::int64_t queries : {1, 30, 100}) {
          const auto last = [&](const Tensor& x) { return x.slice(0, 100 - queries); };
          expect_close(cached_attention(last(q), k_GLK, v_GLK, options), last(all), tolerance(type), way + " cached");
        }
        const auto row = [](const Tensor& x) { return x.contiguous().unsqueeze(0); };
        expect_close(decode_attention(q.slice(0, 99), row(k_GLK), row(v_GLK), held, options), all.slice(0, 99),
                     tolerance(type), way + " decode");
      });
}

TEST(Attention, CachedKeysGiveTheLastRows) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const std::int64_t window : {0, 1, 6, 90})
      for (const std::int64_t queries : {1, 4, 30, 64, 65, 200})
        each_level([&](const std::string& way) {
          const Tensor q = sample({queries, 4, 8}, type), k = sample({2, 250, 8}, type, 2),
                       v = sample({2, 250, 8}, type, 3);
          const auto filled = [](const Tensor& x) { return x.slice(1, 0, 200); };  // of a cache with room for more
          const AttentionOptions options{0.3, Mask::causal(window)};
          const Tensor got = cached_attention(q, filled(k), filled(v), options);
          expect_close(got, reference::cached_attention(q, filled(k), filled(v), options), tolerance(type),
                       way + " window " + std::to_string(window) + " queries " + std::to_string(queries));
        });
}
TEST(Attention, CachedKeysGiveTheRowsOfTheWholeDocument) {
  const auto in = inputs({"", 100, {}}, 4, 2, 8);
  for (const std::int64_t window : {0, 6}) {
    const Tensor all = attention(in[0], in[1], in[2], {{0, 100}}, {0.3, Mask::causal(window)});
    for (const std::int64_t queries : {1, 30, 100})
      expect_close(cached_attention(in[0].slice(0, 100 - queries), in[1].transpose(0, 1), in[2].transpose(0, 1),
                                    {0.3, Mask::causal(window)}),
                   all.slice(0, 100 - queries), 1e-12, "window " + std::to_string(window));
  }
}

// The reference's, but that it looks at what the documents keep.
int made_of_documents = 0;
bool is_kept(const Documents& documents) {
  return documents.kept([] { return ++made_of_documents; }) == made_of_documents;
}
Backend looking_backend() {
  Backend table = reference_backend();
  table.attention.forward = [](const Tensor& q, const Tensor& k, const Tensor& v, const Documents& documents,
                               const AttentionOptions& options) {
    EXPECT_TRUE(is_kept(documents));
    return reference_backend().attention.forward(q, k, v, documents, options);
  };
  table.attention.backward = [](const Tensor& dy, const AttentionSaved& saved, const Documents& documents,
                                const AttentionOptions& options) {
    EXPECT_TRUE(is_kept(documents));
    return reference_backend().attention.backward(dy, saved, documents, options);
  };
  return table;
}

TEST(Attention, WhatADeviceMakesOfDocumentsIsMadeOnceForAllLayersForthAndBack) {
  const Backend table = looking_backend();
  const BackendScope scope(table);
  const Tensor x = sample({30, 2, 8}).requires_grad_();
  for (int pass = 1; pass <= 2; ++pass) {
    Tensor y = x;
    {
      const Documents documents{{0, 10}, {10, 30}};
      for (int layer = 0; layer < 3; ++layer) y = attention(y, y, y, documents, {0.3});
    }
    y.sum().backward();  // the pass's own documents are gone
    EXPECT_EQ(made_of_documents, pass);
  }
}

TEST(Attention, OneTokenOfEachRowSeesItsOwnCache) {
  const Tensor held = at::tensor({0, 8, 16, 39}, at::kLong);
  for (const std::int64_t size : {10, 512}) {
    const Tensor q = sample({4, 6, size}), k = sample({4, 2, 40, size}, at::kDouble, 2),
                 v = sample({4, 2, 40, size}, at::kDouble, 3);
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (const std::int64_t window : {0, 1, 8})
        at_each_kernel_level([&](const std::string& way) {
          const AttentionOptions options{1 / std::sqrt(static_cast<double>(size)), Mask::causal(window)};
          const Tensor expected = reference::decode_attention(q.to(type), k.to(type), v.to(type), held, options);
          expect_close(decode_attention(q.to(type), k.to(type), v.to(type), held, options), expected, tolerance(type),
                       "decode " + way);
        });
  }
}

}  // namespace
}  // namespace hone::ops::test
