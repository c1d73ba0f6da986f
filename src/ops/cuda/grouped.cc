// Products of rows by groups by kernels of ours (kernels/grouped.cu), which read on the device where groups begin.
#include <optional>

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kTile = 128, kPack = 8;
// Where tensor cores read factors themselves, and elsewhere.
constexpr std::int64_t kReadSlices = 3 * 64, kReadUnit = 1024, kSlices = 4 * 32;
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

// A kernel for the GPU of `like`.
struct Chosen {
  Chosen(const at::Tensor& like, const char* plain, const char* reading)
      : reads_itself(cores_read_themselves(like)), kernel{"grouped", reads_itself ? reading : plain} {}
  Grid grid(std::int64_t tiles) const {
    constexpr std::int64_t kOfDepth = 2 * kTile * 2;  // of two factors of 16 bits
    const std::int64_t bytes = reads_itself ? kReadSlices * kOfDepth + kReadUnit : kSlices * kOfDepth;
    return {.x = tiles, .threads = kGroupedThreads, .shared_bytes = bytes};
  }
  bool reads_itself;
  Kernel kernel;
};

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
  const Chosen chosen = *order ? Chosen(a, "grouped_turned", "grouped_turned_90") : Chosen(a, "grouped", "grouped_90");
  const Grid grid = chosen.grid((out.size(0) / kTile + all) * ceil_div(columns, kTile));
  each_part(b.size(), [&](std::size_t first, std::size_t count) {
    launch(chosen.kernel, a, grid, a, other.a_SK, part_of(b, first), part_of(b_too, first),
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
  const Chosen chosen(a, "over_groups", "over_groups_90");
  each_part(to.size(), [&](std::size_t first, std::size_t count) {
    launch(chosen.kernel, a, chosen.grid(tiles * static_cast<std::int64_t>(count)), a, b, part_of(addresses, first),
           part_of(kinds, first), groups.begin(), static_cast<int>(first), static_cast<int>(count), a.size(1),
           b.size(1));
  });
  return true;
}

}  // namespace hone::ops::cuda_table
