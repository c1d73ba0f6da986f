// What is added to scores by how far the key is from the query.
//
// Letters: H heads, D distances.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hone::ops {

// bias_HD[h, zero + d], where d is the key's place less the query's. There are as many distances above 0 as below.
struct RelativeBias {
  at::Tensor bias_HD;
  std::int64_t zero = 0;
};

// [H, queries, keys] of queries that stand at the last of the keys. REQUIRES: bias of all their distances.
at::Tensor bias_of(const RelativeBias& bias, std::int64_t queries, std::int64_t keys);

// Adds to sums_HD what x_HQL has for each distance.
void add_by_distance(const at::Tensor& x_HQL, const RelativeBias& sums);

}  // namespace hone::ops
