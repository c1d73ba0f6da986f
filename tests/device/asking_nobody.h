// Primitives of plain ATen for which the host needs to know neither where documents end nor how many tokens an expert
// has: as a GPU's kernels, they read it where it lies.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "ops/attention.h"
#include "ops/backend.h"
#include "ops/visible.h"

namespace hone::test {
namespace asking_nobody {

// [N,N]: whether the query may see the key.
inline at::Tensor seen(const ops::Documents& documents, const ops::AttentionOptions& options, const at::Tensor& like) {
  const std::int64_t tokens = like.size(0);
  const at::Tensor place = at::arange(tokens, like.options().dtype(at::kInt));
  const at::Tensor document = (place.unsqueeze(1) >= documents.there()->ends.unsqueeze(0)).sum(1);
  const at::Tensor same = document.unsqueeze(1) == document.unsqueeze(0);
  return same.logical_and(ops::reference::visible(tokens, tokens, options.mask, like.device()));
}
inline at::Tensor by_head(const at::Tensor& x_NGK, std::int64_t heads) {  // [H,N,K], wide
  return x_NGK.repeat_interleave(heads / x_NGK.size(1), 1).transpose(0, 1).to(at::kDouble);
}
inline at::Tensor scores(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const ops::Documents& documents,
                         const ops::AttentionOptions& options) {
  const std::int64_t heads = q_NHK.size(1);
  const at::Tensor s = at::matmul(by_head(q_NHK, heads), by_head(k_NGK, heads).transpose(1, 2)) * options.scale;
  return s.masked_fill(seen(documents, options, q_NHK).logical_not(), -INFINITY);
}

inline ops::Attended forward(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                             const ops::Documents& documents, const ops::AttentionOptions& options) {
  if (!documents.there())
    return ops::reference_backend().attention.forward(q_NHK, k_NGK, v_NGK, documents, options);
  const at::Tensor s = scores(q_NHK, k_NGK, documents, options);
  const at::Tensor y = at::matmul(s.softmax(-1), by_head(v_NGK, q_NHK.size(1)));
  return {y.transpose(0, 1).to(q_NHK.scalar_type()).contiguous(), s.logsumexp(-1)};
}

inline ops::AttentionGradients backward(const at::Tensor& dy_NHK, const ops::AttentionSaved& saved,
                                        const ops::Documents& documents, const ops::AttentionOptions& options) {
  if (!documents.there()) return ops::reference_backend().attention.backward(dy_NHK, saved, documents, options);
  const std::int64_t heads = dy_NHK.size(1), groups = saved.k_NGK.size(1);
  const at::Tensor p = (scores(saved.q_NHK, saved.k_NGK, documents, options) - saved.result.lse_HN.unsqueeze(-1)).exp();
  const at::Tensor dy = by_head(dy_NHK, heads), dp = at::matmul(dy, by_head(saved.v_NGK, heads).transpose(1, 2));
  const at::Tensor ds = p * (dp - (dp * p).sum(-1, /*keepdim=*/true)) * options.scale;
  const auto to_keys = [&](const at::Tensor& x_HNK) {
    return x_HNK.unflatten(0, {groups, -1}).sum(1).transpose(0, 1).to(dy_NHK.scalar_type()).contiguous();
  };
  return {at::matmul(ds, by_head(saved.k_NGK, heads)).transpose(0, 1).to(dy_NHK.scalar_type()).contiguous(),
          to_keys(at::matmul(ds.transpose(1, 2), by_head(saved.q_NHK, heads))),
          to_keys(at::matmul(p.transpose(1, 2), dy))};
}

// 1 for rows of the group, 0 for others.
inline at::Tensor in_group(const at::Tensor& x_SK, const ops::RowGroups& groups, std::int64_t group) {
  const at::Tensor row = at::arange(x_SK.size(0), x_SK.options().dtype(at::kLong));
  return (row >= groups.begin().select(0, group)).logical_and(row < groups.begin().select(0, group + 1)).unsqueeze(1);
}
inline void grouped(at::Tensor& out, const std::vector<ops::GroupedFactors>& factors, const ops::RowGroups& groups) {
  at::Tensor sum = at::zeros(out.sizes(), out.options().dtype(at::kDouble));
  for (const ops::GroupedFactors& one : factors)
    for (std::int64_t g = 0; g < groups.size(); ++g) {
      const at::Tensor made = at::matmul(one.a_SK.to(at::kDouble), one.b_KN[g].to(at::kDouble));
      sum = sum + made.masked_fill(in_group(made, groups, g).logical_not(), 0);
    }
  out.copy_(sum);
}
inline void over_groups(const at::Tensor& a_SM, const at::Tensor& b_SN, const ops::RowGroups& groups,
                        const std::vector<ops::Target>& to) {
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    if (!to[g].out.defined()) continue;
    const at::Tensor a = a_SM.to(at::kDouble).masked_fill(in_group(a_SM, groups, g).logical_not(), 0);
    const at::Tensor made = at::matmul(a.transpose(0, 1), b_SN.to(at::kDouble)).to(to[g].out.scalar_type());
    to[g].add ? to[g].out.add_(made) : to[g].out.copy_(made);
  }
}

}  // namespace asking_nobody

inline ops::Backend table_that_asks_nobody() {
  ops::Backend table = ops::reference_backend();
  table.attention.forward = asking_nobody::forward;
  table.attention.backward = asking_nobody::backward;
  table.products.grouped = asking_nobody::grouped;
  table.products.over_groups = asking_nobody::over_groups;
  return table;
}

}  // namespace hone::test
