// The CPU's decoding: one new token per row against its cached keys and values, all rows and heads in one pass, nothing
// padded; and how they come into the cache.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <cstring>
#include <numeric>

#include "ops/cpu/products/decode.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"
#include "ops/parallel.h"
#include "tensor/host.h"

namespace hone::ops::cpu_table {
namespace {

void copy(const at::Tensor& from_NGK, const at::Tensor& to_RGCK, const CacheRun& run) {
  const auto item = static_cast<std::int64_t>(from_NGK.element_size());
  const std::int64_t groups = to_RGCK.size(1), bytes = to_RGCK.size(3) * item, group = to_RGCK.size(2) * bytes;
  const char* from = static_cast<const char*>(from_NGK.const_data_ptr()) + run.first * groups * bytes;
  char* to = static_cast<char*>(to_RGCK.mutable_data_ptr()) + run.row * groups * group + run.at * bytes;
  for (std::int64_t n = 0; n < run.count; ++n)
    for (std::int64_t g = 0; g < groups; ++g, from += bytes)
      std::memcpy(to + g * group + n * bytes, from, static_cast<std::size_t>(bytes));
}

}  // namespace

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options) {
  if (!k_RGCK.is_contiguous() || !v_RGCK.is_contiguous())
    return reference_backend().attention.decode(q_RHK, k_RGCK, v_RGCK, held_R, options);
  const at::Tensor q = q_RHK.contiguous();
  const std::int64_t rows = q.size(0), groups = k_RGCK.size(1), capacity = k_RGCK.size(2), size = q.size(2);
  const std::int64_t heads = q.size(1) / groups;
  const std::int64_t* held = host::values<std::int64_t>(held_R).data();
  const std::int64_t tokens = rows + std::accumulate(held, held + rows, std::int64_t{0});
  at::Tensor y = at::empty_like(q), sinks_H;
  if (options.sinks) sinks_H = options.sinks->to(at::toOpMathType(q.scalar_type())).contiguous();
  cpu::with_type(q.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::decode_kernels<T>();
    const T *queries = q.const_data_ptr<T>(), *k = k_RGCK.const_data_ptr<T>(), *v = v_RGCK.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    const auto* sinks = sinks_H.defined() ? sinks_H.const_data_ptr<cpu::Wide<T>>() : nullptr;
    at::parallel_for(0, rows * groups, grain(tokens / rows * size), [&](std::int64_t begin, std::int64_t end) {
      static thread_local std::vector<cpu::Wide<T>> room;
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t length = held[task / groups] + 1;
        const std::int64_t first =
            options.mask.window > 0 ? std::max<std::int64_t>(0, length - options.mask.window) : 0;
        const std::int64_t at = (task * capacity + first) * size, head = task * heads * size;
        room.resize(std::max<std::size_t>(room.size(), heads * (length - first)));
        kernels.attend({queries + head, k + at, v + at, heads, length - first, size,
                        static_cast<cpu::Wide<T>>(options.scale), room.data(), to + head,
                        static_cast<cpu::Wide<T>>(options.soft_cap),
                        sinks ? sinks + task % groups * heads : nullptr});
      }
    });
  });
  return y;
}

void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs) {
  const auto dense = [](const at::Tensor& x) { return x.is_contiguous(); };
  if (!dense(k_NGK) || !dense(v_NGK) || !dense(to.k_RGCK) || !dense(to.v_RGCK))
    return reference_backend().attention.store(k_NGK, v_NGK, to, runs);
  for (const CacheRun& run : runs) {
    copy(k_NGK, to.k_RGCK, run);
    copy(v_NGK, to.v_RGCK, run);
  }
}

void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R) {
  std::vector<CacheRun> runs;
  for (const std::int64_t held : host::values<std::int64_t>(held_R)) {
    const auto row = static_cast<std::int64_t>(runs.size());
    runs.push_back({row, 1, row, held});
  }
  cpu_table::store_in_cache(k_RGK, v_RGK, to, runs);
}

}  // namespace hone::ops::cpu_table
