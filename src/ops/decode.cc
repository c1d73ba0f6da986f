// One new token per row against its cached keys and values: all rows and heads in one pass, nothing padded.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "hone/error.h"
#include "ops/attention.h"
#include "ops/cpu/products/decode.h"
#include "ops/parallel.h"

namespace hone::ops {

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options) {
  HONE_ASSERT(static_cast<std::int64_t>(lengths.size()) == q_RHK.size(0));
  HONE_ASSERT(options.mask.kind == Mask::Kind::causal);
  if (q_RHK.numel() == 0 || !kernels_take({q_RHK, k_RGCK, v_RGCK}) || !k_RGCK.is_contiguous() ||
      !v_RGCK.is_contiguous())
    return reference::decode_attention(q_RHK, k_RGCK, v_RGCK, lengths, options);
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
        const std::int64_t first = options.mask.window > 0 ? std::max<std::int64_t>(0, length - options.mask.window) : 0;
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

}  // namespace hone::ops
