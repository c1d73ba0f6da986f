// Products of rows by groups by kernels of ours (kernels/grouped.cu), which read on the device where groups begin.
#include <optional>

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kPack = 8;
constexpr std::size_t kMostGroups = 128;  // of a launch
constexpr int kIsAdded = 1, kIsWide = 2;

// A launch's part of all groups.
template <class T>
std::array<T, kMostGroups> part_of(const std::vector<T>& all, std::size_t first) {
  std::array<T, kMostGroups> part{};
  std::copy(all.begin() + static_cast<std::ptrdiff_t>(first),
            all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), first + kMostGroups)), part.begin());
  return part;
}
template <class Run>
void each_part(std::size_t groups, Run&& run) {
  for (std::size_t first = 0; first < groups; first += kMostGroups) run(first, std::min(kMostGroups, groups - first));
}

// Who makes a block's tiles, as the kernels have it: warps, or groups of them, for which the hardware reads factors;
// of large products, blocks that make one tile after another.
struct Cores {
  std::int64_t lines, columns;  // of a tile
  std::int64_t depth, unit;     // of all its slices; bytes
  int threads;
  const char *source, *rows, *rows_turned, *over_groups;
};
constexpr Cores kWarpCores{128, 128, 4 * 32, 0, 256, "grouped", "grouped", "grouped_turned", "over_groups"};
constexpr Cores kGroupCores{128,       128,          3 * 64,              1024,            256,
                            "grouped", "grouped_90", "grouped_turned_90", "over_groups_90"};
constexpr Cores kWideCores{192,           256,          4 * 64,           1024,                    384,
                           "grouped_wide", "grouped_wide_90", "grouped_turned_wide_90", "over_groups_wide_90"};

std::int64_t tiles_of(const Cores& cores, std::int64_t lines, std::int64_t columns) {
  return ceil_div(lines, cores.lines) * ceil_div(columns, cores.columns);
}
// Wide tiles take a multiprocessor each: where there are so many for it, and groups of so many lines have whole ones.
constexpr std::int64_t kWideTilesOfEach = 1;
const Cores& cores_for(const at::Tensor& x, std::int64_t groups, std::int64_t lines, std::int64_t columns) {
  if (!cores_read_themselves(x)) return kWarpCores;
  const bool whole = lines >= kWideCores.lines && columns > kWideCores.columns / 2;
  const std::int64_t tiles = groups * tiles_of(kWideCores, lines, columns);
  return whole && tiles >= kWideTilesOfEach * multiprocessors(x) ? kWideCores : kGroupCores;
}
Grid grid_of(const Cores& cores, const at::Tensor& x, std::int64_t tiles) {
  const std::int64_t blocks = &cores == &kWideCores ? std::min(tiles, multiprocessors(x)) : tiles;
  const std::int64_t bytes = (cores.lines + cores.columns) * cores.depth * 2 + cores.unit;
  return {.x = blocks, .threads = cores.threads, .shared_bytes = bytes};
}

bool is_narrow(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }
// Whole packs, each where an access may begin.
bool has_packs(const at::Tensor& x) { return x.size(1) % kPack == 0 && wide_rows(x.size(1), {x}); }
bool takes_rows(const at::Tensor& x, const at::Tensor& like) {
  return x.scalar_type() == like.scalar_type() && x.is_contiguous() && has_packs(x);
}

// How all of them lie, b or its transposed view: whether values of one depth lie side by side; nothing: otherwise.
std::optional<bool> turned(const std::vector<at::Tensor>& b_KN, const at::Tensor& like) {
  const auto all = [&](auto&& seen) {
    return std::all_of(b_KN.begin(), b_KN.end(), [&](const at::Tensor& b) { return takes_rows(seen(b), like); });
  };
  if (all([](const at::Tensor& b) { return b.t(); })) return false;
  if (all([](const at::Tensor& b) { return b; })) return true;
  return std::nullopt;
}

std::vector<const void*> addresses(const std::vector<at::Tensor>& tensors) {
  std::vector<const void*> made;
  for (const at::Tensor& x : tensors) made.push_back(x.const_data_ptr());
  return made;
}

}  // namespace

bool multiply_groups(at::Tensor& out, const std::vector<GroupedFactors>& factors, const RowGroups& groups) {
  const at::Tensor& a = factors[0].a_SK;
  if (!is_narrow(a) || factors.size() > 2 || !takes_rows(out, a) || !has_tensor_cores(a)) return false;
  const std::optional<bool> order = turned(factors[0].b_KN, a);
  for (const GroupedFactors& f : factors)
    if (!takes_rows(f.a_SK, a) || f.a_SK.sizes() != a.sizes() || !order || turned(f.b_KN, a) != order) return false;
  const GroupedFactors& other = factors.back();
  const std::vector<const void*> b = addresses(factors[0].b_KN), b_too = addresses(other.b_KN);
  const std::int64_t rows = out.size(0), columns = out.size(1), all = groups.size();
  const Cores& cores = cores_for(a, all, ceil_div(rows, std::max<std::int64_t>(all, 1)), columns);
  const Grid grid = grid_of(cores, a, (rows / cores.lines + all) * ceil_div(columns, cores.columns));
  const Kernel kernel{cores.source, *order ? cores.rows_turned : cores.rows};
  each_part(b.size(), [&](std::size_t first, std::size_t count) {
    launch(kernel, a, grid, a, other.a_SK, part_of(b, first), part_of(b_too, first), static_cast<int>(factors.size()),
           out, groups.begin(), static_cast<int>(first), static_cast<int>(count), static_cast<int>(all), a.size(1),
           columns);
  });
  return true;
}

bool multiply_over_groups(const at::Tensor& a, const at::Tensor& b, const RowGroups& groups,
                          const std::vector<Target>& to) {
  if (!is_narrow(a) || !takes_rows(a, a) || !takes_rows(b, a) || !has_tensor_cores(a)) return false;
  std::vector<void*> addresses;
  std::vector<int> kinds;
  for (const Target& target : to) {
    const at::Tensor& out = target.out;
    addresses.push_back(parameter(out));
    const bool wide = out.defined() && out.scalar_type() == at::kFloat;
    kinds.push_back((target.add ? kIsAdded : 0) | (wide ? kIsWide : 0));
    if (out.defined() && (!out.is_contiguous() || !has_packs(out) || (!wide && out.scalar_type() != a.scalar_type())))
      return false;
  }
  const std::int64_t lines = a.size(1), columns = b.size(1), all = groups.size();
  const Cores& cores = cores_for(a, all, lines, columns);
  each_part(to.size(), [&](std::size_t first, std::size_t count) {
    const Grid grid = grid_of(cores, a, tiles_of(cores, lines, columns) * static_cast<std::int64_t>(count));
    launch({cores.source, cores.over_groups}, a, grid, a, b, part_of(addresses, first), part_of(kinds, first),
           groups.begin(), static_cast<int>(first), static_cast<int>(count), lines, columns);
  });
  return true;
}

}  // namespace hone::ops::cuda_table
