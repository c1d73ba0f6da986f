// The CPU's decoding: one new token per row against its cached keys and values, all rows and heads in one pass, nothing
// padded; and how they come into the cache.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>

#include "ops/cpu/products/decode.h"
#include "ops/cpu/table/table.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options) {
  if (!k_RGCK.is_contiguous() || !v_RGCK.is_contiguous())
    return reference_backend().attention.decode(q_RHK, k_RGCK, v_RGCK, lengths, options);
  const at::Tensor q = q_RHK.contiguous();
  const std::int64_t rows = q.size(0), groups = k_RGCK.size(1), capacity = k_RGCK.size(2), size = q.size(2);
  const std::int64_t heads = q.size(1) / groups;
  std::int64_t tokens = 0;
  for (const std::int64_t length : lengths) tokens += length;
  at::Tensor y = at::empty_like(q);
  cpu::with_type(q.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::decode_kernels<T>();
    const T *queries = q.const_data_ptr<T>(), *k = k_RGCK.const_data_ptr<T>(), *v = v_RGCK.const_data_ptr<T>();
    T* to = y.mutable_data_ptr<T>();
    at::parallel_for(0, rows * groups, grain(tokens / rows * size), [&](std::int64_t begin, std::int64_t end) {
      static thread_local std::vector<cpu::Wide<T>> room;
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t length = lengths[task / groups];
        const std::int64_t first =
            options.mask.window > 0 ? std::max<std::int64_t>(0, length - options.mask.window) : 0;
        const std::int64_t at = (task * capacity + first) * size, head = task * heads * size;
        room.resize(std::max<std::size_t>(room.size(), heads * (length - first)));
        kernels.attend({queries + head, k + at, v + at, heads, length - first, size,
                        static_cast<cpu::Wide<T>>(options.scale), room.data(), to + head,
                        static_cast<cpu::Wide<T>>(options.soft_cap)});
      }
    });
  });
  return y;
}

void store_in_cache(const at::Tensor& from_NGK, const at::Tensor& to_GCK, std::int64_t at) {
  const std::int64_t tokens = from_NGK.size(0), groups = from_NGK.size(1);
  if (!from_NGK.is_contiguous() || to_GCK.stride(2) != 1 || to_GCK.stride(1) != to_GCK.size(2))
    return reference_backend().attention.store(from_NGK, to_GCK, at);
  const auto item = static_cast<std::int64_t>(from_NGK.element_size());
  const std::int64_t bytes = from_NGK.size(2) * item, group = to_GCK.stride(0) * item;
  const auto* from = static_cast<const char*>(from_NGK.const_data_ptr());
  auto* to = static_cast<char*>(to_GCK.mutable_data_ptr()) + at * bytes;
  for (std::int64_t n = 0; n < tokens; ++n)
    for (std::int64_t g = 0; g < groups; ++g, from += bytes)
      std::memcpy(to + g * group + n * bytes, from, static_cast<std::size_t>(bytes));
}

}  // namespace hone::ops::cpu_table
