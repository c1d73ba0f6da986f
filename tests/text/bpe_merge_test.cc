// Merging by array and by heap gives what the definition of byte-pair encoding says.
#include "text/parts/bpe_merge.h"

#include <gtest/gtest.h>

#include <random>

namespace hone::text {
namespace {

// The definition: the pair of the lowest rank, of those the leftmost, until there is none.
std::vector<std::int32_t> slowly(const MergeTable& table, std::vector<std::int32_t> ids) {
  for (;;) {
    std::uint64_t best = MergeTable::kNone;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      if (const std::uint64_t pair = table.find(ids[i], ids[i + 1]); pair < best) best = pair, at = i;
    if (best == MergeTable::kNone) return ids;
    ids[at] = static_cast<std::int32_t>(best);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Merger, FollowsTheDefinitionForShortAndLongWords) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    MergeTable table;
    const int letters = 2 + static_cast<int>(random() % 3);
    for (int rank = 0; rank < 20; ++rank)
      table.set(static_cast<int>(random()) % (letters + rank), static_cast<int>(random()) % (letters + rank),
                static_cast<std::uint32_t>(rank), letters + rank);
    for (const std::size_t size : {0u, 1u, 2u, 39u, 40u, 41u, 200u}) {
      std::vector<Symbol> symbols;
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < size; ++i) {
        ids.push_back(static_cast<std::int32_t>(random() % letters));
        symbols.push_back({ids.back(), 1});
      }
      Merger().merge(table, symbols);
      std::vector<std::int32_t> got;
      std::size_t covered = 0;
      for (const Symbol& s : symbols) got.push_back(s.id), covered += s.size;
      ASSERT_EQ(got, slowly(table, ids));
      ASSERT_EQ(covered, size);
    }
  }
}

}  // namespace
}  // namespace hone::text
