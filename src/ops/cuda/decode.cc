// Attention of one new token per row, and how keys and values come into the cache: by kernels of ours.
#include "ops/attention.h"
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

// As the kernels have them; parts are of a row.
constexpr std::int64_t kMostDecodedSize = 256, kRunsTogether = 128, kMostParts = 64;
constexpr std::int64_t kTileHeads = 16, kNarrowCoreSize = 64, kMostCoreSize = 128;
constexpr std::int64_t kMostGridRows = 65535;
constexpr int kMostStoreThreads = 256;

// A kernel, its blocks' warps, and how many values these share: of each head that goes together one more than the most
// that it may have. A part of a row has at least two tiles of entries for each warp.
struct DecodeKernel {
  const char* name;
  std::int64_t warps, shared_values;
  int threads() const { return static_cast<int>(32 * warps); }
  int least_entries() const { return static_cast<int>(2 * 16 * warps); }
};
DecodeKernel decode_kernel(bool by_cores, std::int64_t size, std::int64_t heads) {
  if (!by_cores) return {"decode", 4, 0};
  if (size <= kNarrowCoreSize) return {"decode_64", 8, heads * 8 * (kNarrowCoreSize + 1)};
  return {"decode_128", 4, heads * 4 * (kMostCoreSize + 1)};
}

// The rows of one launch. How many parts a row has, the kernel finds: here there are as many as one of all the entries
// that there is room for may have.
void decode_rows(const at::Tensor& q, const CacheRoom& room_of, const at::Tensor& y, const at::Tensor& held,
                 const NewTokens& tokens, const AttentionOptions& options, bool wide) {
  const at::Tensor sinks = options.sinks ? options.sinks->to(q.scalar_type()).contiguous() : at::Tensor();
  const at::Tensor &k = room_of.k_RGCK, &v = room_of.v_RGCK;
  const std::int64_t rows = q.size(0), heads = q.size(1), size = q.size(2), groups = k.size(1);
  const std::int64_t window = options.mask.window, room = window > 0 ? std::min(window, k.size(2)) : k.size(2);
  const std::int64_t shared = heads / groups;
  const bool by_cores = wide && q.element_size() == 2 && size <= kMostCoreSize && has_tensor_cores(q);
  const std::int64_t together = by_cores ? kTileHeads : values_at_once(q, wide);
  const DecodeKernel kernel = decode_kernel(by_cores, size, std::min(shared, together));
  const std::int64_t most = std::clamp<std::int64_t>(ceil_div(room, kernel.least_entries()), 1, kMostParts);
  const at::Tensor softmax = at::empty({2, rows * heads, most}, wide_options(q));
  const at::Tensor parts = at::empty({rows * heads, most, size}, wide_options(q));
  const Grid grid{.x = most,
                  .y = rows * groups * ceil_div(shared, together),
                  .threads = kernel.threads(),
                  .shared_bytes = kernel.shared_values * static_cast<std::int64_t>(sizeof(float)),
                  .early = true};
  launch({"decode", kernel.name}, q, grid, q, k, v, y, softmax[0], softmax[1], parts, held, window, k.stride(0),
         k.stride(1), k.stride(2), static_cast<int>(groups), static_cast<int>(shared), static_cast<int>(size),
         kernel.least_entries(), options.scale, options.soft_cap, tokens.k_RGK, tokens.v_RGK, tokens.rope.cos,
         tokens.rope.sin, tokens.rope.rows_N, sinks, room_of.settled, wide);
  if (most == 1) return;
  const Grid joins{.x = rows * heads, .threads = threads_for(size, kMostDecodedSize), .early = true};
  launch({"decode", "join_parts"}, q, joins, y, softmax[0], softmax[1], parts, held, window, sinks,
         static_cast<int>(heads), static_cast<int>(size), kernel.least_entries(), static_cast<int>(most),
         room_of.settled);
}

// How entries of a cache lie, and how wide they may be read.
struct Layout {
  Layout(const at::Tensor& k, const at::Tensor& v, const CacheRoom& to)
      : cache(to.k_RGCK), groups(static_cast<int>(k.size(1))), size(static_cast<int>(k.size(2))) {
    wide = wide_rows(size, {k, v, cache, to.v_RGCK}) && wide_rows(v.stride(0), {v}) && wide_rows(k.stride(0), {k});
    for (const int apart : {0, 1, 2}) wide = wide && wide_rows(cache.stride(apart), {cache});
    threads = threads_for(groups * size / values_at_once(k, wide), kMostStoreThreads);
  }
  const at::Tensor& cache;
  int groups, size, threads;
  bool wide;
};

// The runs of one launch, at most as many as the kernel has room for.
void store_runs(const at::Tensor& k, const at::Tensor& v, const CacheRoom& to, std::span<const CacheRun> runs) {
  std::array<int, kRunsTogether> first{}, count{}, row{}, place{};
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    first[i] = static_cast<int>(runs[i].first), count[i] = static_cast<int>(runs[i].count);
    row[i] = static_cast<int>(runs[i].row), place[i] = static_cast<int>(runs[i].at);
    longest = std::max(longest, runs[i].count);
  }
  if (longest == 0) return;
  const Layout lies(k, v, to);
  const Grid grid{.x = longest, .y = static_cast<std::int64_t>(runs.size()), .threads = lies.threads};
  launch({"store", "store_entries"}, k, grid, k, v, lies.cache, to.v_RGCK, first, count, row, place, k.stride(0),
         v.stride(0), lies.cache.stride(0), lies.cache.stride(1), lies.cache.stride(2), lies.groups, lies.size,
         lies.wide);
}

bool lie_alike(const CacheRoom& room) {
  return room.k_RGCK.strides() == room.v_RGCK.strides() && room.k_RGCK.stride(3) == 1;
}

at::Tensor heads_side_by_side(const at::Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) == x.size(2) ? x : x.contiguous();
}

// tokens: what is new, all of it dense; or nothing.
at::Tensor decode_all(const at::Tensor& q, const CacheRoom& room, const at::Tensor& held, const NewTokens& tokens,
                      const AttentionOptions& options) {
  const at::Tensor &k = room.k_RGCK, &v = room.v_RGCK, y = at::empty_like(q);
  const std::int64_t rows = q.size(0), at_once = kMostGridRows / q.size(1);
  bool wide = wide_rows(q.size(2), {q, k, v});
  for (const int apart : {0, 1, 2}) wide = wide && wide_rows(k.stride(apart), {k, v});
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const auto of = [&](const at::Tensor& x) {
      return x.defined() ? x.narrow(0, first, std::min(at_once, rows - first)) : x;
    };
    const RopeTable angles{tokens.rope.cos, tokens.rope.sin, of(tokens.rope.rows_N)};
    decode_rows(of(q), {of(k), of(v), room.settled}, of(y), of(held), {{}, of(tokens.k_RGK), of(tokens.v_RGK), angles},
                options, wide);
  }
  return y;
}

}  // namespace

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options) {
  if (q_RHK.size(2) > kMostDecodedSize) return reference::decode_attention(q_RHK, k_RGCK, v_RGCK, held_R, options);
  const bool alike = lie_alike({k_RGCK, v_RGCK});
  const CacheRoom room{alike ? k_RGCK : k_RGCK.contiguous(), alike ? v_RGCK : v_RGCK.contiguous()};
  return decode_all(q_RHK.contiguous(), room, held_R, {}, options);
}

at::Tensor decode_new_tokens(const NewTokens& given, const CacheRoom& room, const at::Tensor& held_R,
                             const AttentionOptions& options) {
  if (given.q_RHK.size(2) > kMostDecodedSize || !lie_alike(room)) return {};
  const RopeTable& rope = given.rope;
  const NewTokens tokens{given.q_RHK.contiguous(),
                         given.k_RGK.contiguous(),
                         given.v_RGK.contiguous(),
                         {rope.cos.contiguous(), rope.sin.contiguous(), rope.rows_N.contiguous()}};
  const bool copied = !rope.cos.is_contiguous() || !rope.sin.is_contiguous() || !rope.rows_N.is_contiguous();
  return decode_all(tokens.q_RHK, {room.k_RGCK, room.v_RGCK, room.settled && !copied}, held_R, tokens, options);
}

void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs) {
  if (!lie_alike(to)) return reference_table::attention().store(k_NGK, v_NGK, to, runs);
  const at::Tensor k = heads_side_by_side(k_NGK), v = heads_side_by_side(v_NGK);
  constexpr std::size_t kTogether = kRunsTogether;
  for (std::size_t first = 0; first < runs.size(); first += kTogether)
    store_runs(k, v, to, std::span(runs).subspan(first, std::min(kTogether, runs.size() - first)));
}

void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R) {
  if (!lie_alike(to)) return reference_table::attention().store_one_each(k_RGK, v_RGK, to, held_R);
  const at::Tensor k = heads_side_by_side(k_RGK), v = heads_side_by_side(v_RGK);
  const Layout lies(k, v, to);
  const Grid grid{.x = k.size(0), .threads = lies.threads, .early = true};
  launch({"store", "store_one_each"}, k, grid, k, v, lies.cache, to.v_RGCK, held_R, k.stride(0), v.stride(0),
         lies.cache.stride(0), lies.cache.stride(1), lies.cache.stride(2), lies.groups, lies.size, lies.wide);
}

}  // namespace hone::ops::cuda_table
