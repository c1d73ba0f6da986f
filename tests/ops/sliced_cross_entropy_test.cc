// The loss by slices of the vocabulary, of ranks that are threads, against the loss of whole rows of logits.
#include "ops/sliced_cross_entropy.h"

#include <barrier>
#include <limits>
#include <optional>
#include <thread>

#include "ops/check.h"
#include "ops/labels.h"

namespace hone::ops::test {
namespace {

// What each rank gives, given to all.
class Told {
 public:
  explicit Told(std::int64_t ranks) : given_(static_cast<std::size_t>(ranks)), meeting_(ranks) {}
  Tensor of_all(std::int64_t rank, const Tensor& own) {
    given_[static_cast<std::size_t>(rank)] = own;
    meeting_.arrive_and_wait();
    Tensor all = at::stack(given_);
    meeting_.arrive_and_wait();
    return all;
  }

 private:
  std::vector<Tensor> given_;
  std::barrier<> meeting_;
};

struct SlicedCase {
  std::int64_t tokens, vocab, ranks;
  CrossEntropyOptions options = {};
  bool has_bias = false;
};

struct OfRank {
  Result result;  // by the hidden states, the rank's rows of the head and, where there is one, their biases
  LossSums sums;
};

OfRank of_rank(const SlicedCase& one, std::int64_t rank, const std::vector<Tensor>& whole, Told& told) {
  const auto cut = [&](std::int64_t all, std::int64_t end) { return all * end / one.ranks; };
  const std::int64_t first = cut(one.vocab, rank), words = cut(one.vocab, rank + 1) - first;
  std::vector<Tensor> own{whole[0], whole[1].narrow(0, first, words)};
  if (one.has_bias) own.push_back(whole[2].narrow(0, first, words));
  OfRank made;
  made.result = value_and_gradients(
      [&](const std::vector<Tensor>& in) {
        const HeadSlice slice{.head_vD = in[1],
                              .bias_v = one.has_bias ? in[2] : Tensor(),
                              .first = first,
                              .vocab = one.vocab,
                              .ranks = one.ranks,
                              .total = [&](const Tensor& x) { return told.of_all(rank, x).sum(0); },
                              .largest = [&](const Tensor& x) { return told.of_all(rank, x).amax(0); },
                              .begin = cut(one.tokens, rank),
                              .end = cut(one.tokens, rank + 1)};
        return sliced_cross_entropy(in[0], slice, labels(one.tokens, one.vocab), weights(one.tokens), one.options,
                                    &made.sums);
      },
      own);
  return made;
}

std::vector<OfRank> of_ranks(const SlicedCase& one, const std::vector<Tensor>& whole) {
  std::vector<OfRank> made(static_cast<std::size_t>(one.ranks));
  Told told(one.ranks);
  std::vector<std::jthread> threads;
  for (std::int64_t r = 0; r < one.ranks; ++r)
    threads.emplace_back([&, r] {
      const Threads alone(1);
      made[static_cast<std::size_t>(r)] = of_rank(one, r, whole, told);
    });
  threads.clear();
  return made;
}

void expect_whole_rows(const SlicedCase& one) {
  SCOPED_TRACE(::testing::Message() << one.tokens << " tokens, " << one.vocab << " words, " << one.ranks << " ranks");
  std::vector<Tensor> whole{sample({one.tokens, 4}), sample({one.vocab, 4}, at::kDouble, 2)};
  if (one.has_bias) whole.push_back(sample({one.vocab}, at::kDouble, 3));
  LossSums sums;
  const Result expected = value_and_gradients(
      [&](const std::vector<Tensor>& in) {
        CrossEntropyOptions options = one.options;
        std::optional<HeadBias> bias;
        if (one.has_bias) options.bias = &bias.emplace(HeadBias{in[2]});
        return reference::linear_cross_entropy(in[0], in[1], labels(one.tokens, one.vocab), weights(one.tokens),
                                               options, &sums);
      },
      whole);
  const std::vector<OfRank> all = of_ranks(one, whole);
  const auto total = [&](const std::function<Tensor(const OfRank&)>& of) {
    Tensor sum = of(all[0]).clone();
    for (std::size_t r = 1; r < all.size(); ++r) sum += of(all[r]);
    return sum;
  };
  expect_close(total([](const OfRank& one) { return one.result.value; }), expected.value, 1e-11, "loss");
  expect_close(total([](const OfRank& one) { return one.sums.weight; }), sums.weight, 1e-11, "weight");
  expect_close(total([](const OfRank& one) { return one.sums.right; }), sums.right, 1e-11, "right");
  expect_close(total([](const OfRank& one) { return one.sums.z; }), sums.z, 1e-11, "z");
  expect_close(total([](const OfRank& one) { return one.result.gradients[0]; }), expected.gradients[0], 1e-11,
               "gradient by the hidden states");
  for (std::size_t i = 1; i < whole.size(); ++i) {
    std::vector<Tensor> rows;
    for (const OfRank& rank : all) rows.push_back(rank.result.gradients[i]);
    expect_close(at::cat(rows), expected.gradients[i], 1e-11, "gradient of slices " + std::to_string(i));
  }
}

TEST(SlicedCrossEntropy, IsThatOfWholeRows) {
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{}, {.label_smoothing = 0.1}, {.z_loss = 1e-2}, {.by_probability = true},
        {.label_smoothing = 0.2, .z_loss = 1e-3, .soft_cap = 1.5}})
    for (const std::int64_t ranks : {1, 2, 3})
      for (const bool has_bias : {false, true}) expect_whole_rows({20, 33, ranks, options, has_bias});
}
TEST(SlicedCrossEntropy, SeveralChunksGiveWhatOneDoes) {
  expect_whole_rows({900, 17000, 2, {.soft_cap = 3}, /*has_bias=*/true});  // 600 have a label; a chunk holds 512
}
// Of a token or two, and of none: a rank may have no token that is supervised, and there may be none at all.
TEST(SlicedCrossEntropy, OfFewTokens) {
  for (const std::int64_t tokens : {1, 2, 3}) expect_whole_rows({tokens, 7, 3});
}
// Whatever lies there at first; of tokens without a label (one alone has none) nothing is added.
TEST(SlicedCrossEntropy, GradientsAddUpWhereTheyAreKept) {
  for (const std::int64_t tokens : {1, 20}) {
    const SlicedCase one{tokens, 7, 1};
    const std::vector<Tensor> whole{sample({tokens, 4}), sample({7, 4}, at::kDouble, 2)};
    Told told(1);
    const Tensor expected = of_rank(one, 0, whole, told).result.gradients[1];
    GradientSum sum{at::full({7, 4}, std::numeric_limits<double>::quiet_NaN(), at::kDouble)};
    SlicedCase kept = one;
    kept.options.head_sum = &sum;
    for (const double times : {1, 2, 3}) {
      of_rank(kept, 0, whole, told);
      EXPECT_TRUE(sum.full());
      expect_close(sum.sum, times * expected, 1e-11, "sum");
    }
  }
}

}  // namespace
}  // namespace hone::ops::test
