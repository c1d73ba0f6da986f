// What a token goes through as one launch: as by a launch for each, to the bit.
#include "cuda/kernel_check.h"

namespace hone::ops::test {
namespace {

struct Sizes {
  std::int64_t hidden, inner, heads, groups, size, room;
  at::ScalarType type;
};

struct Layer {
  Tensor norm, second_norm, k_cache, v_cache;
  LinearWeight q, k, v, o, gate, up, down;
};

LinearWeight weight(std::int64_t outs, std::int64_t in, at::ScalarType type, std::uint64_t seed, bool bias = false) {
  const double spread = 1 / std::sqrt(static_cast<double>(in));
  return {(sample({outs, in}, at::kDouble, seed) * spread).to(type), bias ? sample({outs}, type, seed + 50) : Tensor()};
}
Layer layer_of(const Sizes& s, std::uint64_t seed) {
  const std::vector<std::int64_t> cache{1, s.groups, s.room, s.size};
  const std::int64_t own = s.heads * s.size, shared = s.groups * s.size;
  return {sample({s.hidden}, s.type, seed),
          sample({s.hidden}, s.type, seed + 1),
          sample(cache, s.type, seed + 2),
          sample(cache, s.type, seed + 3),
          weight(own, s.hidden, s.type, seed + 4, true),
          weight(shared, s.hidden, s.type, seed + 5, true),
          weight(shared, s.hidden, s.type, seed + 6),
          weight(s.hidden, own, s.type, seed + 7),
          weight(s.inner, s.hidden, s.type, seed + 8, true),
          weight(s.inner, s.hidden, s.type, seed + 9),
          weight(s.hidden, s.inner, s.type, seed + 10)};
}

// Of layers that are alike but for their values, and the heads' scores: what they give and what they have stored.
Results decoded(const Backend& table, const Sizes& s, Tensor x, Tensor residual, std::int64_t held,
                const AttentionOptions& options) {
  const Tensor angles = sample({300, s.size / 2}, at::kDouble, 11) * 3, entries = at::full({1}, held, at::kLong);
  const auto wide = at::toOpMathType(s.type);
  const RopeTable rope{angles.cos().to(wide), angles.sin().to(wide), entries.remainder(300)};
  Results made;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Layer layer = layer_of(s, 20 + 100 * i);
    const NormedProducts in = table.products.norm_skinny({x, residual, layer.norm, 1e-5}, {layer.q, layer.k, layer.v});
    const auto heads = [&](const Tensor& all, std::int64_t count) { return all.view({1, count, s.size}); };
    const NewTokens tokens{heads(in.products[0], s.heads), heads(in.products[1], s.groups),
                           heads(in.products[2], s.groups), rope};
    const Tensor y = table.attention.decode_new(tokens, {layer.k_cache, layer.v_cache}, entries, options);
    const Tensor o = table.products.skinny(y.view({1, -1}), {layer.o})[0];
    const NormedProducts gated =
        table.products.norm_skinny_gated({o, in.sum, layer.second_norm, 1e-5}, layer.gate, layer.up, Activation::silu);
    residual = gated.sum;
    x = table.products.skinny(gated.products[0], {layer.down})[0];
    made.insert(made.end(), {x, residual, layer.k_cache, layer.v_cache});
  }
  return made;
}

void expect_chained(const Sizes& s, std::int64_t held, int blocks, const AttentionOptions& options = {0.3},
                    bool begins = true) {
  const OfCapability gpu(90, blocks);
  const std::string what = std::to_string(s.hidden) + " wide, " + std::to_string(held) + " held, " +
                           std::to_string(blocks) + " blocks, " + c10::toString(s.type);
  emulated::order = emulated::Order::forward;
  const Tensor x = sample({1, s.hidden}, s.type);
  const Tensor residual = begins ? Tensor() : sample({1, s.hidden}, s.type, 3);
  const Results expected = decoded(emulated_backend(), s, x, residual, held, options);
  for (const auto order : {emulated::Order::forward, emulated::Order::backward, emulated::Order::turns}) {
    emulated::order = order;
    // Three launches, so that both sets of words are used again, of which one is for another token.
    const Results got = emulated_chain([&] { return decoded(emulated_backend(), s, x, residual, held, options); }, 3,
                                       [&](int launch) { launch < 2 ? x.neg_() : x; })
                            .results;
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(bits_of(got[i]).equal(bits_of(expected[i]))) << what << ": result " << i;
  }
}

TEST(CudaChain, GivesTheBitsOfItsLaunches) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    expect_chained({512, 264, 12, 2, 64, 60, type}, 5, 3);
    expect_chained({136, 96, 2, 2, 128, 600, type}, 300, 2);
  }
  expect_chained({128, 2056, 3, 1, 40, 700, at::kBFloat16}, 600, 3);  // long rows are split, entries in parts
  expect_chained({128, 40, 3, 1, 64, 300, at::kBFloat16}, 90, 4);     // room for parts, of which there is one
  // Heads that do not go together.
  expect_chained({128, 72, 18, 1, 64, 40, at::kBFloat16}, 20, 3, {0.3}, /*begins=*/false);
  AttentionOptions with_sinks{0.3};
  const Tensor sinks = sample({4}, at::kBFloat16, 5);
  with_sinks.sinks = &sinks;
  expect_chained({128, 72, 4, 2, 32, 600, at::kBFloat16}, 520, 5, with_sinks, /*begins=*/false);
  expect_chained({2304, 16, 1, 1, 64, 40, at::kHalf}, 16, 2);  // slots that are not full
  expect_chained({2048, 64, 8, 8, 8, 130, at::kBFloat16}, 129, 1, {0.3, Mask::causal(31), 30.0});
}

}  // namespace
}  // namespace hone::ops::test
