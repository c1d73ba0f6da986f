// Products of rows by groups, one group after another: what a table has that knows nothing better.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/primitives.h"
#include "ops/row_groups.h"

namespace hone::ops {

// kInto: the table's `into`. On a device the host waits, once for each RowGroups, for how many rows they have.
template <auto kInto>
struct GroupLoop {
  static void grouped(at::Tensor& out_SN, const std::vector<GroupedFactors>& factors, const RowGroups& groups) {
    std::int64_t begin = 0;
    for (std::size_t g = 0; const std::int64_t count : groups.host_counts()) {
      if (count > 0) {
        at::Tensor out = out_SN.narrow(0, begin, count);
        std::vector<Factors> own;
        for (const GroupedFactors& f : factors) own.push_back({f.a_SK.narrow(0, begin, count), f.b_KN[g]});
        kInto(out, own, false);
      }
      begin += count, ++g;
    }
  }

  static void over_groups(const at::Tensor& a_SM, const at::Tensor& b_SN, const RowGroups& groups,
                          const std::vector<Target>& to_MN) {
    std::int64_t begin = 0;
    for (std::size_t g = 0; const std::int64_t count : groups.host_counts()) {
      at::Tensor out = to_MN[g].out;
      if (out.defined()) kInto(out, {{a_SM.narrow(0, begin, count).t(), b_SN.narrow(0, begin, count)}}, to_MN[g].add);
      begin += count, ++g;
    }
  }
};

}  // namespace hone::ops
