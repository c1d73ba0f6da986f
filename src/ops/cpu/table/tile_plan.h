// How a product by AMX is shared among threads and cut to fit the caches: a small model of costs, by shape.
#pragma once

#include <cstdint>

namespace hone::ops::cpu_table {

struct TileShape {
  std::int64_t rows = 0, cols = 0;  // of C
  std::int64_t steps = 0;           // of depth, over all slices
  std::int64_t slices = 1;          // of depth
  std::int64_t slice_steps = 0;     // of the longest
  bool turned = false;              // A's rows lie across: they are packed on the way
  bool wide = false;                // sums may stay in C, which is fp32
  bool packed = false;              // B is there in panels
  int threads = 1;
};

struct TilePlan {
  enum class Share {
    rows,      // B is packed first, by all; a unit of work is some rows against `panels` panels
    own_rows,  // a unit is a thread's share of rows; each packs all of B, slice by slice, in its own cache
    columns,   // a unit is `panels` panels, packed in its thread's cache if need be, against all rows
  };
  Share share = Share::rows;
  std::int64_t panels = 1;    // of B at a time
  std::int64_t rows = 0;      // that go through all slices before the next ones do
  std::int64_t unit_rows = 0;  // of a unit
};
TilePlan tile_plan(const TileShape& shape);
inline TilePlan (*plan_in_use)(const TileShape& shape) = tile_plan;  // tests and bench/tile_plans.cc try others

}  // namespace hone::ops::cpu_table
