// Philox against the published vectors; permutations; bulk floats: same bits however they are divided.
#include "hone/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "base/hash.h"
#include "base/philox.h"

namespace hone {
namespace {

using philox::Counter;
using philox::Key;

TEST(Philox, GivesThePublishedVectors) {  // tests/kat_vectors of Random123, lines "philox4x32 10"
  EXPECT_EQ(philox::philox4x32_10({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox::philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox::philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsAndSeedsDiffer) {
  const Random a(1, "shuffle/0"), same(1, "shuffle/0"), other_seed(2, "shuffle/0"), other_name(1, "shuffle/1");
  EXPECT_EQ(a.bits(7), same.bits(7));
  EXPECT_NE(a.bits(7), other_seed.bits(7));
  EXPECT_NE(a.bits(7), other_name.bits(7));
  EXPECT_NE(a.bits(0), a.bits(1));
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  const Random random(3, "moments");
  constexpr int kCount = 200000;
  double mean = 0, square = 0, uniform = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = random.uniform(i), n = random.normal(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    uniform += u / kCount;
    mean += n / kCount;
    square += n * n / kCount;
  }
  EXPECT_NEAR(uniform, 0.5, 0.003);
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(square, 1, 0.02);
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  const Random random(4, "below");
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(10, i));
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.rbegin(), 9u);
  EXPECT_EQ(random.below(1, 5), 0u);
}

void expect_permutation(std::uint64_t size) {
  const Random random(5, "order");
  std::vector<bool> seen(size);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t to = random.permuted(i, size);
    ASSERT_LT(to, size) << size;
    ASSERT_FALSE(seen[to]) << size << " gives " << to << " twice";
    seen[to] = true;
  }
}

TEST(Random, PermutesEverySize) {
  for (std::uint64_t size = 1; size <= 2000; ++size) expect_permutation(size);
  for (std::uint64_t size = 2003; size <= 5000; size += 37) expect_permutation(size);
  for (const std::uint64_t size : {65535u, 65536u, 65537u, 1000003u}) expect_permutation(size);
}

TEST(Random, PermutesHugeSizesWithoutRepeats) {
  const Random random(6, "huge");
  for (const std::uint64_t size : {(std::uint64_t{1} << 40) + 1, ~std::uint64_t{0}}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 10000; ++i) {
      const std::uint64_t to = random.permuted(size - 1 - i, size);
      ASSERT_LT(to, size);
      ASSERT_TRUE(seen.insert(to).second);
    }
  }
}

TEST(Random, PermutationsOfASmallSetAreEven) {  // each of 4 elements goes to each place about equally often
  int count[4][4] = {};
  for (int epoch = 0; epoch < 4000; ++epoch) {
    const Random random(7, "shuffle/" + std::to_string(epoch));
    for (std::uint64_t i = 0; i < 4; ++i) ++count[i][random.permuted(i, 4)];
  }
  for (const auto& row : count)
    for (const int times : row) EXPECT_NEAR(times, 1000, 150);
}

TEST(RandomFill, IsTheSameHoweverItIsDivided) {
  const Random random(8, "init/x");
  std::vector<float> whole(1000), parts(1000);
  random.fill_normal(whole, 12345, 1, 0.02f);
  for (std::size_t at = 0, step = 1; at < parts.size(); at += step, step = step * 7 % 97 + 1)
    random.fill_normal(std::span(parts).subspan(at, std::min(step, parts.size() - at)), 12345 + at, 1, 0.02f);
  EXPECT_EQ(whole, parts);
  random.fill_uniform(whole, 99, -2, 3);
  for (std::size_t at = 0; at < parts.size(); at += 125)
    random.fill_uniform(std::span(parts).subspan(at, 125), 99 + at, -2, 3);
  EXPECT_EQ(whole, parts);
}

TEST(RandomFill, IsTheSameWithAndWithoutAvx2) {
  if (!philox::has_wide()) GTEST_SKIP() << "this machine has no AVX2";
  float plain[philox::kFloats], wide[philox::kFloats];
  for (std::uint64_t index = 0; index < 100000; index += philox::kLanes) {
    philox::normal_floats(42, 43, index, plain, false);
    philox::normal_floats(42, 43, index, wide, true);
    ASSERT_TRUE(std::equal(plain, plain + philox::kFloats, wide)) << index;
  }
}

TEST(RandomFill, GivesTheseBitsOnEveryMachine) {
  const Random random(1, "init/model.embed_tokens.weight");
  std::vector<float> values(1 << 16);
  random.fill_normal(values, 0);
  EXPECT_EQ(hex64(hash64(std::as_bytes(std::span(values)))), "96196330b339bc57");
  random.fill_uniform(values, 0);
  EXPECT_EQ(hex64(hash64(std::as_bytes(std::span(values)))), "b57764df879b1baa");
}

TEST(RandomFill, IsNormal) {
  const Random random(9, "n");
  std::vector<float> values(1 << 20);
  random.fill_normal(values, 0);
  double mean = 0, square = 0, fourth = 0;
  int beyond_three = 0;
  for (const float v : values) {
    mean += v;
    square += double{v} * v;
    fourth += double{v} * v * v * v;
    beyond_three += std::abs(v) > 3;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(mean / n, 0, 0.005);
  EXPECT_NEAR(square / n, 1, 0.005);
  EXPECT_NEAR(fourth / n, 3, 0.05);
  EXPECT_NEAR(beyond_three / n, 0.0027, 0.0003);
}

TEST(RandomFill, UniformStaysInItsRange) {
  std::vector<float> values(1 << 16);
  Random(10, "u").fill_uniform(values, 0, 0.1f, 0.1000001f);
  for (const float v : values) ASSERT_TRUE(v >= 0.1f && v < 0.1000001f) << v;
}

}  // namespace
}  // namespace hone
