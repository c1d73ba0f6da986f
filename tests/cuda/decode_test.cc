// Attention of one new token per row against its cache: the kernel beside its meaning in fp64.
#include <ATen/OpMathType.h>

#include "cuda/early_memory.h"
#include "cuda/kernel_check.h"
#include "ops/attention.h"

namespace hone::ops::test {
namespace {

// Rows of different lengths in caches whose room beyond these holds what is not a number.
struct Cached {
  Cached(std::vector<std::int64_t> lengths, std::int64_t groups, std::int64_t shared, std::int64_t size,
         at::ScalarType type)
      : lengths(std::move(lengths)) {
    const auto rows = static_cast<std::int64_t>(this->lengths.size());
    const std::int64_t room = *std::max_element(this->lengths.begin(), this->lengths.end()) + 3;
    q = sample({rows, groups * shared, size}, type);
    k = sample({rows, groups, room, size}, type, 2);
    v = sample({rows, groups, room, size}, type, 3);
    for (std::int64_t r = 0; r < rows; ++r)
      for (const Tensor& x : {k, v}) x[r].slice(1, this->lengths[r]).fill_(NAN);
  }
  Tensor attend(const Backend& table, const AttentionOptions& options) const {
    return table.attention.decode(q, k, v, held(), options);
  }
  Tensor meaning(const AttentionOptions& options) const {
    const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
    return reference::decode_attention(wide(q), wide(k), wide(v), held(), options);
  }
  Tensor held() const { return at::tensor(lengths, at::kLong) - 1; }
  std::string described(const AttentionOptions& options) const {
    return test::described(q.scalar_type(), q.size(0), q.size(2)) + " heads " + std::to_string(q.size(1)) + " of " +
           std::to_string(k.size(1)) + " window " + std::to_string(options.mask.window) + " cap " +
           std::to_string(options.soft_cap) + " longest " +
           std::to_string(*std::max_element(lengths.begin(), lengths.end()));
  }
  std::vector<std::int64_t> lengths;
  Tensor q, k, v;
};

void expect_its_meaning(const Cached& in, const AttentionOptions& options) {
  const std::string what = in.described(options);
  const auto attend = [&](const Backend& table) { return Results{in.attend(table, options)}; };
  const Tensor got = emulated_results(attend, what)[0];
  ASSERT_EQ(got.scalar_type(), in.q.scalar_type());
  expect_same(got.to(at::kDouble), in.meaning(options), once_rounded(in.q.scalar_type()), what);
}

TEST(CudaDecode, EveryHeadSizeAndGroup) {
  for (const std::int64_t size : {32, 64, 80, 96, 128, 256})
    for (const std::int64_t shared : {1, 3, 4, 8})
      expect_its_meaning({{37, 1, 5}, 2, shared, size, at::kBFloat16}, {0.4});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf})
    for (const std::int64_t size : {80, 256}) expect_its_meaning({{37, 1, 5}, 2, 3, size, type}, {0.4});
}
TEST(CudaDecode, OddHeadSizes) {
  for (const std::int64_t size : {1, 7, 20, 33, 100, 255})
    expect_its_meaning({{37, 1}, 2, 3, size, at::kBFloat16}, {0.4});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf})
    expect_its_meaning({{37, 1}, 2, 3, 33, type}, {0.4});
}
TEST(CudaDecode, MoreHeadsThanGoTogether) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t shared : {5, 9, 32}) expect_its_meaning({{20, 33}, 1, shared, 64, type}, {0.4});
}
TEST(CudaDecode, WindowsAndSoftCaps) {
  for (const std::int64_t window : {0, 1, 2, 31, 200})
    expect_its_meaning({{1, 30, 31, 32, 250}, 1, 2, 32, at::kBFloat16}, {0.4, Mask::causal(window)});
  for (const at::ScalarType type : kAllTypes)
    for (const double cap : {0.7, 30.0}) expect_its_meaning({{1, 250}, 1, 2, 32, type}, {0.4, Mask::causal(31), cap});
}
AttentionOptions with_decode_sinks(AttentionOptions options, const Tensor& sinks) {
  options.sinks = &sinks;
  return options;
}
Tensor decode_sinks(std::int64_t heads, at::ScalarType type) { return sample({heads}, type, 9) * 4; }

TEST(CudaDecode, SinksAreOneMoreScore) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t size : {32, 64, 96, 128, 256}) {
      const Tensor sinks = decode_sinks(6, type);
      expect_its_meaning({{37, 1, 600}, 2, 3, size, type}, with_decode_sinks({0.4}, sinks));
    }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor sinks = decode_sinks(64, type), far = at::tensor({-3000., 3000.}, at::kDouble).to(type);
    expect_its_meaning({{20, 257}, 2, 32, 64, type}, with_decode_sinks({0.4, Mask::causal(31), 30.0}, sinks));
    expect_its_meaning({{20, 257}, 1, 2, 64, type}, with_decode_sinks({0.4}, far));
  }
}
TEST(CudaDecode, LongRowsInParts) {
  const std::vector<std::int64_t> about_two = {127, 128, 129, 255, 256, 257, 513};  // a part is 128 or 256 at least
  for (const at::ScalarType type : kAllTypes) expect_its_meaning({about_two, 1, 2, 64, type}, {0.4});
  expect_its_meaning({{2049, 3}, 1, 4, 64, at::kBFloat16}, {0.4});
  expect_its_meaning({{2049, 3}, 1, 1, 32, at::kFloat}, {0.4, Mask::causal(1000)});
  expect_its_meaning({{9000}, 1, 1, 32, at::kBFloat16}, {0.4});  // more entries than the most parts of the least size
}
TEST(CudaDecode, ManyRows) {
  std::vector<std::int64_t> lengths(131);
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = 1 + static_cast<std::int64_t>(r * 37 % 150);
  expect_its_meaning({lengths, 1, 1, 32, at::kFloat}, {0.4});
}
TEST(CudaDecode, ReadsWhatLiesAnywhere) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Cached in({9, 150}, 2, 2, 64, type);
    const Cached plain = in;
    const AttentionOptions options{0.4};
    in.q = misplaced(plain.q);
    expect_its_meaning(in, options);
    in.q = plain.q.transpose(0, 1).contiguous().transpose(0, 1);  // heads of several rows side by side
    in.k = plain.k.transpose(1, 2).contiguous().transpose(1, 2);  // entries of several heads side by side
    expect_its_meaning(in, options);
    in.v = plain.v.transpose(1, 2).contiguous().transpose(1, 2);
    expect_its_meaning(in, options);
    in.k = misplaced(plain.k), in.v = misplaced(plain.v);
    expect_its_meaning(in, options);
  }
}
TEST(CudaDecode, ARowsBitsDoNotDependOnOthers) {
  const Cached all({3, 700, 150}, 2, 2, 64, at::kBFloat16);
  const AttentionOptions options{0.4};
  const Tensor together = all.attend(emulated_backend(), options);
  for (std::int64_t r = 0; r < 3; ++r) {
    Cached one = all;
    one.lengths = {all.lengths[r]};
    one.q = all.q.narrow(0, r, 1), one.k = all.k.narrow(0, r, 1), one.v = all.v.narrow(0, r, 1);
    EXPECT_TRUE(one.attend(emulated_backend(), options)[0].equal(together[r])) << r;
  }
}
TEST(CudaDecode, KeepsWhatIsNotANumber) {
  for (const at::ScalarType type : kAllTypes) {
    Cached in({200, 200, 200, 200}, 1, 2, 32, type);
    in.k[0][0][7] = NAN;
    in.v[1][0][150][3] = INFINITY;
    in.k[2][0].fill_(-INFINITY), in.q[2].fill_(1);          // no score above -infinity
    in.k[3][0].slice(0, 0, 130).fill_(-INFINITY), in.q[3].fill_(1);  // none in one part
    expect_its_meaning(in, {0.4});
  }
}
TEST(CudaDecode, WideHeadsAreTheReferences) {
  const Cached in({3, 9}, 1, 2, 264, at::kFloat);
  const AttentionOptions options{0.4};
  expect_same(in.attend(emulated_backend(), options).to(at::kDouble), in.meaning(options), 1e-5, "wide heads");
}

// Tokens that are turned, stored and attend in one launch: as one after another, to the bit.
void expect_new_tokens(Cached in, const AttentionOptions& options) {
  const std::int64_t rows = in.q.size(0), groups = in.k.size(1), size = in.q.size(2);
  const std::string what = in.described(options);
  const auto type = in.q.scalar_type();
  const Tensor angles = sample({300, size / 2}, at::kDouble, 11) * 3;
  const auto wide = [&](const Tensor& x) { return x.to(at::toOpMathType(type)); };
  const RopeTable rope{wide(angles.cos()), wide(angles.sin()), in.held().remainder(300)};
  const Tensor k = sample({rows, groups, size}, type, 12), v = sample({rows, groups, size}, type, 13);
  const auto run = [&](const Backend& table) {
    const Tensor k_cache = in.k.clone(), v_cache = in.v.clone();
    const Tensor y = table.attention.decode_new({in.q, k, v, rope}, {k_cache, v_cache}, in.held(), options);
    return Results{y, k_cache, v_cache};
  };
  const Results got = emulated_results(run, what);
  const Backend& table = emulated_backend();
  const Tensor q = at::empty_like(in.q), turned = at::empty_like(k);
  table.elementwise.rotate_into(q, in.q, rope, false);
  table.elementwise.rotate_into(turned, k, rope, false);
  table.attention.store_one_each(turned, v, {in.k, in.v}, in.held());
  const Results expected = {table.attention.decode(q, in.k, in.v, in.held(), options), in.k, in.v};
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(bits_of(got[i]).equal(bits_of(expected[i]))) << what << ": result " << i;
}
TEST(CudaDecode, NewTokensAreTurnedAndStoredOnTheWay) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t size : {2, 32, 80, 128, 256}) expect_new_tokens({{37, 1, 130}, 2, 3, size, type}, {0.4});
  for (const std::int64_t shared : {9, 32}) expect_new_tokens({{20, 257}, 2, shared, 64, at::kBFloat16}, {0.4});
  expect_new_tokens({{20, 257}, 1, 2, 64, at::kBFloat16}, {0.4, Mask::causal(31), 30.0});
  std::vector<std::int64_t> lengths(131);
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = 1 + static_cast<std::int64_t>(r * 37 % 150);
  expect_new_tokens({lengths, 1, 1, 32, at::kFloat}, {0.4});
  const Tensor sinks = decode_sinks(6, at::kBFloat16);
  expect_new_tokens({{37, 1, 600}, 2, 3, 64, at::kBFloat16}, with_decode_sinks({0.4}, sinks));
}
// What is settled is read before the kernel waits, and nothing else: with the same bits. `since`: what comes after what
// waits for all, against the promise.
enum class Since { tokens, entries, held, angles };
Results settled_tokens(const Cached& in, const AttentionOptions& options, Since since, bool settled = true) {
  const std::int64_t rows = in.q.size(0), groups = in.k.size(1), size = in.q.size(2);
  const auto wide = at::toOpMathType(in.q.scalar_type());
  const Tensor angles = (sample({300, size / 2}, at::kDouble, 11) * 3).to(wide);
  const Tensor k = sample({rows, groups, size}, in.q.scalar_type(), 12), v = sample(k.sizes(), k.scalar_type(), 13);
  EarlyTensors memory;
  Tensor k_cache = in.k.clone(), v_cache = in.v.clone(), held = in.held();
  RopeTable rope{angles.cos(), angles.sin(), held.remainder(300)};
  memory.begin_after_all();
  if (since == Since::entries) k_cache = k_cache.clone(), v_cache = v_cache.clone();
  if (since == Since::held) held = held.clone();
  if (since == Since::angles) rope = {rope.cos.clone(), rope.sin.clone(), rope.rows_N};
  const NewTokens tokens{in.q.clone(), k.clone(), v.clone(), rope};
  const Tensor y = emulated_backend().attention.decode_new(tokens, {k_cache, v_cache, settled}, held, options);
  return {y.clone(), k_cache.clone(), v_cache.clone()};
}
void expect_settled_tokens(const Cached& in, const AttentionOptions& options) {
  const std::string what = in.described(options);
  const Results expected = settled_tokens(in, options, Since::entries, /*settled=*/false);
  const Results got = emulated_results(
      [&](const Backend&) { return settled_tokens(in, options, Since::tokens); }, what);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(bits_of(got[i]).equal(bits_of(expected[i]))) << what << ": result " << i;
}
TEST(CudaDecode, WhatIsSettledIsReadEarly) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t size : {32, 64, 80, 128, 256})
      expect_settled_tokens({{37, 1, 130}, 2, 3, size, type}, {0.4});
  for (const std::int64_t shared : {9, 32}) expect_settled_tokens({{20, 257}, 2, shared, 64, at::kBFloat16}, {0.4});
  // The newest entry is the first, the last of its tile and of its part, and one that a window has alone.
  expect_settled_tokens({{1, 16, 17, 32, 33, 64, 128, 129, 256, 257, 513}, 1, 2, 64, at::kBFloat16}, {0.4});
  for (const std::int64_t window : {1, 31})
    expect_settled_tokens({{20, 257}, 1, 2, 64, at::kBFloat16}, {0.4, Mask::causal(window), 30.0});
}
TEST(CudaDecode, WhatIsNotSettledIsNotThereEarly) {
  const Cached in({37, 130}, 2, 3, 64, at::kBFloat16);
  const AttentionOptions options{0.4};
  const Results expected = settled_tokens(in, options, Since::tokens, /*settled=*/false);
  for (const Since since : {Since::entries, Since::angles}) {
    EXPECT_TRUE(bits_of(settled_tokens(in, options, since, false)[0]).equal(bits_of(expected[0])));
    EXPECT_FALSE(bits_of(settled_tokens(in, options, since)[0]).equal(bits_of(expected[0])));
  }
  EXPECT_ANY_THROW(settled_tokens(in, options, Since::held));  // no row: nothing waits
}
TEST(CudaDecode, WideHeadsAreNotTurnedOnTheWay) {
  const Cached in({3, 9}, 1, 2, 264, at::kFloat);
  const Tensor k = sample({2, 1, 264}, at::kFloat), angles = sample({9, 132}, at::kFloat);
  const RopeTable rope{angles.cos(), angles.sin(), in.held()};
  EXPECT_FALSE(emulated_backend().attention.decode_new({in.q, k, k, rope}, {in.k, in.v}, in.held(), {0.4}).defined());
}

// Of 9 tokens, into a cache that holds something: the runs' tokens, and nothing else.
void expect_stored(const std::function<Tensor(const Tensor&)>& placed, const std::vector<CacheRun>& runs,
                   std::int64_t size, at::ScalarType type, const std::string& what) {
  const Tensor k = placed(sample({9, 2, size}, type)), v = placed(sample({9, 2, size}, type, 2));
  const Primitive store = [&](const Backend& table) {
    const Tensor room = placed(sample({2, 140, 2, 8, size}, type, 3));
    table.attention.store(k, v, {room[0], room[1]}, runs);
    return Results{room};
  };
  EXPECT_TRUE(bits_of(emulated_results(store, what)[0]).equal(bits_of(store(reference_backend())[0]))) << what;
}

TEST(CudaStore, PutsEveryRunInItsPlace) {
  const std::vector<CacheRun> some = {{0, 3, 4, 5}, {3, 0, 1, 0}, {3, 1, 0, 7}, {4, 5, 139, 0}};
  std::vector<CacheRun> many;
  for (std::int64_t row = 0; row < 140; ++row) many.push_back({row % 9, 1, row, row % 8});
  const auto alike = [](const Tensor& x) { return x; };
  const auto turned = [](const Tensor& x) { return x.transpose(-2, -3).contiguous().transpose(-2, -3); };
  const auto beside = [](const Tensor& x) { return at::cat({x, x}, -2).narrow(-2, 0, x.size(-2)); };
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t size : {8, 7}) expect_stored(alike, some, size, type, described(type, 9, size));
  expect_stored(alike, many, 8, at::kBFloat16, "one each");
  expect_stored(misplaced, some, 8, at::kBFloat16, "misplaced");
  expect_stored(turned, some, 8, at::kBFloat16, "turned");
  expect_stored(beside, some, 8, at::kBFloat16, "beside others");
}
TEST(CudaStore, PutsOneTokenOfEachRowWhereTheRowEnds) {
  std::vector<std::int64_t> held(140);
  for (std::size_t row = 0; row < held.size(); ++row) held[row] = static_cast<std::int64_t>(row * 3 % 8);
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t size : {8, 7})
      for (const bool turned : {false, true}) {
        const auto placed = [&](const Tensor& x) { return turned ? x.mT().contiguous().mT() : x; };
        const Tensor k = placed(sample({140, 2, size}, type)), v = sample({140, 2, size}, type, 2);
        const Primitive store = [&](const Backend& table) {
          const Tensor room = sample({2, 140, 2, 8, size}, type, 3);
          table.attention.store_one_each(k, v, {room[0], room[1]}, at::tensor(held, at::kLong));
          return Results{room};
        };
        const std::string what = described(type, 140, size);
        EXPECT_TRUE(bits_of(emulated_results(store, what)[0]).equal(bits_of(store(reference_backend())[0]))) << what;
      }
}
TEST(CudaStore, AStepOfAllRowsIsOneLaunch) {
  const Tensor x = sample({9, 2, 8}, at::kFloat), room = at::zeros({2, 9, 2, 8, 8}, at::kFloat);
  std::vector<CacheRun> runs;
  for (std::int64_t row = 0; row < 9; ++row) runs.push_back({row, 1, row, 3});
  const std::int64_t before = emulated_launches();
  emulated_backend().attention.store(x, x, {room[0], room[1]}, runs);
  EXPECT_EQ(emulated_launches(), before + 1);
  emulated_backend().attention.store(x, x, {room[0], room[1]}, {{3, 0, 0, 0}});
  EXPECT_EQ(emulated_launches(), before + 1);  // nothing to do
}

}  // namespace
}  // namespace hone::ops::test
