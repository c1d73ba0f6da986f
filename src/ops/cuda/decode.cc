// Attention of one new token per row, and how keys and values come into the cache: by kernels of ours.
#include "ops/attention.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr int kDecodeThreads = 128;
constexpr std::int64_t kMostDecodedSize = 256, kRowsTogether = 128;  // as the kernel has them
constexpr std::int64_t kLeastEntries = 128, kMostParts = 64;         // of a row's part; of a row
constexpr std::int64_t kMostGridRows = 65535;
constexpr int kMostStoreThreads = 256;

// Of each row of a launch: its entries [begin, end), and in how many parts. That depends on their number alone: a row's
// bits do not on the rows beside it.
struct RowParts {
  RowParts(const std::int64_t* lengths, std::int64_t rows, std::int64_t window) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, lengths[r] - window) : 0;
      const std::int64_t parts = std::clamp<std::int64_t>(ceil_div(lengths[r] - first, kLeastEntries), 1, kMostParts);
      begin[r] = static_cast<int>(first), end[r] = static_cast<int>(lengths[r]), count[r] = static_cast<int>(parts);
      most = std::max(most, parts);
    }
  }
  std::array<int, kRowsTogether> begin{}, end{}, count{};
  std::int64_t most = 1;
};

// The rows of one launch.
void decode_rows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& y,
                 const std::int64_t* lengths, const AttentionOptions& options, bool wide) {
  const std::int64_t rows = q.size(0), heads = q.size(1), size = q.size(2), groups = k.size(1);
  const RowParts of_row(lengths, rows, options.mask.window);
  const at::Tensor softmax = at::empty({2, rows * heads, of_row.most}, wide_options(q));
  const at::Tensor parts = at::empty({rows * heads, of_row.most, size}, wide_options(q));
  const std::int64_t shared = heads / groups;
  const Grid grid{.x = of_row.most,
                  .y = rows * groups * ceil_div(shared, values_at_once(q, wide)),
                  .threads = kDecodeThreads};
  launch({"decode", "decode"}, q, grid, q, k, v, y, softmax[0], softmax[1], parts, of_row.begin, of_row.end,
         of_row.count, k.stride(0), k.stride(1), k.stride(2), static_cast<int>(groups), static_cast<int>(shared),
         static_cast<int>(size), options.scale, options.soft_cap, wide);
  if (of_row.most == 1) return;
  const Grid joins{.x = rows * heads, .threads = threads_for(size, kMostDecodedSize)};
  launch({"decode", "join_parts"}, q, joins, y, softmax[0], softmax[1], parts, of_row.count, static_cast<int>(heads),
         static_cast<int>(size), static_cast<int>(of_row.most));
}

// The runs of one launch, at most as many as the kernel has room for.
void store_runs(const at::Tensor& k, const at::Tensor& v, const CacheRoom& to, std::span<const CacheRun> runs) {
  std::array<int, kRowsTogether> first{}, count{}, row{}, place{};
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    first[i] = static_cast<int>(runs[i].first), count[i] = static_cast<int>(runs[i].count);
    row[i] = static_cast<int>(runs[i].row), place[i] = static_cast<int>(runs[i].at);
    longest = std::max(longest, runs[i].count);
  }
  if (longest == 0) return;
  const at::Tensor& cache = to.k_RGCK;
  const std::int64_t groups = k.size(1), size = k.size(2);
  bool wide = wide_rows(size, {k, v, cache, to.v_RGCK}) && wide_rows(v.stride(0), {v}) && wide_rows(k.stride(0), {k});
  for (const int apart : {0, 1, 2}) wide = wide && wide_rows(cache.stride(apart), {cache});
  const Grid grid{.x = longest,
                  .y = static_cast<std::int64_t>(runs.size()),
                  .threads = threads_for(groups * size / values_at_once(k, wide), kMostStoreThreads)};
  launch({"store", "store_entries"}, k, grid, k, v, cache, to.v_RGCK, first, count, row, place, k.stride(0),
         v.stride(0), cache.stride(0), cache.stride(1), cache.stride(2), static_cast<int>(groups),
         static_cast<int>(size), wide);
}

}  // namespace

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options) {
  const std::int64_t rows = q_RHK.size(0), heads = q_RHK.size(1), size = q_RHK.size(2);
  if (size > kMostDecodedSize) return reference::decode_attention(q_RHK, k_RGCK, v_RGCK, lengths, options);
  const bool alike = k_RGCK.strides() == v_RGCK.strides() && k_RGCK.stride(3) == 1;
  const at::Tensor q = q_RHK.contiguous(), k = alike ? k_RGCK : k_RGCK.contiguous(),
                   v = alike ? v_RGCK : v_RGCK.contiguous(), y = at::empty_like(q);
  bool wide = wide_rows(size, {q, k, v});
  for (const int apart : {0, 1, 2}) wide = wide && wide_rows(k.stride(apart), {k, v});
  const std::int64_t at_once = std::min(kRowsTogether, kMostGridRows / heads);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const auto of = [&](const at::Tensor& x) { return x.narrow(0, first, std::min(at_once, rows - first)); };
    decode_rows(of(q), of(k), of(v), of(y), lengths.data() + first, options, wide);
  }
  return y;
}

void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs) {
  if (to.k_RGCK.strides() != to.v_RGCK.strides() || to.k_RGCK.stride(3) != 1)
    return reference_table::attention().store(k_NGK, v_NGK, to, runs);
  const auto heads_side_by_side = [](const at::Tensor& x) {
    return x.stride(2) == 1 && x.stride(1) == x.size(2) ? x : x.contiguous();
  };
  const at::Tensor k = heads_side_by_side(k_NGK), v = heads_side_by_side(v_NGK);
  constexpr std::size_t kTogether = kRowsTogether;
  for (std::size_t first = 0; first < runs.size(); first += kTogether)
    store_runs(k, v, to, std::span(runs).subspan(first, std::min(kTogether, runs.size() - first)));
}

}  // namespace hone::ops::cuda_table
