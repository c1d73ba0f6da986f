// Scores by distance: a table's row for each query, one place further than that of the query before it.
#include "ops/relative_bias.h"

#include <ATen/ATen.h>

#include "hone/error.h"

namespace hone::ops {

// From the last query to the first one distances grow with the key's place and with the query's: so the rows overlap.
at::Tensor bias_of(const RelativeBias& bias, std::int64_t queries, std::int64_t keys) {
  const at::Tensor table_HD = bias.bias_HD.contiguous();
  const std::int64_t distances = table_HD.size(1), first = bias.zero - (keys - 1);
  HONE_ASSERT(first >= 0 && first + keys + queries - 1 <= distances);
  return table_HD.narrow(1, first, keys + queries - 1)
      .as_strided({table_HD.size(0), queries, keys}, {distances, 1, 1}, table_HD.storage_offset() + first)
      .flip(1);
}

// Rows that are one longer than they are read: so each is read one place further than the one before it.
void add_by_distance(const at::Tensor& x_HQL, const RelativeBias& sums) {
  const std::int64_t heads = x_HQL.size(0), queries = x_HQL.size(1), keys = x_HQL.size(2), all = queries + keys - 1;
  const at::Tensor wide = at::constant_pad_nd(x_HQL.flip(1), {0, queries});
  const at::Tensor slanted = wide.reshape({heads, -1}).narrow(1, 0, queries * all).reshape({heads, queries, all});
  sums.bias_HD.narrow(1, sums.zero - (keys - 1), all).add_(slanted.sum(1));
}

}  // namespace hone::ops
