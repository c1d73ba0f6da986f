#include "base/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hone {
namespace {

alignas(64) char region[1 << 16];

TEST(Arena, WhatWasGivenBackServesRequestsOfAnySize) {
  Arena arena(region, 640);
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(arena.take(60));
  EXPECT_EQ(arena.in_use(), 640u);
  EXPECT_EQ(arena.take(1), nullptr);
  EXPECT_TRUE(arena.give_back(blocks[3]));
  EXPECT_TRUE(arena.give_back(blocks[5]));
  EXPECT_EQ(arena.take(65), nullptr);
  EXPECT_TRUE(arena.give_back(blocks[4]));
  EXPECT_EQ(arena.take(192), blocks[3]);
  for (const int i : {0, 1, 2, 3, 6, 7, 8, 9}) EXPECT_TRUE(arena.give_back(blocks[i]));
  EXPECT_EQ(arena.in_use(), 0u);
  EXPECT_EQ(arena.take(640), region);
}

TEST(Arena, TakesTheBestFit) {
  Arena arena(region, 64 * 100);
  void* large = arena.take(64 * 20);
  arena.take(1);
  void* small = arena.take(64 * 10);
  arena.take(1);
  arena.give_back(large), arena.give_back(small);
  EXPECT_EQ(arena.take(64 * 9), small);
  EXPECT_EQ(arena.take(64 * 11), large);
  EXPECT_EQ(arena.reached(), 64u * 32);
}

TEST(Arena, KnowsWhatNobodyHadBefore) {
  Arena arena(region, 64 * 100);
  void* first = arena.take(64 * 4);
  EXPECT_TRUE(arena.is_untouched(first));
  arena.give_back(first);
  EXPECT_FALSE(arena.is_untouched(first));
  void* again = arena.take(64 * 3);
  EXPECT_EQ(again, first);
  EXPECT_FALSE(arena.is_untouched(again));
  EXPECT_FALSE(arena.is_untouched(arena.take(64)));     // what was left of it
  EXPECT_TRUE(arena.is_untouched(arena.take(64 * 2)));  // behind it
  void* partly = arena.take(64 * 90);
  arena.give_back(partly);
  EXPECT_FALSE(arena.is_untouched(arena.take(64 * 91)));  // in part
}

TEST(Arena, RefusesWhatIsNotItsOwnAndWhatIsTooLarge) {
  Arena arena(region + 1, 200);  // the aligned part: 128 bytes
  EXPECT_EQ(arena.take(129), nullptr);
  EXPECT_EQ(arena.take(SIZE_MAX), nullptr);
  void* block = arena.take(0);
  EXPECT_EQ(block, region + 64);
  int other;
  EXPECT_FALSE(arena.give_back(&other));
  EXPECT_FALSE(arena.give_back(region + 65));
  EXPECT_TRUE(arena.give_back(nullptr));
  EXPECT_TRUE(arena.give_back(block));
  EXPECT_FALSE(arena.give_back(block));
  EXPECT_EQ(Arena(region, 10).take(1), nullptr);
}

TEST(Arena, BlocksNeverOverlapAndAllComesBack) {
  Arena arena(region, sizeof(region));
  std::mt19937 random(1);
  std::vector<std::pair<unsigned char*, std::size_t>> held;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2) {
      const std::size_t bytes = random() % 3000;
      if (auto* block = static_cast<unsigned char*>(arena.take(bytes))) {
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % Arena::kAlignment, 0u);
        std::fill(block, block + bytes, static_cast<unsigned char>(bytes));
        held.push_back({block, bytes});
      }
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const auto [block, bytes] = held.back();
      for (std::size_t k = 0; k < bytes; ++k) ASSERT_EQ(block[k], static_cast<unsigned char>(bytes));
      ASSERT_TRUE(arena.give_back(block));
      held.pop_back();
    }
  }
  for (const auto& [block, bytes] : held) arena.give_back(block);
  EXPECT_EQ(arena.in_use(), 0u);
  EXPECT_EQ(arena.take(sizeof(region)), region);
}

}  // namespace
}  // namespace hone
