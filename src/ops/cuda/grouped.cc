// Products of rows by groups by kernels of ours (kernels/grouped.cu), which read on the device where groups begin.
#include <optional>

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kTile = 128, kPack = 8;
constexpr std::size_t kMostGroups = 128;  // of a launch
constexpr int kGroupedThreads = 256, kIsAdded = 1, kIsWide = 2;

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
// how many tiles, side by side, and of how much depth its slices are together.
struct Cores {
  std::int64_t tiles, depth, unit;
};
constexpr Cores kWarpCores{1, 4 * 32, 0}, kGroupCores{1, 3 * 64, 1024}, kWideCores{2, 4 * 64, 1024};
Grid grid_of(const Cores& cores, std::int64_t blocks) {
  const std::int64_t lines = (1 + cores.tiles) * kTile, bytes = lines * cores.depth * 2 + cores.unit;
  return {.x = blocks, .threads = kGroupedThreads, .shared_bytes = bytes};
}
// Two tiles in a block take a multiprocessor of their own: where there are enough of them.
const Cores& cores_for_rows(const at::Tensor& out) {
  if (!cores_read_themselves(out)) return kWarpCores;
  const std::int64_t tiles = ceil_div(out.size(0), kTile) * ceil_div(out.size(1), kTile);
  return out.size(1) > kTile && tiles >= kWideCores.tiles * multiprocessors(out) ? kWideCores : kGroupCores;
}
const char* name_of(const Cores& cores, bool turned) {
  if (&cores == &kWarpCores) return turned ? "grouped_turned" : "grouped";
  if (&cores == &kGroupCores) return turned ? "grouped_turned_90" : "grouped_90";
  return turned ? "grouped_turned_wide_90" : "grouped_wide_90";
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
  const std::int64_t columns = out.size(1), all = groups.size();
  const Cores& cores = cores_for_rows(out);
  const Grid grid = grid_of(cores, (out.size(0) / kTile + all) * ceil_div(columns, cores.tiles * kTile));
  each_part(b.size(), [&](std::size_t first, std::size_t count) {
    launch({"grouped", name_of(cores, *order)}, a, grid, a, other.a_SK, part_of(b, first), part_of(b_too, first),
           static_cast<int>(factors.size()), out, groups.begin(), static_cast<int>(first), static_cast<int>(count),
           static_cast<int>(all), a.size(1), columns);
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
  const std::int64_t tiles = ceil_div(a.size(1), kTile) * ceil_div(b.size(1), kTile);
  const bool by_groups = cores_read_themselves(a);
  each_part(to.size(), [&](std::size_t first, std::size_t count) {
    const Grid grid = grid_of(by_groups ? kGroupCores : kWarpCores, tiles * static_cast<std::int64_t>(count));
    launch({"grouped", by_groups ? "over_groups_90" : "over_groups"}, a, grid, a, b, part_of(addresses, first),
           part_of(kinds, first), groups.begin(), static_cast<int>(first), static_cast<int>(count), a.size(1),
           b.size(1));
  });
  return true;
}

}  // namespace hone::ops::cuda_table
