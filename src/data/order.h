// The endless stream of rows: which row comes at a position, as a function of (seed, position), in O(1).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace hone::data {

// An epoch has m_i = round(weight_i * rows_i) slots of each file (at least one if the weight is not 0), in file order
// or in an order shuffled anew by (seed, epoch). Slot j of file i in epoch e is its row (e * m_i + j) mod rows_i, so a
// weight of 0.5 takes the other half next time. Immutable: any thread may call any member.
class StreamOrder {
 public:
  struct Part {
    std::int64_t rows = 0;
    double weight = 1;
  };
  explicit StreamOrder(const std::vector<Part>& parts);  // REQUIRES: weights finite and >= 0
  static double slots_of(const Part& part);              // of an epoch

  std::int64_t rows() const { return rows_; }  // before weights
  std::int64_t epoch_rows() const { return epoch_rows_; }
  // REQUIRES: position >= 0, epoch_rows() > 0. Rows are numbered through all parts.
  std::int64_t row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const;

 private:
  struct Slice {
    std::int64_t first_row, rows, first_slot, slots;
  };
  std::vector<Slice> slices_;
  std::int64_t rows_ = 0, epoch_rows_ = 0;
};

}  // namespace hone::data
