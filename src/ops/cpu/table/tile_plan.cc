// Plans of products by AMX. The numbers were measured on two cores of a Sapphire Rapids Xeon (L2 of 2 MB each).
#include "ops/cpu/table/tile_plan.h"

#include <algorithm>

#include "ops/cpu/products/tile_product.h"

namespace hone::ops::cpu_table {
namespace {

using cpu::kTileSide;
using cpu::kTileStepBytes;

constexpr std::int64_t kNearPanelsBytes = 704 << 10;  // of panels that stay in an L2 cache; twice as much falls out
constexpr std::int64_t kNearSumsBytes = 1 << 20;      // of fp32 sums that may lie there beside a slice of panels
constexpr std::int64_t kMostSharedBytes = 4 << 20;    // of B packed by all for all: more goes to memory and back
constexpr std::int64_t kLeastPanels = 6;  // against which 32 rows of A are worth loading from beyond L2
constexpr std::int64_t kLongRows = 512;   // that share a load of a slice of panels where the whole depth does not fit
constexpr double kTurningCost = 2.5;      // of packing a number of A that lies across, to one of B

std::int64_t parts_of(std::int64_t whole, std::int64_t most) { return (whole + most - 1) / most; }
std::int64_t rounded(std::int64_t rows) { return parts_of(rows, kTileSide) * kTileSide; }

// As few blocks as have at most `most` panels, a multiple of `times` of them, of about the same size.
std::int64_t spread(std::int64_t panels, std::int64_t most, std::int64_t times = 1) {
  const std::int64_t blocks = parts_of(parts_of(panels, std::max<std::int64_t>(1, most)), times) * times;
  return parts_of(panels, std::min(blocks, panels));
}

class Planner {
 public:
  explicit Planner(const TileShape& shape) : s_(shape) {}

  TilePlan plan() const {
    if (s_.turned && s_.wide && !s_.packed) return turned();
    const std::int64_t row_tiles = cpu::tile_steps(s_.rows);
    const bool few_rows = row_tiles < 2 * s_.threads && row_tiles <= panels_;
    const bool large = panels_ * s_.steps * kTileStepBytes > kMostSharedBytes;
    if ((few_rows || large || s_.packed) && (whole_ >= kLeastPanels || s_.slices == 1))
      return columns(whole_, at_a_time(s_.rows));
    const std::int64_t sums = kNearSumsBytes / (rounded(s_.rows) * kTileSide * 4);  // panels that have room for them
    const std::int64_t narrow = s_.wide ? slice_ : std::min(slice_, sums);
    if (!s_.packed && (few_rows || (large && narrow * 2 >= kLeastPanels)))
      return columns(std::max<std::int64_t>(1, narrow), s_.rows);
    return by_rows();
  }

 private:
  // Weight gradients: what is packed twice is either B or A.
  TilePlan turned() const {
    if (static_cast<double>(s_.cols) > kTurningCost * static_cast<double>(s_.rows)) return columns(slice_, s_.rows);
    const std::int64_t share = rounded(parts_of(s_.rows, s_.threads));
    return {TilePlan::Share::own_rows, spread(panels_, slice_), share, share};
  }
  // Rows that go through all of the depth: as soon as there is but one slice, they follow one another without a break.
  std::int64_t at_a_time(std::int64_t all) const { return s_.slices == 1 ? all : kTileSide; }
  TilePlan columns(std::int64_t most, std::int64_t rows) const {
    return {TilePlan::Share::columns, spread(panels_, most, s_.threads), rows, s_.rows};
  }
  // 32 rows against the whole depth of some panels, or many against a slice of them. Units of rows are small enough
  // that no thread waits long for another.
  TilePlan by_rows() const {
    const bool deep = s_.slices > 1 && whole_ < kLeastPanels;
    const std::int64_t unit = rounded(parts_of(s_.rows, (deep ? 1 : 4) * s_.threads));
    const std::int64_t rows = deep ? std::min(kLongRows, unit) : at_a_time(unit);
    const std::int64_t most = deep ? std::min(slice_ / 2, kNearSumsBytes / 2 / (rows * kTileSide * 4)) : whole_;
    return {TilePlan::Share::rows, spread(panels_, most), rows, deep ? rows : unit};
  }

  const TileShape& s_;
  const std::int64_t panels_ = cpu::tile_steps(s_.cols);
  // Panels that fit with all of the depth, and with a slice of it.
  const std::int64_t whole_ = kNearPanelsBytes / (s_.steps * kTileStepBytes);
  const std::int64_t slice_ = kNearPanelsBytes / (s_.slice_steps * kTileStepBytes);
};

}  // namespace

TilePlan tile_plan(const TileShape& shape) { return Planner(shape).plan(); }

}  // namespace hone::ops::cpu_table
