// Attention in plain ATen, a document at a time, and its gradient by hand: nothing but the result and the logarithms of
// sums is kept.
//
// Letters: N queries, L keys of a document, H query heads, G key/value heads, R = H / G, K head size.
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/dropout_words.h"
#include "ops/reference/table.h"
#include "ops/visible.h"

namespace hone::ops::reference_table {
namespace {

// [N,H,K] -> [G,R,N,K], and back; keys and values [L,G,K] -> [G,1,L,K].
at::Tensor queries_of(const at::Tensor& x_NHK, std::int64_t groups) {
  return widened(x_NHK).unflatten(1, {groups, -1}).permute({1, 2, 0, 3});
}
at::Tensor from_queries(const at::Tensor& x_GRNK, at::ScalarType type) {
  return x_GRNK.permute({2, 0, 1, 3}).flatten(1, 2).to(type);
}
at::Tensor keys_of(const at::Tensor& x_LGK) { return widened(x_LGK).transpose(0, 1).unsqueeze(1); }

// Scores of queries with keys, scaled and capped, -inf where the mask hides.
at::Tensor scores(const at::Tensor& q_GRNK, const at::Tensor& k_G1LK, const AttentionOptions& options) {
  at::Tensor s = at::matmul(q_GRNK, k_G1LK.transpose(-1, -2)) * options.scale;
  if (options.soft_cap > 0) s = (s / options.soft_cap).tanh() * options.soft_cap;
  const at::Tensor seen = reference::visible(s.size(2), s.size(3), options.mask, s.device());
  return s.masked_fill(seen.logical_not(), -INFINITY);
}

// What dropout makes of a document's weights: 0 or 1 / (1 - rate). Undefined: nothing.
class Shares {
 public:
  Shares(const AttentionOptions& options, const at::Tensor& q_NHK)
      : rate_(options.dropout),
        tokens_(q_NHK.size(0)),
        heads_(q_NHK.size(1)),
        words_(options.seed, rate_ > 0 ? heads_ * tokens_ : 0, rate_ > 0 ? tokens_ : 0,
               options.first_head * tokens_) {}

  at::Tensor of(const Span& span, const at::Tensor& like_GRNL) const {
    if (rate_ == 0) return {};
    const std::int64_t length = span.end - span.begin;
    std::vector<at::Tensor> all;
    for (std::int64_t h = 0; h < heads_; ++h)
      all.push_back(kept(words_.rows, {h * tokens_ + span.begin, length}, words_.columns, {span.begin, length}, rate_,
                         like_GRNL));
    return at::stack(all).view_as(like_GRNL) / (1 - rate_);
  }

 private:
  double rate_;
  std::int64_t tokens_, heads_;
  DropoutWords words_;
};

at::Tensor shared(const at::Tensor& x, const at::Tensor& share) { return share.defined() ? x * share : x; }

Attended forward(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                 const Documents& documents, const AttentionOptions& options) {
  const Shares shares(options, q_NHK);
  const auto wide = q_NHK.options().dtype(at::toOpMathType(q_NHK.scalar_type()));
  Attended made{at::zeros_like(q_NHK, at::MemoryFormat::Contiguous), at::zeros({q_NHK.size(1), q_NHK.size(0)}, wide)};
  for (const Span& span : documents.spans()) {
    if (span.end <= span.begin) continue;
    const auto part = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
    const at::Tensor s = scores(queries_of(part(q_NHK), k_NGK.size(1)), keys_of(part(k_NGK)), options);
    const at::Tensor lse = s.logsumexp(-1, /*keepdim=*/true), p = (s - lse).exp();
    const at::Tensor y = at::matmul(shared(p, shares.of(span, p)), keys_of(part(v_NGK)));
    part(made.y_NHK).copy_(from_queries(y, q_NHK.scalar_type()));
    made.lse_HN.slice(1, span.begin, span.end).copy_(lse.flatten(0, 1).squeeze(-1));
  }
  return made;
}

AttentionGradients backward(const at::Tensor& dy_NHK, const AttentionSaved& saved, const Documents& documents,
                            const AttentionOptions& options) {
  const Shares shares(options, saved.q_NHK);
  const std::int64_t groups = saved.k_NGK.size(1);
  const auto zeros = [](const at::Tensor& x) { return at::zeros_like(x, at::MemoryFormat::Contiguous); };
  AttentionGradients made{zeros(saved.q_NHK), zeros(saved.k_NGK), zeros(saved.v_NGK)};
  for (const Span& span : documents.spans()) {
    if (span.end <= span.begin) continue;
    const auto part = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
    const at::Tensor q = queries_of(part(saved.q_NHK), groups), dy = queries_of(part(dy_NHK), groups);
    const at::Tensor k = keys_of(part(saved.k_NGK)), v = keys_of(part(saved.v_NGK));
    const at::Tensor s = scores(q, k, options);
    const at::Tensor lse = saved.result.lse_HN.slice(1, span.begin, span.end).unflatten(0, {groups, -1}).unsqueeze(-1);
    const at::Tensor p = (s - lse).exp(), share = shares.of(span, p);
    const at::Tensor dp = shared(at::matmul(dy, v.transpose(-1, -2)), share);
    // By the result, which may be of more keys than these documents show (ops/attention_mutual.h).
    const at::Tensor both = (dy * queries_of(part(saved.result.y_NHK), groups)).sum(-1, /*keepdim=*/true);
    at::Tensor ds = p * (dp - both);
    if (options.soft_cap > 0) ds = ds * (1 - (s.masked_fill(s.isinf(), 0) / options.soft_cap).square());
    ds = ds * options.scale;
    const auto to_keys = [&](const at::Tensor& weights, const at::Tensor& x) {
      return at::matmul(weights.transpose(-1, -2), x).sum(1).transpose(0, 1).to(dy_NHK.scalar_type());
    };
    part(made.q_NHK).copy_(from_queries(at::matmul(ds, k), dy_NHK.scalar_type()));
    part(made.k_NGK).copy_(to_keys(ds, q));
    part(made.v_NGK).copy_(to_keys(shared(p, share), dy));
  }
  return made;
}

void store(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to, const std::vector<CacheRun>& runs) {
  const auto copy = [](const at::Tensor& from_NGK, const at::Tensor& to_RGCK, const CacheRun& run) {
    to_RGCK.select(0, run.row)
        .narrow(1, run.at, run.count)
        .copy_(from_NGK.narrow(0, run.first, run.count).transpose(0, 1));
  };
  for (const CacheRun& run : runs) {
    copy(k_NGK, to.k_RGCK, run);
    copy(v_NGK, to.v_RGCK, run);
  }
}

void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R) {
  const at::Tensor places_RG1K = held_R.view({-1, 1, 1, 1}).expand({-1, k_RGK.size(1), 1, k_RGK.size(2)});
  to.k_RGCK.scatter_(2, places_RG1K, k_RGK.unsqueeze(2));
  to.v_RGCK.scatter_(2, places_RG1K, v_RGK.unsqueeze(2));
}

}  // namespace

Backend::Attention attention() {
  return {forward,        backward, reference::cached_attention, reference::decode_attention, store,
          store_one_each};
}

}  // namespace hone::ops::reference_table
