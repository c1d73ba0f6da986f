// Words of rows and columns.
#include "ops/dropout_words.h"

#include <algorithm>
#include <string_view>

#include "hone/error.h"
#include "hone/random.h"

namespace hone::ops {
namespace {

std::vector<std::uint32_t> words(std::uint64_t seed, std::string_view stream, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t kBlock = 4;
  const Random random(seed, stream);
  const std::int64_t skipped = first % kBlock;
  std::vector<std::uint32_t> made;
  made.reserve(static_cast<std::size_t>(skipped + count + kBlock - 1));
  for (std::int64_t block = first / kBlock; std::ssize(made) < skipped + count; ++block) {
    const auto four = random.block(static_cast<std::uint64_t>(block));
    made.insert(made.end(), four.begin(), four.end());
  }
  made.erase(made.begin(), made.begin() + skipped);
  made.resize(static_cast<std::size_t>(count));
  return made;
}

std::vector<std::uint32_t> words_of_rows(const DropoutSeed& seed, std::int64_t first, std::int64_t count) {
  constexpr std::string_view kStream = "dropout/rows";
  if (!seed.rows || count == 0) return words(seed.seed, kStream, first, count);
  HONE_ASSERT(first == 0 && count == std::ssize(*seed.rows));
  const std::vector<std::uint32_t> all =
      words(seed.seed, kStream, 0, *std::max_element(seed.rows->begin(), seed.rows->end()) + 1);
  std::vector<std::uint32_t> made;
  made.reserve(seed.rows->size());
  for (const std::int64_t row : *seed.rows) made.push_back(all[static_cast<std::size_t>(row)]);
  return made;
}

}  // namespace

DropoutWords::DropoutWords(const DropoutSeed& seed, std::int64_t row_count, std::int64_t column_count,
                           std::int64_t first_row)
    : rows(words_of_rows(seed, first_row, row_count)),
      columns(words(seed.seed, "dropout/columns", 0, column_count)) {}

}  // namespace hone::ops
