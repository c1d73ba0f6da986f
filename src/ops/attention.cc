// Attention within documents: its meaning, its gradient, the choice of kernel.
//
// Letters: N tokens, H query heads, G key/value heads, R = H / G, K head size.
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/attention_between.h"
#include "ops/backend.h"
#include "ops/dropout_words.h"
#include "ops/kept_documents.h"
#include "ops/relative_bias.h"
#include "ops/rope.h"
#include "ops/row_products.h"
#include "ops/visible.h"

namespace hone::ops {
namespace reference {

namespace {

// softmax over the last of four dimensions, of which those from `heads_at` on are groups and the query heads of each.
at::Tensor shares(const at::Tensor& scores, const AttentionOptions& options, std::int64_t heads_at = 0) {
  if (!options.sinks) return scores.softmax(-1);
  std::vector<std::int64_t> sizes(4, 1);
  sizes[heads_at] = scores.size(heads_at), sizes[heads_at + 1] = scores.size(heads_at + 1);
  std::vector<std::int64_t> all = scores.sizes().vec();
  all.back() = 1;
  const at::Tensor sinks = options.sinks->to(scores.scalar_type()).view(sizes).expand(all);
  return at::cat({scores, sinks}, -1).softmax(-1).narrow(-1, 0, scores.size(-1));
}

// kept_HNL: which weights dropout keeps; undefined: all.
at::Tensor attend(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                  const AttentionOptions& options, const at::Tensor& kept_HNL) {
  const auto wide = at::toOpMathType(q_NHK.scalar_type());
  const std::int64_t groups = k_GLK.size(0), queries = q_NHK.size(0), keys = k_GLK.size(1);
  const at::Tensor q = q_NHK.unflatten(1, {groups, -1}).permute({1, 2, 0, 3});  // [G,R,N,K]
  at::Tensor scores = at::matmul(q, k_GLK.unsqueeze(1).transpose(-1, -2)).to(wide) * options.scale;
  if (options.soft_cap > 0) scores = (scores / options.soft_cap).tanh() * options.soft_cap;
  if (options.bias) scores = scores + bias_of(*options.bias, queries, keys).unflatten(0, {groups, -1});
  const at::Tensor seen = visible(queries, keys, options.mask, q.device());
  at::Tensor weights = shares(scores.masked_fill(seen.logical_not(), -INFINITY), options);
  if (kept_HNL.defined()) weights = weights * kept_HNL.unflatten(0, {groups, -1}) / (1 - options.dropout);
  const at::Tensor y = at::matmul(weights.to(q_NHK.scalar_type()), v_GLK.unsqueeze(1));
  return y.permute({2, 0, 1, 3}).flatten(1, 2);
}

// [R,H,C] of rows' newest tokens and what their caches hold.
at::Tensor bias_of_newest(const RelativeBias& bias, const at::Tensor& behind_RC) {
  const at::Tensor places = (bias.zero - behind_RC).clamp(0, bias.bias_HD.size(1) - 1);
  return bias.bias_HD.index_select(1, places.flatten()).unflatten(1, behind_RC.sizes()).transpose(0, 1);
}

// 1 where queries and keys of the document keep their weight, 0 elsewhere.
at::Tensor kept_HNL(const Span& span, const DropoutWords& words, std::int64_t heads, std::int64_t tokens,
                    const AttentionOptions& options) {
  const std::int64_t length = span.end - span.begin;
  const at::Tensor kept = at::empty({heads, length, length}, at::kFloat);
  float* to = kept.mutable_data_ptr<float>();
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t q = span.begin; q < span.end; ++q)
      for (std::int64_t k = span.begin; k < span.end; ++k)
        *to++ = keeps(words.rows[h * tokens + q], words.columns[k], dropout_threshold(options.dropout)) ? 1.f : 0.f;
  return kept;
}

}  // namespace

at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options) {
  return attend(q_NHK, k_GLK, v_GLK, options, {});
}

at::Tensor attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                     const std::vector<Span>& spans, const AttentionOptions& options) {
  std::vector<at::Tensor> parts;
  std::int64_t done = 0;
  const bool drops = options.dropout > 0;
  const std::int64_t tokens = q_NHK.size(0), heads = q_NHK.size(1);
  const DropoutWords words(options.seed, drops ? heads * tokens : 0, drops ? tokens : 0, options.first_head * tokens);
  const auto pad_to = [&](std::int64_t end) {
    if (end > done) parts.push_back(at::zeros_like(q_NHK.slice(0, done, end)));
  };
  for (const Span& span : spans) {
    pad_to(span.begin);
    const auto keys = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end).transpose(0, 1); };
    const at::Tensor kept =
        drops ? kept_HNL(span, words, heads, tokens, options).to(q_NHK.device()) : at::Tensor();
    parts.push_back(attend(q_NHK.slice(0, span.begin, span.end), keys(k_NGK), keys(v_NGK), options, kept));
    done = span.end;
  }
  pad_to(q_NHK.size(0));
  return parts.empty() ? at::zeros_like(q_NHK) : at::cat(parts);
}

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options) {
  const auto wide = at::toOpMathType(q_RHK.scalar_type());
  const std::int64_t groups = k_RGCK.size(1), capacity = k_RGCK.size(2);
  // Beyond what a row holds lies anything, also what is not a number.
  const at::Tensor behind_RC = held_R.unsqueeze(1) - at::arange(capacity, held_R.options());
  at::Tensor seen_RC = behind_RC >= 0;
  if (options.mask.window > 0) seen_RC = seen_RC.logical_and(behind_RC < options.mask.window);
  const at::Tensor hidden_R11C = seen_RC.logical_not().unsqueeze(1).unsqueeze(1), hidden_R1C1 = hidden_R11C.mT();
  const at::Tensor q_RGHK = q_RHK.unflatten(1, {groups, -1}), v = v_RGCK.masked_fill(hidden_R1C1, 0);
  at::Tensor scores = at::matmul(q_RGHK, k_RGCK.mT()).to(wide) * options.scale;
  if (options.soft_cap > 0) scores = (scores / options.soft_cap).tanh() * options.soft_cap;
  if (options.bias) scores = scores + bias_of_newest(*options.bias, behind_RC).unflatten(1, {groups, -1});
  const at::Tensor weights = shares(scores.masked_fill(hidden_R11C, -INFINITY), options, /*heads_at=*/1);
  return at::matmul(weights.to(q_RHK.scalar_type()), v).flatten(1, 2);
}

}  // namespace reference

// A sink adds to what all weights are divided by, and to nothing else.
void add_sinks(Attended& made, const at::Tensor& sinks_H) {
  const at::Tensor lse_HN = at::logaddexp(made.lse_HN, sinks_H.detach().to(made.lse_HN.scalar_type()).unsqueeze(1));
  made.y_NHK.mul_((made.lse_HN - lse_HN).exp_().t().unsqueeze(-1));
  made.lse_HN = lse_HN;
}

namespace {

// -sum over queries of the sink's weight times dy . y: more of it takes from all other weights alike.
at::Tensor sink_gradient(const at::Tensor& dy_NHK, const Attended& result, const at::Tensor& sinks_H) {
  const at::Tensor weight_HN =
      (sinks_H.to(result.lse_HN.scalar_type()).unsqueeze(1) - result.lse_HN).exp_();
  const at::Tensor both_HN = row_products(dy_NHK, result.y_NHK).t();
  return (weight_HN * both_HN).sum(1).neg_().to(sinks_H.scalar_type());
}

// Products of the size of all scores: q k and p v; dy v, and the gradients of q, k and v. That the backward pass makes
// q k again counts nothing, as usual.
constexpr double kForwardProducts = 2, kBackwardProducts = 4;

// Of keys that queries see.
void add_flop(const at::Tensor& q_NHK, const std::vector<Span>& spans, const Mask& mask, double products) {
  if (!sections::running()) return;
  double pairs = 0;
  for (const Span& span : spans) {
    const auto length = static_cast<double>(span.end - span.begin);
    const double window = mask.window > 0 ? std::min(length, static_cast<double>(mask.window)) : length;
    pairs += mask.kind == Mask::Kind::causal ? window * (window + 1) / 2 + (length - window) * window : length * length;
  }
  sections::add_flop(2 * products * pairs * static_cast<double>(q_NHK.size(1) * q_NHK.size(2)));
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& sinks, const Documents& documents,
                            const AttentionOptions& options) {
    const sections::Timed section(sections::Section::attention);
    add_flop(q, documents.counted_spans(), options.mask, kForwardProducts);
    const at::Tensor rows[] = {dense_rows(q), dense_rows(k), dense_rows(v)};
    Attended made = backend_of(q).attention.forward(rows[0], rows[1], rows[2], documents, options);
    if (sinks) add_sinks(made, *sinks);
    ctx->save_for_backward({rows[0], rows[1], rows[2], made.y_NHK, made.lse_HN, sinks.value_or(at::Tensor())});
    ctx->saved_data["documents"] = to_value(documents);
    ctx->saved_data["scale"] = options.scale;
    ctx->saved_data["full"] = options.mask.kind == Mask::Kind::full;
    ctx->saved_data["window"] = options.mask.window;
    ctx->saved_data["soft_cap"] = options.soft_cap;
    ctx->saved_data["dropout"] = options.dropout;
    ctx->saved_data["seed"] = static_cast<std::int64_t>(options.seed);
    ctx->saved_data["first_head"] = options.first_head;
    return made.y_NHK;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const sections::Timed section(sections::Section::attention);
    const Mask mask{ctx->saved_data["full"].toBool() ? Mask::Kind::full : Mask::Kind::causal,
                    ctx->saved_data["window"].toInt()};
    const AttentionOptions options{ctx->saved_data["scale"].toDouble(), mask, ctx->saved_data["soft_cap"].toDouble(),
                                   ctx->saved_data["dropout"].toDouble(),
                                   static_cast<std::uint64_t>(ctx->saved_data["seed"].toInt()),
                                   ctx->saved_data["first_head"].toInt()};
    const Documents documents = to_documents(ctx->saved_data["documents"]);
    const auto kept = ctx->get_saved_variables();
    add_flop(kept[0], documents.counted_spans(), options.mask, kBackwardProducts);
    const AttentionSaved saved{kept[0], kept[1], kept[2], {kept[3], kept[4]}};
    const at::Tensor dy_NHK = dense_rows(grads[0]);
    const AttentionGradients to = backend_of(kept[0]).attention.backward(dy_NHK, saved, documents, options);
    const bool wanted = kept[5].defined() && ctx->needs_input_grad(3);
    return {to.q_NHK, to.k_NGK, to.v_NGK, wanted ? sink_gradient(dy_NHK, saved.result, kept[5]) : at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

// Kernels look at no shapes: what does not fit is the reference's, which says so. groups: the dimension of k and v that
// is their heads.
bool fit(const at::Tensor& q_NHK, const at::Tensor& k, const at::Tensor& v, std::int64_t groups,
         const at::Tensor* sinks) {
  if (sinks && (sinks->sizes() != at::IntArrayRef({q_NHK.size(1)}) || sinks->device() != q_NHK.device())) return false;
  return q_NHK.dim() == 3 && k.dim() >= 3 && k.sizes() == v.sizes() && k.size(-1) == q_NHK.size(2) &&
         k.size(groups) > 0 && q_NHK.size(1) % k.size(groups) == 0;
}

}  // namespace

at::Tensor attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                     const Documents& documents, const AttentionOptions& options) {
  check_tokens("attention", q_NHK.size(0), documents);
  if (options.bias) {
    std::vector<SpanPair> pairs;
    for (const Span& span : documents.spans()) pairs.push_back({span, span});
    return attention_between(q_NHK, k_NGK, v_NGK, pairs, options);
  }
  const bool fits = q_NHK.numel() > 0 && fit(q_NHK, k_NGK, v_NGK, 1, options.sinks) && q_NHK.size(0) == k_NGK.size(0);
  if (!fits || !backend_for({q_NHK, k_NGK, v_NGK}))
    return reference::attention(q_NHK, k_NGK, v_NGK, documents.spans(), options);
  AttentionOptions of_keys = options;
  of_keys.sinks = nullptr;
  const auto sinks_H = options.sinks ? std::optional(*options.sinks) : std::nullopt;
  return AttentionFunction::apply(q_NHK, k_NGK, v_NGK, sinks_H, documents, of_keys);
}

at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options) {
  HONE_ASSERT(options.mask.kind == Mask::Kind::causal);
  const bool fits = q_NHK.numel() > 0 && !options.bias && fit(q_NHK, k_GLK, v_GLK, 0, options.sinks);
  const Backend* backend = fits ? backend_for({q_NHK, k_GLK, v_GLK}) : nullptr;
  if (!backend) return reference::cached_attention(q_NHK, k_GLK, v_GLK, options);
  return backend->attention.cached(dense_rows(q_NHK), dense_rows(k_GLK), dense_rows(v_GLK), options);
}

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options) {
  HONE_ASSERT(held_R.numel() == q_RHK.size(0) && held_R.device() == q_RHK.device());
  HONE_ASSERT(options.mask.kind == Mask::Kind::causal);
  const bool fits = q_RHK.numel() > 0 && !options.bias && fit(q_RHK, k_RGCK, v_RGCK, 1, options.sinks);
  const Backend* backend = fits ? backend_for({q_RHK, k_RGCK, v_RGCK}) : nullptr;
  if (!backend) return reference::decode_attention(q_RHK, k_RGCK, v_RGCK, held_R, options);
  return backend->attention.decode(q_RHK, k_RGCK, v_RGCK, held_R, options);
}

void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs) {
  backend_of(k_NGK).attention.store(k_NGK, v_NGK, to, runs);
}

void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R) {
  backend_of(k_RGK).attention.store_one_each(k_RGK, v_RGK, to, held_R);
}

at::Tensor decode_new_tokens(const NewTokens& tokens, const CacheRoom& room, const at::Tensor& held_R,
                             const AttentionOptions& options) {
  const auto& [q, k, v, rope_table] = tokens;
  const Backend* backend = backend_for({q, k, v, room.k_RGCK, room.v_RGCK});
  if (backend && backend->attention.decode_new && backend_rotates(q, rope_table)) {
    HONE_ASSERT(held_R.numel() == q.size(0) && held_R.device() == q.device());
    HONE_ASSERT(options.mask.kind == Mask::Kind::causal);
    if (at::Tensor y = backend->attention.decode_new(tokens, room, held_R, options); y.defined()) return y;
  }
  const at::Tensor turned = rope(q, rope_table);
  store_one_each(rope(k, rope_table), v, room, held_R);
  return decode_attention(turned, room.k_RGCK, room.v_RGCK, held_R, options);
}

}  // namespace hone::ops
