// Attention within documents against its meaning, forward, backward, cached and one token at a time.
#include "ops/attention.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

struct Case {
  const char* name;
  std::int64_t tokens;
  std::vector<Span> spans;
  std::int64_t window = 0;
};
const std::vector<Case> kCases = {
    {"one", 7, {{0, 7}}},
    {"a single token", 1, {{0, 1}}},
    {"equal documents", 12, {{0, 4}, {4, 8}, {8, 12}}},
    {"packed, with padding", 20, {{1, 4}, {4, 9}, {11, 12}, {13, 19}}},
    {"many short ones",
     40,
     {{0, 2}, {2, 5}, {5, 6}, {6, 10}, {10, 12}, {12, 17}, {17, 19}, {19, 25}, {25, 27}, {27, 40}}},
    {"window", 20, {{0, 3}, {3, 17}}, 4},
    {"window of one", 6, {{0, 6}}, 1},
    {"a window in blocks", 300, {{0, 100}, {100, 299}}, 5},
    {"nothing", 4, {}}};

Op fast(const Case& c) {
  return [c](const auto& in) { return attention(in[0], in[1], in[2], c.spans, {0.37, c.window}); };
}
Op plain(const Case& c) {
  return [c](const auto& in) { return reference::attention(in[0], in[1], in[2], c.spans, {0.37, c.window}); };
}
std::vector<Tensor> inputs(const Case& c, std::int64_t heads, std::int64_t groups, std::int64_t size) {
  return {sample({c.tokens, heads, size}), sample({c.tokens, groups, size}, at::kDouble, 2),
          sample({c.tokens, groups, size}, at::kDouble, 3)};
}

TEST(Attention, EveryKernelAgreesWithItsMeaning) {
  for (const Case& c : kCases)
    for (const auto& [heads, groups] : {std::pair{1, 1}, {4, 4}, {4, 2}, {6, 1}}) {
      SCOPED_TRACE(std::string(c.name) + ", heads " + std::to_string(heads) + "/" + std::to_string(groups));
      expect_matches(fast(c), plain(c), inputs(c, heads, groups, 8));
    }
}
TEST(Attention, TakesOddHeadSizes) {
  for (const std::int64_t size : {2, 7, 33})
    expect_matches(fast(kCases[3]), plain(kCases[3]), inputs(kCases[3], 2, 1, size));
}
TEST(Attention, GradientsAreThoseOfDifferences) {
  gradcheck(fast(kCases[0]), inputs(kCases[0], 2, 1, 4));
  gradcheck(fast(kCases[5]), inputs(kCases[5], 2, 1, 2));
}
TEST(Attention, AWindowOfTheWholeDocumentIsNoWindow) {
  const auto in = inputs(kCases[0], 2, 2, 4);
  expect_close(attention(in[0], in[1], in[2], {{0, 7}}, {1, 7}), attention(in[0], in[1], in[2], {{0, 7}}, {1, 0}), 0,
               "window 7");
}
TEST(Attention, LaterTokensAndOtherDocumentsAreNotSeen) {
  auto in = inputs(kCases[3], 2, 1, 4);
  const Tensor before = fast(kCases[3])(in);
  for (Tensor& x : in) x.slice(0, 7, 9) += 1;  // the end of the second document
  const Tensor after = fast(kCases[3])(in);
  EXPECT_TRUE(at::equal(before.slice(0, 0, 7), after.slice(0, 0, 7)));
  EXPECT_TRUE(at::equal(before.slice(0, 9), after.slice(0, 9)));
  EXPECT_FALSE(at::equal(before.slice(0, 7, 9), after.slice(0, 7, 9)));
}

TEST(Attention, CachedKeysGiveTheLastRows) {
  const auto in = inputs({"", 30, {}}, 4, 2, 8);
  for (const std::int64_t window : {0, 1, 6}) {
    const Tensor all = reference::attention(in[0], in[1], in[2], {{0, 30}}, {0.3, window});
    for (const std::int64_t queries : {1, 4, 30})
      for (const Level wanted : {Level::reference, Level::avx512, Level::avx512bf16}) {
        const LevelScope scope(wanted);
        const Tensor got =
            cached_attention(in[0].slice(0, 30 - queries), in[1].transpose(0, 1), in[2].transpose(0, 1), {0.3, window});
        expect_close(got, all.slice(0, 30 - queries), 1e-12, "window " + std::to_string(window));
      }
  }
}

TEST(Attention, OneTokenOfEachRowSeesItsOwnCache) {
  const std::vector<std::int64_t> lengths{1, 9, 17, 40};
  const Tensor q = sample({4, 6, 10}), k = sample({4, 2, 40, 10}, at::kDouble, 2),
               v = sample({4, 2, 40, 10}, at::kDouble, 3);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const std::int64_t window : {0, 1, 8})
      for (const Level wanted : {Level::basic, Level::avx2, Level::avx512, Level::avx512bf16}) {
        const LevelScope scope(wanted);
        const AttentionOptions options{0.3, window};
        const Tensor expected = reference::decode_attention(q.to(type), k.to(type), v.to(type), lengths, options);
        expect_close(decode_attention(q.to(type), k.to(type), v.to(type), lengths, options), expected, tolerance(type),
                     "decode");
      }
}

}  // namespace
}  // namespace hone::ops::test
