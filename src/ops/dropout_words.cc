// Words of rows and columns.
#include "ops/dropout_words.h"

#include <string_view>

#include "hone/random.h"

namespace hone::ops {
namespace {

std::vector<std::uint32_t> words(std::uint64_t seed, std::string_view stream, std::int64_t count) {
  const Random random(seed, stream);
  std::vector<std::uint32_t> made;
  made.reserve(static_cast<std::size_t>(count + 3));
  for (std::uint64_t block = 0; static_cast<std::int64_t>(made.size()) < count; ++block) {
    const auto four = random.block(block);
    made.insert(made.end(), four.begin(), four.end());
  }
  made.resize(static_cast<std::size_t>(count));
  return made;
}

}  // namespace

DropoutWords::DropoutWords(std::uint64_t seed, std::int64_t row_count, std::int64_t column_count)
    : rows(words(seed, "dropout/rows", row_count)), columns(words(seed, "dropout/columns", column_count)) {}

}  // namespace hone::ops
