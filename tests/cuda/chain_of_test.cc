// Which launches become steps of one launch, and what these read and write.
#define cuda_table emulated_table
#include "ops/cuda/chain.h"
#include "ops/cuda/chain_steps.h"
#undef cuda_table

#include <gtest/gtest.h>

#include <cstring>

namespace hone::ops::emulated_table::test {
namespace {

constexpr std::int64_t kHidden = 64, kInner = 256, kHeads = 4, kGroups = 2, kSize = 16, kRoom = 300;
constexpr ChainLimits kGpu{8, 200 << 10};

// Memory that is never read: pieces of 1 KB.
char* piece(int number) {
  static char memory[64 << 10];
  return memory + number * 1024;
}
template <class Arguments>
Launched launched(std::string_view source, std::string_view name, std::int64_t x, std::int64_t y,
                  const Arguments& arguments) {
  Launched made{source, name, x, y, std::vector<std::byte>(sizeof arguments)};
  std::memcpy(made.arguments.data(), &arguments, sizeof arguments);
  return made;
}

// Where a layer's launches read and write.
struct Places {
  int x, residual, sum, q, k, v, y, o, second_sum, h, down;
};
std::vector<Launched> layer(const Places& at, std::int64_t parts = 1) {
  constexpr std::int64_t kWide = kHeads * kSize, kNarrow = kGroups * kSize;
  const auto place = [](int number) { return number < 0 ? nullptr : piece(number); };
  const ProductsArguments qkv{piece(at.x),
                              {piece(1), piece(2), piece(3)},
                              {},
                              {piece(at.q), piece(at.k), piece(at.v)},
                              {kWide, kNarrow, kNarrow},
                              kHidden,
                              1,
                              1,
                              place(at.residual),
                              piece(4),
                              place(at.sum),
                              1e-5,
                              1};
  DecodeArguments decode{};
  decode.q = piece(at.q), decode.k = piece(5), decode.v = piece(6), decode.y = piece(at.y), decode.held = piece(7);
  decode.group_apart = kRoom * kSize, decode.entry_apart = kSize, decode.row_apart = kGroups * kRoom * kSize;
  decode.groups = kGroups, decode.shared = kHeads / kGroups, decode.size = kSize, decode.least = 256, decode.wide = 1;
  decode.new_k = piece(at.k), decode.new_v = piece(at.v), decode.scale = 0.25;
  JoinArguments join{};
  join.y = piece(at.y), join.heads = kHeads;
  const ProductsArguments o{piece(at.y), {piece(8)}, {},      {piece(at.o)}, {kHidden}, kWide, 1,
                            2,           nullptr,    nullptr, nullptr,       0,         1};
  const GatedArguments gated{piece(at.o),
                             piece(9),
                             nullptr,
                             piece(10),
                             nullptr,
                             piece(at.h),
                             kInner,
                             kHidden,
                             1,
                             0,
                             place(at.residual < 0 ? at.x : at.sum),
                             piece(11),
                             piece(at.second_sum),
                             1e-5,
                             1};
  const ProductsArguments down{piece(at.h), {piece(12)}, {},      {piece(at.down)}, {kHidden}, kInner, 1,
                               1,           nullptr,     nullptr, nullptr,          0,         1};
  std::vector<Launched> made{launched("skinny", "products_of_row", 4, 1, qkv),
                             launched("decode", "decode_64", parts, kGroups, decode)};
  if (parts > 1) made.push_back(launched("decode", "join_parts", kHeads, 1, join));
  made.push_back(launched("skinny", "products_of_row", 4, 1, o));
  made.push_back(launched("skinny", "gated_products_of_row", 4, 1, gated));
  made.push_back(launched("skinny", "products_of_row", 4, 1, down));
  return made;
}
// The second layer reads what the first one gives; memory is used again where an allocator would.
constexpr Places kFirst{20, -1, -1, 21, 22, 23, 24, 25, 26, 27, 28},
    kSecond{28, 26, 29, 21, 22, 23, 24, 25, 30, 27, 31};
std::vector<Launched> layers(const Places& first, const Places& second, std::int64_t parts = 1) {
  std::vector<Launched> made = layer(first, parts);
  for (const Launched& each : layer(second, parts)) made.push_back(each);
  return made;
}
template <class Step>
Step step_at(const Chain& chain, std::size_t index) {
  Step step;
  std::memcpy(static_cast<void*>(&step), chain.steps.data() + index * kStepBytes, sizeof step);
  return step;
}

TEST(ChainOf, TakesLayersWhole) {
  const std::vector<Launched> all = layers(kFirst, kSecond, 2);
  for (const Launched& each : all) EXPECT_TRUE(can_be_step(each)) << each.name;
  const auto chain = chain_of(all, kGpu);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->count, 12);       // attention in parts is two launches
  EXPECT_EQ(chain->step_count, 10);  // and one step
  EXPECT_EQ(chain->steps.size(), 10 * kStepBytes);
  EXPECT_EQ(chain->parts, 2 * kHeads * 2 * (kSize + 2));
  EXPECT_EQ(std::string_view(chain->kernel.name), "chain_64");
  const auto qkv = step_at<ProductsStep>(*chain, 0), second = step_at<ProductsStep>(*chain, 5);
  EXPECT_EQ(qkv.x, piece(20));  // there before the chain
  EXPECT_EQ(second.x, nullptr);
  EXPECT_EQ(second.x_word, step_at<ProductsStep>(*chain, 4).y_word);
  EXPECT_EQ(second.residual_from, kKeptResidual);
  EXPECT_EQ(step_at<DecodeStep>(*chain, 1).q_word, qkv.y_word);
  EXPECT_EQ(step_at<DecodeStep>(*chain, 1).v_word, qkv.y_word + (kHeads + kGroups) * kSize);
}

TEST(ChainOf, OnlyTheLastOneThatWritesSomewhereDoes) {
  const auto chain = chain_of(layers(kFirst, kSecond), kGpu);
  ASSERT_TRUE(chain);
  EXPECT_EQ(step_at<ProductsStep>(*chain, 0).to[0], nullptr);
  EXPECT_EQ(step_at<ProductsStep>(*chain, 5).to[0], piece(21));
  EXPECT_EQ(step_at<DecodeStep>(*chain, 1).y, nullptr);
  EXPECT_EQ(step_at<DecodeStep>(*chain, 6).y, piece(24));
  EXPECT_EQ(step_at<ProductsStep>(*chain, 4).to[0], piece(28));  // nobody writes there again
  EXPECT_EQ(step_at<ProductsStep>(*chain, 3).sum, piece(26));
}

TEST(ChainOf, MemoryThatAllHaveReadMayBeWritten) {
  Places second = kSecond;
  second.down = 20;  // the first layer's x
  const auto chain = chain_of(layers(kFirst, second), kGpu);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->step_count, 10);
  Places first = kFirst;
  first.y = 20;  // of which the gated pair still needs the residual
  EXPECT_FALSE(chain_of(layers(first, kSecond), kGpu));
}

TEST(ChainOf, EndsWhereItCannotTellWhatIsRead) {
  Places third = kSecond;
  third.x = 31, third.residual = 29, third.sum = 32;  // a sum that is no longer kept
  std::vector<Launched> all = layers(kFirst, kSecond);
  for (const Launched& each : layer(third)) all.push_back(each);
  const auto chain = chain_of(all, kGpu);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->step_count, 10);
  all.erase(all.begin());  // nobody knows where the heads' words are
  EXPECT_FALSE(chain_of(all, kGpu));
  EXPECT_FALSE(chain_of(layer(kFirst), kGpu));  // too few
}

TEST(ChainOf, RingsAreShorterWhereThereIsLessRoom) {
  const std::vector<Launched> all = layers(kFirst, kSecond);
  const auto depth = [&](std::int64_t room) {
    const auto chain = chain_of(all, {8, room});
    return chain ? chain->depth : 0;
  };
  EXPECT_EQ(depth(227 << 10), 3);
  EXPECT_EQ(depth(163 << 10), 2);
  EXPECT_EQ(depth(99 << 10), 1);
  EXPECT_EQ(depth(64 << 10), 0);
}

TEST(ChainOf, StepsAreOfOneRowInWholeAccesses) {
  std::vector<Launched> all = layer(kFirst);
  EXPECT_TRUE(can_be_step(all[0]));
  ProductsArguments a{};
  std::memcpy(static_cast<void*>(&a), all[0].arguments.data(), sizeof a);
  const auto with = [&](auto&& change) {
    ProductsArguments changed = a;
    change(changed);
    return can_be_step(launched("skinny", "products_of_row", 4, 1, changed));
  };
  EXPECT_FALSE(with([](auto& x) { x.rows = 2; }));
  EXPECT_FALSE(with([](auto& x) { x.wide = 0; }));
  EXPECT_FALSE(with([](auto& x) { x.outs[3] = 8; }));
  EXPECT_FALSE(with([](auto& x) { x.in = 16384; }));  // a norm's row
  EXPECT_FALSE(can_be_step({"rms_norm", "rms_norm", 1, 1, {}}));
  all[1].y = 2 * kGroups;  // two rows
  EXPECT_FALSE(can_be_step(all[1]));
}

}  // namespace
}  // namespace hone::ops::emulated_table::test
