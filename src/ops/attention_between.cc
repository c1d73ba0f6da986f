// Attention of pairs of spans: its meaning, and its gradient by hand.
//
// Letters: N queries, L keys, H query heads, G key/value heads, R = H / G, K head size, D distances.
#include "ops/attention_between.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/dropout_words.h"
#include "ops/reference/table.h"
#include "ops/relative_bias.h"
#include "ops/visible.h"

namespace hone::ops {
namespace {

std::int64_t length_of(const Span& span) { return span.end - span.begin; }
at::Tensor part_of(const at::Tensor& x, const Span& span) { return x.slice(0, span.begin, span.end); }

// [N,H,K] -> [G,R,N,K], and back; keys and values [L,G,K] -> [G,1,L,K]. In fp32 at least.
at::Tensor by_group(const at::Tensor& x_NHK, std::int64_t groups) {
  return reference_table::widened(x_NHK).unflatten(1, {groups, -1}).permute({1, 2, 0, 3});
}
at::Tensor by_token(const at::Tensor& x_GRNK) { return x_GRNK.permute({2, 0, 1, 3}).flatten(1, 2); }
at::Tensor keys_by_group(const at::Tensor& x_LGK) {
  return reference_table::widened(x_LGK).transpose(0, 1).unsqueeze(1);
}

// Of scores of queries with keys, -inf where the mask hides.
at::Tensor scores_between(const at::Tensor& q_GRNK, const at::Tensor& k_G1LK, const AttentionOptions& options) {
  at::Tensor s = at::matmul(q_GRNK, k_G1LK.transpose(-1, -2)) * options.scale;
  if (options.bias)
    s = s + reference_table::widened(bias_of(*options.bias, s.size(2), s.size(3))).unflatten(0, {s.size(0), -1});
  if (options.mask.kind == Mask::Kind::full && options.mask.window == 0) return s;
  const at::Tensor seen = reference::visible(s.size(2), s.size(3), options.mask, s.device());
  return s.masked_fill(seen.logical_not(), -INFINITY);
}

// What dropout makes of a pair's weights: 0 or 1 / (1 - rate). Undefined: nothing.
class SharesBetween {
 public:
  SharesBetween(const AttentionOptions& options, const at::Tensor& q_NHK, std::int64_t keys)
      : rate_(options.dropout),
        queries_(q_NHK.size(0)),
        heads_(q_NHK.size(1)),
        words_(options.seed, rate_ > 0 ? heads_ * queries_ : 0, rate_ > 0 ? keys : 0,
               options.first_head * queries_) {}

  at::Tensor of(const SpanPair& pair, const at::Tensor& like_GRNL) const {
    if (rate_ == 0) return {};
    if (like_GRNL.is_meta()) return at::empty_like(like_GRNL);
    std::vector<at::Tensor> all;
    for (std::int64_t h = 0; h < heads_; ++h)
      all.push_back(reference_table::kept(words_.rows, {h * queries_ + pair.queries.begin, length_of(pair.queries)},
                                          words_.columns, {pair.keys.begin, length_of(pair.keys)}, rate_, like_GRNL));
    return at::stack(all).view_as(like_GRNL) / (1 - rate_);
  }

 private:
  double rate_;
  std::int64_t queries_, heads_;
  DropoutWords words_;
};

at::Tensor with_share(const at::Tensor& x, const at::Tensor& share) { return share.defined() ? x * share : x; }

bool is_empty(const SpanPair& pair) { return length_of(pair.queries) <= 0 || length_of(pair.keys) <= 0; }

// products: of the size of all scores, that queries see.
void count_flop(const at::Tensor& q_NHK, const std::vector<SpanPair>& pairs, const Mask& mask, double products) {
  if (!sections::running()) return;
  double seen = 0;
  for (const SpanPair& pair : pairs) {
    const auto queries = static_cast<double>(length_of(pair.queries)), keys = static_cast<double>(length_of(pair.keys));
    seen += mask.kind == Mask::Kind::causal ? queries * (keys - (queries - 1) / 2) : queries * keys;
  }
  sections::add_flop(2 * products * seen * static_cast<double>(q_NHK.size(1) * q_NHK.size(2)));
}

// What forward and backward look at besides tensors.
struct Between : torch::CustomClassHolder {
  Between(std::vector<SpanPair> pairs, const AttentionOptions& options, std::int64_t zero)
      : pairs(std::move(pairs)), options(options), zero(zero) {
    this->options.bias = nullptr;
  }
  const std::vector<SpanPair> pairs;
  AttentionOptions options;
  const std::int64_t zero;  // RelativeBias
};

class AttentionBetween : public torch::autograd::Function<AttentionBetween> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q_NHK, const at::Tensor& k_LGK,
                            const at::Tensor& v_LGK, const std::optional<at::Tensor>& bias_HD,
                            const c10::intrusive_ptr<Between>& how) {
    const sections::Timed section(sections::Section::attention);
    constexpr double kProducts = 2;  // q k and p v
    count_flop(q_NHK, how->pairs, how->options.mask, kProducts);
    const SharesBetween shares(how->options, q_NHK, k_LGK.size(0));
    const RelativeBias bias{bias_HD.value_or(at::Tensor()), how->zero};
    const AttentionOptions options = with(*how, bias);
    const auto wide = q_NHK.options().dtype(at::toOpMathType(q_NHK.scalar_type()));
    const at::Tensor y_NHK = at::zeros(q_NHK.sizes(), q_NHK.options());
    const at::Tensor lse_HN = at::zeros({q_NHK.size(1), q_NHK.size(0)}, wide);
    for (const SpanPair& pair : how->pairs) {
      if (is_empty(pair)) continue;
      const at::Tensor s = scores_between(by_group(part_of(q_NHK, pair.queries), k_LGK.size(1)),
                                          keys_by_group(part_of(k_LGK, pair.keys)), options);
      const at::Tensor lse = s.logsumexp(-1, /*keepdim=*/true), p = (s - lse).exp();
      const at::Tensor y = at::matmul(with_share(p, shares.of(pair, p)), keys_by_group(part_of(v_LGK, pair.keys)));
      part_of(y_NHK, pair.queries).copy_(by_token(y));
      lse_HN.slice(1, pair.queries.begin, pair.queries.end).copy_(lse.flatten(0, 1).squeeze(-1));
    }
    ctx->save_for_backward({q_NHK, k_LGK, v_LGK, lse_HN, bias.bias_HD});
    ctx->saved_data["how"] = c10::IValue::make_capsule(how);
    return y_NHK;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    constexpr double kProducts = 4;  // dy v, and the gradients of q, k and v
    const auto how = c10::static_intrusive_pointer_cast<Between>(ctx->saved_data["how"].toCapsule());
    const auto kept = ctx->get_saved_variables();
    const at::Tensor &q_NHK = kept[0], &k_LGK = kept[1], &v_LGK = kept[2], &lse_HN = kept[3];
    count_flop(q_NHK, how->pairs, how->options.mask, kProducts);
    const SharesBetween shares(how->options, q_NHK, k_LGK.size(0));
    const RelativeBias bias{kept[4], how->zero};
    const AttentionOptions options = with(*how, bias);
    const std::int64_t groups = k_LGK.size(1);
    const auto zeros = [](const at::Tensor& x) { return at::zeros(x.sizes(), x.options()); };
    const at::Tensor dq = zeros(q_NHK), dk = zeros(k_LGK), dv = zeros(v_LGK);
    RelativeBias dbias{{}, how->zero};
    if (kept[4].defined()) dbias.bias_HD = at::zeros(kept[4].sizes(), lse_HN.options());
    for (const SpanPair& pair : how->pairs) {
      if (is_empty(pair)) continue;
      const at::Tensor q = by_group(part_of(q_NHK, pair.queries), groups),
                       dy = by_group(part_of(grads[0], pair.queries), groups);
      const at::Tensor k = keys_by_group(part_of(k_LGK, pair.keys)), v = keys_by_group(part_of(v_LGK, pair.keys));
      const at::Tensor lse = lse_HN.slice(1, pair.queries.begin, pair.queries.end).unflatten(0, {groups, -1});
      const at::Tensor p = (scores_between(q, k, options) - lse.unsqueeze(-1)).exp(), share = shares.of(pair, p);
      const at::Tensor dp = with_share(at::matmul(dy, v.transpose(-1, -2)), share);
      const at::Tensor ds = p * (dp - (dp * p).sum(-1, /*keepdim=*/true));
      if (dbias.bias_HD.defined()) add_by_distance(ds.flatten(0, 1), dbias);
      const at::Tensor scaled = ds * options.scale;
      const auto to_keys = [](const at::Tensor& weights, const at::Tensor& x) {
        return at::matmul(weights.transpose(-1, -2), x).sum(1).transpose(0, 1);
      };
      part_of(dq, pair.queries).copy_(by_token(at::matmul(scaled, k)));
      part_of(dk, pair.keys).add_(to_keys(scaled, q));  // several may read the same keys
      part_of(dv, pair.keys).add_(to_keys(with_share(p, share), dy));
    }
    return {dq, dk, dv, dbias.bias_HD.defined() ? dbias.bias_HD.to(kept[4].scalar_type()) : at::Tensor(), at::Tensor()};
  }

 private:
  static AttentionOptions with(const Between& how, const RelativeBias& bias) {
    AttentionOptions options = how.options;
    if (bias.bias_HD.defined()) options.bias = &bias;
    return options;
  }
};

}  // namespace

at::Tensor attention_between(const at::Tensor& q_NHK, const at::Tensor& k_LGK, const at::Tensor& v_LGK,
                             const std::vector<SpanPair>& pairs, const AttentionOptions& options) {
  HONE_ASSERT(options.soft_cap == 0 && !options.sinks);
  const auto bias_HD = options.bias ? std::optional(options.bias->bias_HD) : std::nullopt;
  return AttentionBetween::apply(q_NHK, k_LGK, v_LGK, bias_HD,
                                 c10::make_intrusive<Between>(pairs, options, options.bias ? options.bias->zero : 0));
}

}  // namespace hone::ops
