// The CPU's matrix products: how they are cut into slices of depth, panels of columns and blocks of rows.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <utility>

#include "ops/cpu/products/matmul.h"
#include "ops/cpu/table/factor.h"
#include "ops/cpu/table/table.h"
#include "ops/cpu/table/tile_products.h"
#include "ops/float8_emulation.h"
#include "ops/group_loop.h"
#include "ops/kernels.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {
namespace {

thread_local Room panels_room, rows_room, sums_room, widened_room;

// Factors of type T as they are multiplied, in type P: T itself, or fp32 for bf16.
template <class T, class P>
class PackedFactors {
 public:
  void b(const View<T>& b, std::int64_t depth, std::int64_t cols, P* panel) const {
    const View<P> from = multiplied(b, depth, cols);
    kernels_.pack_b(from.data, from.row, from.col, depth, cols, panel);
  }
  // As rows of `room` values with contiguous depth; where they lie across, as panels of a tile's rows.
  void a(const View<T>& a, std::int64_t rows, std::int64_t depth, std::int64_t room, P* to) const {
    if constexpr (!std::is_same_v<T, P>) {
      if (a.col == 1) {
        for (std::int64_t i = 0; i < rows; ++i) wide_.widen(a.at(i, 0), depth, to + i * room);
        return;
      }
    }
    const View<P> from = multiplied(a, rows, depth);
    if (a.col == 1)
      kernels_.pack_a(from.data, from.row, rows, depth, to);
    else
      kernels_.pack_a_across(from.data, from.col, rows, depth, to);
  }
  void narrow(const float* sums, std::int64_t count, T* to) const { wide_.narrow(sums, count, to); }
  const cpu::MatmulKernels<P>& kernels() const { return kernels_; }

 private:
  // x[rows, cols], in memory of this thread if it has to be widened.
  View<P> multiplied(const View<T>& x, std::int64_t rows, std::int64_t cols) const {
    if constexpr (std::is_same_v<T, P>) {
      return x;
    } else {
      const bool lies_along = x.col == 1;
      const std::int64_t lines = lies_along ? rows : cols, length = lies_along ? cols : rows;
      P* to = widened_room.get<P>(lines * length);
      for (std::int64_t i = 0; i < lines; ++i)
        wide_.widen(lies_along ? x.at(i, 0) : x.at(0, i), length, to + i * length);
      return lies_along ? View<P>{to, length, 1} : View<P>{to, 1, length};
    }
  }

  const cpu::MatmulKernels<P> kernels_ = cpu::matmul_kernels<P>();
  const cpu::MatmulKernels<T> wide_ = cpu::matmul_kernels<T>();
};

// A piece of the depth of one pair of factors: short enough that a block of A and a panel of B stay in the L2 cache.
template <class T>
struct Slice {
  View<T> a, b;  // b: [depth, N] from its first row
  std::int64_t depth = 0, room = 0;
  std::int64_t panels = 0;  // where its panels begin, in values per panel column
};

constexpr std::int64_t kSliceBytes = 4096;        // of depth
constexpr std::int64_t kTurnedSliceBytes = 2048;  // of depth, where A has to be turned
constexpr std::int64_t kPanelsBytes = 8 << 20;    // of all panels that exist at a time
constexpr std::int64_t kBlockBytes = 256 << 10;   // of a block of A

// T: type of the factors; P: the type that they are multiplied in.
template <class T, class P = T>
class Product {
 public:
  Product(const at::Tensor& out, bool add) : out_(out), add_(add), wide_(out.scalar_type() == at::kFloat) {}

  void run(const std::vector<Factors>& factors) {
    for (const Factors& f : factors)
      cut(view_of<T>(f.a_MK), view_of<T>(f.b_KN), f.a_MK.size(1),
          f.a_MK.stride(1) == 1 ? kSliceBytes : kTurnedSliceBytes);
    const std::int64_t panel_bytes = depth_room_ * kernels_.tile_cols * static_cast<std::int64_t>(sizeof(P));
    const std::int64_t step = std::max<std::int64_t>(1, kPanelsBytes / panel_bytes) * kernels_.tile_cols;
    for (std::int64_t begin = 0; begin < cols(); begin += step) {
      const std::int64_t end = std::min(cols(), begin + step);
      packed_ = panels_room.get<P>(packed_size(begin, end));
      pack(begin, end);
      multiply(begin, end);
    }
  }

  // The same for a factor that is packed once and used several times; `packed` empty: it is packed now.
  void run(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor& packed) {
    cut(view_of<T>(a_MK), view_of<T>(b_KN), a_MK.size(1), kSliceBytes);
    const bool made = packed.defined();
    if (!made) packed = at::empty({packed_size(0, cols())}, b_KN.options().dtype(c10::CppTypeToScalarType<P>::value));
    packed_ = packed.mutable_data_ptr<P>();
    if (!made) pack(0, cols());
    multiply(0, cols());
  }

 private:
  std::int64_t rows() const { return out_.size(0); }
  std::int64_t cols() const { return out_.size(1); }

  void cut(const View<T>& a, const View<T>& b, std::int64_t depth, std::int64_t bytes) {
    const std::int64_t most = bytes / static_cast<std::int64_t>(sizeof(P));
    const std::int64_t count = std::max<std::int64_t>(1, (depth + most - 1) / most);
    const std::int64_t step = ((depth + count - 1) / count + 7) / 8 * 8;
    for (std::int64_t k = 0; k < depth; k += step) {
      const std::int64_t length = std::min(step, depth - k), room = cpu::depth_room<P>(length);
      slices_.push_back({{a.at(0, k), a.row, a.col}, {b.at(k, 0), b.row, b.col}, length, room, depth_room_});
      depth_room_ += room;
    }
  }

  std::int64_t panel_count(std::int64_t begin, std::int64_t end) const {
    return (end - begin + kernels_.tile_cols - 1) / kernels_.tile_cols;
  }
  std::int64_t packed_size(std::int64_t begin, std::int64_t end) const {
    return panel_count(begin, end) * kernels_.tile_cols * depth_room_;
  }
  // Panel q of a slice, of `count` that exist now.
  P* panel(const Slice<T>& slice, std::int64_t q, std::int64_t count) const {
    return packed_ + (slice.panels * count + q * slice.room) * kernels_.tile_cols;
  }

  void pack(std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kPanels = 4;  // of a unit: rows of B are read in pieces of some lines of the cache
    const std::int64_t count = panel_count(begin, end), width = kPanels * kernels_.tile_cols;
    const std::int64_t units = (count + kPanels - 1) / kPanels;
    share_out(units * slices(), [&](std::int64_t unit) {
      const Slice<T>& slice = slices_[unit / units];
      const std::int64_t part = unit % units, col = begin + part * width;
      packing_.b({slice.b.at(0, col), slice.b.row, slice.b.col}, slice.depth, std::min(width, end - col),
                 panel(slice, part * kPanels, count));
    });
  }

  // Slices [begin, end) whose rows of a block of A lie beside one another in the L2 cache.
  struct Group {
    std::int64_t begin = 0, end = 0, room = 0;
  };
  std::vector<Group> groups_of(std::int64_t most_room) const {
    std::vector<Group> made;
    for (std::int64_t s = 0; s < slices(); ++s) {
      const std::int64_t room = slices_[s].room;
      if (made.empty() || made.back().room + room > most_room) made.push_back({s, s, 0});
      made.back().end = s + 1, made.back().room += room;
    }
    return made;
  }

  // Blocks of rows for the threads; few rows: all of them, against parts of the panels.
  void multiply(std::int64_t begin, std::int64_t end) {
    const std::int64_t count = panel_count(begin, end), threads = at::get_num_threads(), tile = kernels_.tile_rows;
    const std::int64_t tiles = (rows() + tile - 1) / tile;
    const bool by_rows = tiles >= 2 * threads || tiles >= count;
    const std::int64_t widest = this->widest();
    const std::int64_t most =
        std::max<std::int64_t>(1, kBlockBytes / (widest * static_cast<std::int64_t>(sizeof(P)) * tile));
    const std::int64_t shares = by_rows ? threads : 1;  // as many blocks for each thread
    const std::int64_t share = (tiles + shares - 1) / shares;
    const std::int64_t blocks = std::min(tiles, shares * ((share + most - 1) / most));
    const std::int64_t parts = by_rows ? 1 : std::min(count, 2 * threads);
    const std::vector<Group> groups = groups_of(widest * 3 / 2);
    share_out(blocks * parts, [&](std::int64_t unit) {
      const std::int64_t block = unit % blocks, part = unit / blocks;
      run_block({block * tiles / blocks * tile, std::min(rows(), (block + 1) * tiles / blocks * tile),
                 part * count / parts, (part + 1) * count / parts, count, begin, end},
                groups);
    });
  }

  struct Block {
    std::int64_t row = 0, row_end = 0, panel = 0, panel_end = 0, panels = 0;
    std::int64_t begin = 0, end = 0;  // columns that are packed
  };

  // Sums of several slices, and those that have another type than their factors, are kept in fp32 until the last slice:
  // of one panel at a time where a group is all there is, so that they never leave the cache.
  void run_block(const Block& b, const std::vector<Group>& groups) const {
    const bool apart = !wide_ && (slices() > 1 || !std::is_same_v<T, P>), near = groups.size() == 1;
    const std::int64_t width = kernels_.tile_cols, stride = near ? width : (b.panel_end - b.panel) * width;
    float* sums = apart ? sums_room.get<float>((b.row_end - b.row) * stride) : nullptr;
    for (const Group& group : groups) {
      const std::vector<View<P>> a = rows_of(group, b.row, b.row_end);
      for (std::int64_t q = b.panel; q < b.panel_end; ++q) {
        const std::int64_t at = b.begin + q * width, cols = std::min(width, b.end - at);
        float* panel_sums = apart && !near ? sums + (q - b.panel) * width : sums;
        cpu::Tile<P> tile{.c_stride = apart ? stride : out_.stride(0)};
        tile.cols = cols;
        for (std::int64_t s = group.begin; s < group.end; ++s) {
          const View<P>& rows = a[s - group.begin];
          tile.panel = panel(slices_[s], q, b.panels), tile.depth = slices_[s].depth;
          tile.a_stride = slices_[s].a.col == 1 ? rows.row : 0;
          tile.store = s > 0 || add_ ? cpu::Store::wide_add : apart || wide_ ? cpu::Store::wide : cpu::Store::narrow;
          for (std::int64_t i = b.row; i < b.row_end; i += kernels_.tile_rows) {
            tile.rows = std::min<std::int64_t>(kernels_.tile_rows, b.row_end - i);
            tile.a = rows.at(i - b.row, 0);
            tile.c = apart ? panel_sums + (i - b.row) * stride : place(i, at);
            kernels_.multiply(tile);
          }
        }
        if (apart && group.end == slices()) narrow(panel_sums, stride, b.row, b.row_end, at, at + cols);
      }
    }
  }

  // The rows of A of each slice: as they lie, or packed, a tile's rows from tile_rows * room values on.
  std::vector<View<P>> rows_of(const Group& group, std::int64_t row, std::int64_t end) const {
    std::vector<View<P>> made;
    const std::int64_t tile = kernels_.tile_rows, rows = (end - row + tile - 1) / tile * tile;
    P* room = rows_room.get<P>(rows * group.room);
    for (std::int64_t s = group.begin; s < group.end; ++s) {
      const Slice<T>& slice = slices_[s];
      if constexpr (std::is_same_v<T, P>) {
        if (slice.a.col == 1 && slice.room == slice.depth) {
          made.push_back({slice.a.at(row, 0), slice.a.row, 1});
          continue;
        }
      }
      packing_.a({slice.a.at(row, 0), slice.a.row, slice.a.col}, end - row, slice.depth, slice.room, room);
      made.push_back({room, slice.room, 1});
      room += rows * slice.room;
    }
    return made;
  }

  void* place(std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * out_.stride(0) + col;
    return static_cast<char*>(out_.mutable_data_ptr()) + at * static_cast<std::int64_t>(wide_ ? 4 : sizeof(T));
  }

  void narrow(const float* sums, std::int64_t stride, std::int64_t row, std::int64_t row_end, std::int64_t col,
              std::int64_t col_end) const {
    for (std::int64_t i = row; i < row_end; ++i)
      packing_.narrow(sums + (i - row) * stride, col_end - col, static_cast<T*>(place(i, col)));
  }

  std::int64_t slices() const { return static_cast<std::int64_t>(slices_.size()); }
  std::int64_t widest() const {
    std::int64_t most = 1;
    for (const Slice<T>& slice : slices_) most = std::max(most, slice.room);
    return most;
  }

  const PackedFactors<T, P> packing_;
  const cpu::MatmulKernels<P>& kernels_ = packing_.kernels();
  const at::Tensor& out_;
  const bool add_, wide_;
  std::vector<Slice<T>> slices_;
  std::int64_t depth_room_ = 0;
  P* packed_ = nullptr;
};

// MKL adds in an order that goes by where a matrix begins between two lines of the cache: one that was mapped from a
// file would give other bits than the same one in memory of its own.
at::Tensor aligned(const at::Tensor& x) {
  return !x.is_cpu() || reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 64 == 0 ? x : x.clone();
}

// Sums over several pairs of factors, and what is added to, grow in place.
void by_library(at::Tensor& out, const std::vector<Factors>& factors, bool add) {
  at::Tensor made = aligned(out);
  for (const Factors& f : factors) {
    const at::Tensor a_MK = aligned(f.a_MK), b_KN = aligned(f.b_KN);
    std::exchange(add, true) ? made.addmm_(a_MK, b_KN) : at::mm_out(made, a_MK, b_KN);
  }
  if (!made.is_same(out)) out.copy_(made);
}

// The same matrix with one stride of 1.
at::Tensor plain(const at::Tensor& x) { return x.stride(1) == 1 || x.stride(0) == 1 ? x : x.contiguous(); }

bool by_tiles(at::ScalarType type) { return type == at::kBFloat16 && level() == Level::amx; }

// run(Product) for the type of the factors.
template <class Run>
void with_product(at::Tensor& out, at::ScalarType type, bool add, Run&& run) {
  if (type == at::kFloat)
    run(Product<float>(out, add));
  else if (cpu::matmul_kernels<c10::BFloat16>().tile_rows > 0)
    run(Product<c10::BFloat16>(out, add));
  else
    run(Product<c10::BFloat16, float>(out, add));
}

void product_into(at::Tensor& out_MN, const std::vector<Factors>& factors, bool add) {
  const at::ScalarType type = factors[0].a_MK.scalar_type();
  if (library_multiplies(type)) return by_library(out_MN, factors, add);
  if (out_MN.numel() == 0) return;
  if (out_MN.stride(1) != 1) {
    at::Tensor dense = add ? out_MN.contiguous() : at::empty(out_MN.sizes(), out_MN.options());
    product_into(dense, factors, add);
    out_MN.copy_(dense);
    return;
  }
  std::vector<Factors> usable;
  for (const Factors& f : factors)
    if (f.a_MK.size(1) > 0) usable.push_back({plain(f.a_MK), plain(f.b_KN)});
  if (usable.empty()) {
    if (!add) out_MN.zero_();
  } else if (by_tiles(type)) {
    tile_product_into(out_MN, usable, add);
  } else {
    with_product(out_MN, type, add, [&](auto&& product) { product.run(usable); });
  }
}

void product_with_packed(at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor& packed) {
  const at::ScalarType type = a_MK.scalar_type();
  if (library_multiplies(type) || a_MK.size(1) == 0 || out_MN.numel() == 0 || out_MN.stride(1) != 1)
    return product_into(out_MN, {{a_MK, b_KN}}, false);
  const at::Tensor a = plain(a_MK), b = plain(b_KN);
  if (by_tiles(type)) return tile_product_with_packed(out_MN, a, b, packed);
  with_product(out_MN, type, false, [&](auto&& product) { product.run(a, b, packed); });
}

}  // namespace

Backend::Products products() {
  using Loop = GroupLoop<product_into>;
  return {.into = product_into,
          .with_packed = product_with_packed,
          .skinny = skinny_products,
          .skinny_gated = skinny_gated,
          .grouped = Loop::grouped,
          .over_groups = Loop::over_groups,
          .to_float8 = emulated_to_float8,
          .float8_into = emulated_float8_into<product_into>,
          .skinny_groups = skinny_groups,
          .skinny_gated_groups = skinny_gated_groups};
}

}  // namespace hone::ops::cpu_table
