// The endless stream of rows as a function of (seed, position).
#include "data/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/error.h"
#include "hone/random.h"

namespace hone::data {

double StreamOrder::slots_of(const Part& part) {
  const double wanted = std::round(part.weight * static_cast<double>(part.rows));
  return part.weight > 0 && part.rows > 0 ? std::max(1.0, wanted) : 0;
}

StreamOrder::StreamOrder(const std::vector<Part>& parts) {
  constexpr double kMost = 1e15;  // rows per epoch
  for (const Part& part : parts) {
    const double wanted = slots_of(part);
    HONE_ASSERT(wanted >= 0);
    if (wanted + static_cast<double>(epoch_rows_) > kMost)
      throw Error(ErrorKind::config,
                  fmt::format("data.train: weight {} makes an epoch of more than 1e15 rows", part.weight));
    const auto slots = static_cast<std::int64_t>(wanted);
    if (slots > 0) slices_.push_back({rows_, part.rows, epoch_rows_, slots});
    rows_ += part.rows;
    epoch_rows_ += slots;
  }
}

std::int64_t StreamOrder::row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const {
  HONE_ASSERT(position >= 0 && epoch_rows_ > 0);
  const std::int64_t epoch = position / epoch_rows_;
  std::int64_t slot = position % epoch_rows_;
  if (shuffle) {
    const Random random(seed, fmt::format("shuffle/{}", epoch));
    slot = static_cast<std::int64_t>(
        random.permuted(static_cast<std::uint64_t>(slot), static_cast<std::uint64_t>(epoch_rows_)));
  }
  const auto after = std::upper_bound(slices_.begin(), slices_.end(), slot,
                                      [](std::int64_t value, const Slice& slice) { return value < slice.first_slot; });
  const Slice& slice = *std::prev(after);
  // epoch * slots <= position, so nothing overflows.
  return slice.first_row + (epoch * slice.slots + (slot - slice.first_slot)) % slice.rows;
}

}  // namespace hone::data
