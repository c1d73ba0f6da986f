// bf16 products by AMX: slices of depth, panels of columns and rows as the plan has them (tile_plan.h).
#include "ops/cpu/table/tile_products.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "hone/error.h"
#include "ops/cpu/products/tile_product.h"
#include "ops/cpu/table/factor.h"
#include "ops/cpu/table/tile_plan.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {
namespace {

using c10::BFloat16;
using cpu::kTileSide;
using cpu::kTileStepBytes;
using cpu::tile_steps;

constexpr std::int64_t kSliceSteps = 16;            // a panel of A, 32 KB, stays in the L1 cache
constexpr std::int64_t kMostPackedBytes = 16 << 20;  // of all panels that exist at a time

thread_local Room tile_shared_room{Pages::large}, tile_own_room{Pages::large}, tile_sums_room{Pages::large},
    tile_work_room;

// A piece of the depth of one pair of factors.
struct TileSlice {
  View<BFloat16> a, b;  // from its first column and row
  std::int64_t depth = 0, steps = 0;
  std::int64_t at = 0;  // steps of the slices before
};

struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

class TileProduct {
 public:
  TileProduct(const at::Tensor& out, bool add) : out_(out), add_(add), wide_(out.scalar_type() == at::kFloat) {
    HONE_ASSERT(kernels_.multiply && (wide_ || !add_));
  }

  void run(const std::vector<Factors>& factors) {
    for (const Factors& f : factors) cut(f.a_MK, f.b_KN);
    plan(factors[0].a_MK.stride(1) != 1, /*packed=*/false);
    if (plan_.share == TilePlan::Share::own_rows) return by_own_rows();
    if (plan_.share == TilePlan::Share::columns) return by_columns(nullptr);
    const std::int64_t most = std::max(plan_.panels, kMostPackedBytes / (steps_ * kTileStepBytes));
    for (std::int64_t begin = 0; begin < panels(); begin += most) {
      const Interval some{begin, std::min(panels(), begin + most)};
      char* packed = tile_shared_room.get<char>(some.size() * steps_ * kTileStepBytes);
      pack(some, packed);
      by_rows(some, packed);
    }
  }

  // The same with a right factor that is used several times; `packed` empty: it is packed now.
  void run(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor& packed) {
    cut(a_MK, b_KN);
    plan(/*turned=*/false, /*packed=*/true);
    const Interval all{0, panels()};
    const bool made = packed.defined();
    if (!made) packed = at::empty({panels() * steps_ * kTileStepBytes / 2}, b_KN.options());
    auto* room = reinterpret_cast<char*>(packed.mutable_data_ptr<BFloat16>());
    HONE_ASSERT(reinterpret_cast<std::uintptr_t>(room) % 64 == 0);
    if (!made) pack(all, room);
    plan_.share == TilePlan::Share::columns ? by_columns(room) : by_rows(all, room);
  }

 private:
  std::int64_t rows() const { return out_.size(0); }
  std::int64_t panels() const { return tile_steps(out_.size(1)); }

  // In equal parts, but for whole steps: a function of the depth alone, as bits follow from it.
  void cut(const at::Tensor& a_MK, const at::Tensor& b_KN) {
    const View<BFloat16> a = view_of<BFloat16>(a_MK), b = view_of<BFloat16>(b_KN);
    const std::int64_t depth = a_MK.size(1), steps = tile_steps(depth), count = (steps + kSliceSteps - 1) / kSliceSteps;
    const std::int64_t length = (steps + count - 1) / count * kTileSide;
    for (std::int64_t k = 0; k < depth; k += length) {
      const std::int64_t deep = std::min(length, depth - k);
      slices_.push_back({{a.at(0, k), a.row, a.col}, {b.at(k, 0), b.row, b.col}, deep, tile_steps(deep), steps_});
      steps_ += slices_.back().steps, longest_ = std::max(longest_, slices_.back().steps);
    }
  }

  void plan(bool turned, bool packed) {
    plan_ = plan_in_use({.rows = rows(),
                         .cols = out_.size(1),
                         .steps = steps_,
                         .slices = static_cast<std::int64_t>(slices_.size()),
                         .slice_steps = longest_,
                         .turned = turned,
                         .wide = wide_,
                         .packed = packed,
                         .threads = team_size()});
  }

  // Panels of a slice lie behind one another, slices too.
  void pack(Interval panels, const TileSlice& slice, char* to) const {
    const std::int64_t col = panels.begin * kTileSide, end = std::min(out_.size(1), panels.end * kTileSide);
    kernels_.pack_b(slice.b.at(0, col), slice.b.row, slice.b.col, slice.depth, end - col, to);
  }
  void pack(Interval all, char* to) const {
    constexpr std::int64_t kPanels = 4;  // of a unit
    const std::int64_t units = (all.size() + kPanels - 1) / kPanels;
    share_out(units * static_cast<std::int64_t>(slices_.size()), [&](std::int64_t unit) {
      const TileSlice& slice = slices_[unit / units];
      const std::int64_t begin = all.begin + unit % units * kPanels;
      pack({begin, std::min(all.end, begin + kPanels)}, slice,
           to + (slice.at * all.size() + (begin - all.begin) * slice.steps) * kTileStepBytes);
    });
  }

  // Runs work(unit) for all units, each thread with tiles of its own.
  template <class Work>
  void share_with_tiles(std::int64_t units, const Work& work) const {
    struct Worker {
      const cpu::TileProductKernels<BFloat16>& kernels;
      const Work& work;
      ~Worker() { kernels.end(); }
      void operator()(std::int64_t unit) const { work(unit); }
    };
    share_out_with(units, [&] {
      kernels_.begin();
      return Worker{kernels_, work};
    });
  }

  void by_rows(Interval all, const char* packed) const {
    const std::int64_t blocks = (all.size() + plan_.panels - 1) / plan_.panels,
                       shares = (rows() + plan_.unit_rows - 1) / plan_.unit_rows;
    share_with_tiles(blocks * shares, [&](std::int64_t unit) {
      const Interval panels = part(all, unit / shares, plan_.panels);
      go_through(part({0, rows()}, unit % shares, plan_.unit_rows), panels, [&](const TileSlice& slice) {
        return packed + (slice.at * all.size() + (panels.begin - all.begin) * slice.steps) * kTileStepBytes;
      });
    });
  }

  void by_own_rows() const {
    share_with_tiles((rows() + plan_.unit_rows - 1) / plan_.unit_rows, [&](std::int64_t unit) {
      const Interval own = part({0, rows()}, unit, plan_.unit_rows);
      for (std::int64_t q = 0; q < panels(); q += plan_.panels)
        slice_by_slice(own, {q, std::min(panels(), q + plan_.panels)});
    });
  }

  void by_columns(const char* packed) const {
    const Interval all{0, panels()}, all_rows{0, rows()};
    share_with_tiles((panels() + plan_.panels - 1) / plan_.panels, [&](std::int64_t unit) {
      const Interval panels = part(all, unit, plan_.panels);
      if (packed)
        return go_through(all_rows, panels, [&](const TileSlice& slice) {
          return packed + (slice.at * all.size() + panels.begin * slice.steps) * kTileStepBytes;
        });
      if (plan_.rows >= rows()) return slice_by_slice(all_rows, panels);
      char* own = tile_own_room.get<char>(panels.size() * steps_ * kTileStepBytes);
      const auto place = [&](const TileSlice& slice) { return own + slice.at * panels.size() * kTileStepBytes; };
      for (const TileSlice& slice : slices_) pack(panels, slice, place(slice));
      go_through(all_rows, panels, place);
    });
  }

  static Interval part(Interval all, std::int64_t unit, std::int64_t size) {
    const std::int64_t begin = all.begin + unit * size;
    return {begin, std::min(all.end, begin + size)};
  }

  // As many rows as the plan says against all slices, then the next ones.
  template <class Panels>
  void go_through(Interval rows, Interval panels, const Panels& panels_of) const {
    float* sums = sums_for(std::min(plan_.rows, rows.size()), panels);
    std::vector<cpu::TileRows<BFloat16>> tasks;
    for (std::int64_t m = rows.begin; m < rows.end; m += plan_.rows) {
      const Interval some{m, std::min(rows.end, m + plan_.rows)};
      // Where so few rows go together, all slices of the panels stay near: asking again would be half of the loads.
      const bool far = plan_.rows > kTileSide;
      for (std::size_t s = 0; s < slices_.size(); ++s) {
        const TileSlice* next = s + 1 < slices_.size() ? &slices_[s + 1] : nullptr;
        const BFloat16* below = some.end < rows.end ? slices_[0].a.at(some.end, 0) : nullptr;
        tasks.push_back(task(s, some, panels, panels_of(slices_[s]), sums, next && far ? panels_of(*next) : nullptr,
                             next && far ? panels.size() * next->steps * kTileStepBytes : 0,
                             next ? next->a.at(m, 0) : below));
      }
    }
    kernels_.multiply(tasks.data(), static_cast<std::int64_t>(tasks.size()));
  }

  // All of the rows against one slice, which is packed just before, then against the next one.
  void slice_by_slice(Interval rows, Interval panels) const {
    float* sums = sums_for(rows.size(), panels);
    char* own = tile_own_room.get<char>(panels.size() * longest_ * kTileStepBytes);
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      pack(panels, slices_[s], own);
      const TileSlice* next = s + 1 < slices_.size() ? &slices_[s + 1] : nullptr;
      const bool dense = next && next->b.col == 1 && next->b.row == panels.size() * kTileSide;  // one piece of memory
      const auto* soon = dense ? reinterpret_cast<const char*>(next->b.at(0, 0)) : nullptr;
      const auto one = task(s, rows, panels, own, sums, soon, dense ? next->depth * next->b.row * 2 : 0,
                            next ? next->a.at(rows.begin, 0) : nullptr);
      kernels_.multiply(&one, 1);
    }
  }

  float* sums_for(std::int64_t rows, Interval panels) const {
    return wide_ || slices_.size() == 1 ? nullptr : tile_sums_room.get<float>(rows * panels.size() * kTileSide);
  }

  // A slice's product; narrow: with the sums of the slices before.
  cpu::TileRows<BFloat16> task(std::size_t s, Interval rows, Interval panels, const char* packed, float* sums,
                               const char* soon, std::int64_t soon_bytes, const BFloat16* next_a) const {
    const TileSlice& slice = slices_[s];
    const std::int64_t col = panels.begin * kTileSide, stride = panels.size() * kTileSide;
    const bool last = s + 1 == slices_.size(), in_sums = sums && !last;
    return {
        .a = slice.a.at(rows.begin, 0),
        .i_stride = slice.a.row,
        .k_stride = slice.a.col,
        .rows = rows.size(),
        .cols = std::min(out_.size(1), panels.end * kTileSide) - col,
        .depth = slice.depth,
        .panels = packed,
        .c = in_sums ? static_cast<void*>(sums) : place(rows.begin, col),
        .c_stride = in_sums ? stride : out_.stride(0),
        .store = !wide_ && !in_sums     ? cpu::Store::narrow
                 : s > 0 || add_ ? cpu::Store::wide_add
                                 : cpu::Store::wide,
        .more = sums && last ? sums : nullptr,
        .more_stride = stride,
        .room = tile_work_room.get<char>(cpu::tile_room(kSliceSteps * kTileSide)),
        .soon = soon,
        .soon_bytes = soon_bytes,
        .next_a = next_a,
    };
  }

  void* place(std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * out_.stride(0) + col;
    return static_cast<char*>(out_.mutable_data_ptr()) + at * (wide_ ? 4 : 2);
  }

  const cpu::TileProductKernels<BFloat16> kernels_ = cpu::tile_product_kernels<BFloat16>();
  const at::Tensor& out_;
  const bool add_, wide_;
  std::vector<TileSlice> slices_;
  std::int64_t steps_ = 0, longest_ = 0;
  TilePlan plan_;
};

}  // namespace

void tile_product_into(at::Tensor& out_MN, const std::vector<Factors>& factors, bool add) {
  TileProduct(out_MN, add).run(factors);
}

void tile_product_with_packed(at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor& packed) {
  TileProduct(out_MN, false).run(a_MK, b_KN, packed);
}

}  // namespace hone::ops::cpu_table
