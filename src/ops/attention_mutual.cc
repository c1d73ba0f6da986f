// Attention of tokens that see each other: the device's own of what is causal, and beside it in plain ATen what tokens
// see of those behind them. Two parts of a softmax become one by the logarithms of their sums; gradients of both go by
// the whole's.
//
// Letters: N tokens, P spans of one length, S tokens of each, H query heads, G key/value heads, R = H / G, K head size.
#include "ops/attention_mutual.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <map>
#include <utility>
#include <vector>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/dropout_words.h"
#include "ops/kept_documents.h"
#include "ops/kernels.h"
#include "ops/reference/table.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops {
namespace {

using reference_table::widened;

// Spans of one length, and where their tokens are.
struct Alike {
  std::int64_t length = 0;
  std::vector<std::int64_t> begins;
  at::Tensor places_M;  // M = P S, on the device
};
struct AlikeSpans {
  std::vector<Alike> all;
};

const std::vector<Alike>& alike(const Documents& mutual, at::Device device) {
  return mutual
      .kept([&] {
        std::map<std::int64_t, std::vector<std::int64_t>> by_length;
        for (const Span& span : mutual.spans()) by_length[span.end - span.begin].push_back(span.begin);
        AlikeSpans made;
        for (const auto& [length, begins] : by_length) {
          if (length < 2) continue;  // nothing is behind
          const at::Tensor first = host::tensor_of(begins, {std::ssize(begins)}).unsqueeze(1);
          const at::Tensor places = (first + at::arange(length, at::kLong)).flatten();
          made.all.push_back({length, begins, devices::sent(places, device)});
        }
        return made;
      })
      .all;
}

// Of the tokens of such spans [P,G,R,S,K], of keys [P,G,1,S,K], in fp32 at least; and back.
at::Tensor span_queries(const at::Tensor& x_NHK, const Alike& spans, std::int64_t groups) {
  return widened(x_NHK.index_select(0, spans.places_M))
      .unflatten(0, {-1, spans.length})
      .unflatten(2, {groups, -1})
      .permute({0, 2, 3, 1, 4});
}
at::Tensor span_keys(const at::Tensor& x_NGK, const Alike& spans) {
  return widened(x_NGK.index_select(0, spans.places_M))
      .unflatten(0, {-1, spans.length})
      .permute({0, 2, 1, 3})
      .unsqueeze(2);
}
at::Tensor tokens_of(const at::Tensor& x_PGRSK) { return x_PGRSK.permute({0, 3, 1, 2, 4}).flatten(2, 3).flatten(0, 1); }

// [P,G,R,S,1] of lse_HN.
at::Tensor span_sums(const at::Tensor& lse_HN, const Alike& spans, std::int64_t groups) {
  return lse_HN.index_select(1, spans.places_M)
      .unflatten(1, {-1, spans.length})
      .unflatten(0, {groups, -1})
      .permute({2, 0, 1, 3})
      .unsqueeze(-1);
}

// With keys behind the query; -inf with all others.
at::Tensor scores_behind(const at::Tensor& q_PGRSK, const at::Tensor& k_PG1SK, double scale) {
  const at::Tensor s = at::matmul(q_PGRSK, k_PG1SK.transpose(-1, -2)) * scale;
  const at::Tensor hidden = at::ones({s.size(-1), s.size(-1)}, s.options().dtype(at::kBool)).tril();
  return s.masked_fill(hidden, -INFINITY);
}

// What dropout makes of weights: 0 or 1 / (1 - rate), as attention() does at the same places. Undefined: nothing.
class SpanShares {
 public:
  SpanShares(const AttentionOptions& options, const at::Tensor& q_NHK)
      : rate_(options.dropout),
        tokens_(q_NHK.size(0)),
        heads_(q_NHK.size(1)),
        words_(options.seed, rate_ > 0 ? heads_ * tokens_ : 0, rate_ > 0 ? tokens_ : 0, options.first_head * tokens_) {}

  at::Tensor of(const Alike& spans, const at::Tensor& like_PGRSS) const {
    if (rate_ == 0) return {};
    if (like_PGRSS.is_meta()) return at::empty_like(like_PGRSS);
    std::vector<at::Tensor> all;
    for (const std::int64_t begin : spans.begins)
      for (std::int64_t h = 0; h < heads_; ++h)
        all.push_back(reference_table::kept(words_.rows, {h * tokens_ + begin, spans.length}, words_.columns,
                                            {begin, spans.length}, rate_, like_PGRSS));
    return at::stack(all).view(like_PGRSS.sizes()) / (1 - rate_);
  }

 private:
  double rate_;
  std::int64_t tokens_, heads_;
  DropoutWords words_;
};

at::Tensor dropped(const at::Tensor& x, const at::Tensor& share) { return share.defined() ? x * share : x; }

// Half of all pairs of a span's tokens.
void count_mutual_flop(const at::Tensor& q_NHK, const Documents& mutual, double products) {
  if (!sections::running()) return;
  double pairs = 0;
  for (const Span& span : mutual.counted_spans()) {
    const auto length = static_cast<double>(span.end - span.begin);
    pairs += length * (length - 1) / 2;
  }
  sections::add_flop(2 * products * pairs * static_cast<double>(q_NHK.size(1) * q_NHK.size(2)));
}

// Makes y and the sums' logarithms those of all that the spans' tokens see.
void add_behind(Attended& made, const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                const Alike& spans, const AttentionOptions& options, const SpanShares& shares) {
  const std::int64_t groups = k_NGK.size(1);
  const at::Tensor s = scores_behind(span_queries(q_NHK, spans, groups), span_keys(k_NGK, spans), options.scale);
  const at::Tensor before = span_sums(made.lse_HN, spans, groups);
  const at::Tensor whole = at::logaddexp(before, s.logsumexp(-1, /*keepdim=*/true));
  const at::Tensor p = (s - whole).exp();
  const at::Tensor y = span_queries(made.y_NHK, spans, groups) * (before - whole).exp() +
                       at::matmul(dropped(p, shares.of(spans, p)), span_keys(v_NGK, spans));
  made.y_NHK.index_copy_(0, spans.places_M, tokens_of(y).to(made.y_NHK.scalar_type()));
  made.lse_HN.index_copy_(1, spans.places_M, whole.squeeze(-1).permute({1, 2, 0, 3}).flatten(2, 3).flatten(0, 1));
}

void add_at(const at::Tensor& to_N, const Alike& spans, const at::Tensor& more_M) {
  const at::Tensor sum = widened(to_N.index_select(0, spans.places_M)) + more_M;
  to_N.index_copy_(0, spans.places_M, sum.to(to_N.scalar_type()));
}

void add_gradients_behind(const AttentionGradients& to, const at::Tensor& dy_NHK, const AttentionSaved& saved,
                          const Alike& spans, const AttentionOptions& options, const SpanShares& shares) {
  const std::int64_t groups = saved.k_NGK.size(1);
  const at::Tensor q = span_queries(saved.q_NHK, spans, groups), dy = span_queries(dy_NHK, spans, groups);
  const at::Tensor k = span_keys(saved.k_NGK, spans), v = span_keys(saved.v_NGK, spans);
  const at::Tensor p = (scores_behind(q, k, options.scale) - span_sums(saved.result.lse_HN, spans, groups)).exp();
  const at::Tensor share = shares.of(spans, p);
  const at::Tensor both = (dy * span_queries(saved.result.y_NHK, spans, groups)).sum(-1, /*keepdim=*/true);
  const at::Tensor ds = p * (dropped(at::matmul(dy, v.transpose(-1, -2)), share) - both) * options.scale;
  const auto to_keys = [](const at::Tensor& weights, const at::Tensor& x) {  // summed over the heads of a group
    return at::matmul(weights.transpose(-1, -2), x).sum(2).permute({0, 2, 1, 3}).flatten(0, 1);
  };
  add_at(to.q_NHK, spans, tokens_of(at::matmul(ds, k)));
  add_at(to.k_NGK, spans, to_keys(ds, q));
  add_at(to.v_NGK, spans, to_keys(dropped(p, share), dy));
}

// What forward and backward look at besides tensors.
struct Mutual : torch::CustomClassHolder {
  Mutual(const Documents& documents, const Documents& mutual, const AttentionOptions& options, const Backend& backend)
      : documents(documents), mutual(mutual), options(options), backend(backend) {}
  const Documents documents, mutual;
  const AttentionOptions options;
  const Backend& backend;
};

class AttentionMutual : public torch::autograd::Function<AttentionMutual> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const c10::intrusive_ptr<Mutual>& how) {
    const sections::Timed section(sections::Section::attention);
    constexpr double kProducts = 2;  // q k and p v
    count_mutual_flop(q, how->mutual, kProducts);
    const at::Tensor rows[] = {dense_rows(q), dense_rows(k), dense_rows(v)};
    Attended made = how->backend.attention.forward(rows[0], rows[1], rows[2], how->documents, how->options);
    const SpanShares shares(how->options, q);
    for (const Alike& spans : alike(how->mutual, q.device()))
      add_behind(made, rows[0], rows[1], rows[2], spans, how->options, shares);
    ctx->save_for_backward({rows[0], rows[1], rows[2], made.y_NHK, made.lse_HN});
    ctx->saved_data["how"] = c10::IValue::make_capsule(how);
    return made.y_NHK;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    constexpr double kProducts = 4;  // dy v, and the gradients of q, k and v
    const auto how = c10::static_intrusive_pointer_cast<Mutual>(ctx->saved_data["how"].toCapsule());
    const auto kept = ctx->get_saved_variables();
    count_mutual_flop(kept[0], how->mutual, kProducts);
    const AttentionSaved saved{kept[0], kept[1], kept[2], {kept[3], kept[4]}};
    const at::Tensor dy_NHK = dense_rows(grads[0]);
    const AttentionGradients to = how->backend.attention.backward(dy_NHK, saved, how->documents, how->options);
    const SpanShares shares(how->options, kept[0]);
    for (const Alike& spans : alike(how->mutual, dy_NHK.device()))
      add_gradients_behind(to, dy_NHK, saved, spans, how->options, shares);
    return {to.q_NHK, to.k_NGK, to.v_NGK, at::Tensor()};
  }
};

}  // namespace

at::Tensor attention_mutual(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                            const Documents& documents, const Documents& mutual, const AttentionOptions& options) {
  HONE_ASSERT(options.mask.kind == Mask::Kind::causal && options.soft_cap == 0 && !options.sinks && !options.bias);
  HONE_ASSERT(q_NHK.dim() == 3 && k_NGK.dim() == 3 && k_NGK.sizes() == v_NGK.sizes() && k_NGK.size(1) > 0);
  HONE_ASSERT(q_NHK.size(2) == k_NGK.size(2) && q_NHK.size(0) == k_NGK.size(0) && q_NHK.size(1) % k_NGK.size(1) == 0);
  if (q_NHK.numel() == 0) return at::zeros_like(q_NHK);
  const Backend* backend = backend_for({q_NHK, k_NGK, v_NGK});
  return AttentionMutual::apply(
      q_NHK, k_NGK, v_NGK,
      c10::make_intrusive<Mutual>(documents, mutual, options, backend ? *backend : reference_backend()));
}

}  // namespace hone::ops
