// Attention within documents: its meaning, and the same by LibTorch's flash attention on each document's slice.
//
// Letters: N tokens, H query heads, G key/value heads, R = H / G, K head size, S equal documents side by side, T their
// length.
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <map>

#include "hone/error.h"
#include "ops/kernels.h"

namespace hone::ops {
namespace {

// Which of keys [k0, k0 + keys) queries [q0, q0 + queries) may see.
at::Tensor visible(std::int64_t queries, std::int64_t keys, std::int64_t ahead, std::int64_t window,
                   at::Device device) {
  const at::Tensor q = at::arange(queries, at::TensorOptions(device).dtype(at::kLong)).unsqueeze(1) + ahead;
  const at::Tensor k = at::arange(keys, at::TensorOptions(device).dtype(at::kLong)).unsqueeze(0);
  const at::Tensor causal = k <= q;
  return window > 0 ? causal.logical_and(k > q - window) : causal;
}

at::Tensor mask_of(std::int64_t queries, std::int64_t keys, std::int64_t ahead, std::int64_t window,
                   const at::Tensor& like) {
  const at::Tensor seen = visible(queries, keys, ahead, window, like.device());
  return at::zeros({queries, keys}, like.options())
      .masked_fill_(seen.logical_not(), -INFINITY)
      .unsqueeze(0)
      .unsqueeze(0);
}

}  // namespace

namespace reference {

at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options) {
  const auto wide = at::toOpMathType(q_NHK.scalar_type());
  const std::int64_t groups = k_GLK.size(0), queries = q_NHK.size(0), keys = k_GLK.size(1);
  const at::Tensor q = q_NHK.unflatten(1, {groups, -1}).permute({1, 2, 0, 3});  // [G,R,N,K]
  at::Tensor scores = at::matmul(q, k_GLK.unsqueeze(1).transpose(-1, -2)).to(wide) * options.scale;
  const at::Tensor seen = visible(queries, keys, keys - queries, options.window, q.device());
  scores = scores.masked_fill(seen.logical_not(), -INFINITY);
  const at::Tensor y = at::matmul(scores.softmax(-1).to(q_NHK.scalar_type()), v_GLK.unsqueeze(1));
  return y.permute({2, 0, 1, 3}).flatten(1, 2);
}

at::Tensor attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                     const std::vector<Span>& spans, const AttentionOptions& options) {
  std::vector<at::Tensor> parts;
  std::int64_t done = 0;
  const auto pad_to = [&](std::int64_t end) {
    if (end > done) parts.push_back(at::zeros_like(q_NHK.slice(0, done, end)));
  };
  for (const Span& span : spans) {
    pad_to(span.begin);
    const auto keys = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end).transpose(0, 1); };
    parts.push_back(
        reference::cached_attention(q_NHK.slice(0, span.begin, span.end), keys(k_NGK), keys(v_NGK), options));
    done = span.end;
  }
  pad_to(q_NHK.size(0));
  return parts.empty() ? at::zeros_like(q_NHK) : at::cat(parts);
}

at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const std::vector<std::int64_t>& lengths, const AttentionOptions& options) {
  std::vector<at::Tensor> rows;
  for (std::int64_t r = 0; r < q_RHK.size(0); ++r)
    rows.push_back(reference::cached_attention(q_RHK.slice(0, r, r + 1), k_RGCK[r].slice(1, 0, lengths[r]),
                                               v_RGCK[r].slice(1, 0, lengths[r]), options));
  return rows.empty() ? at::zeros_like(q_RHK) : at::cat(rows);
}

}  // namespace reference

namespace {

// One call of the library's attention: `count` documents of `queries` tokens side by side, or (count 1) a block of
// queries of a document with the keys that its window reaches.
struct Piece {
  std::int64_t q0 = 0, queries = 0, k0 = 0, keys = 0, count = 1;
  bool masked = false;
};
// Pieces that write to the same keys: they are worked on by one thread, in order.
using Unit = std::vector<Piece>;

Unit windowed(const Span& span, std::int64_t window) {
  const std::int64_t block = std::clamp<std::int64_t>(window, 64, 256);
  Unit unit;
  for (std::int64_t q0 = span.begin; q0 < span.end; q0 += block) {
    const std::int64_t q1 = std::min(span.end, q0 + block), k0 = std::max(span.begin, q0 - window + 1);
    unit.push_back({q0, q1 - q0, k0, q1 - k0, 1, true});
  }
  return unit;
}

std::vector<Unit> units_of(const std::vector<Span>& spans, std::int64_t window) {
  std::vector<Unit> units;
  for (const Span& span : spans) {
    const std::int64_t length = span.end - span.begin;
    if (length <= 0) continue;
    if (window > 0 && length > window) {
      units.push_back(windowed(span, window));
      continue;
    }
    Piece* last = units.empty() || units.back().size() != 1 ? nullptr : &units.back()[0];
    const bool joins =
        last && !last->masked && last->queries == length && last->q0 + last->count * length == span.begin;
    if (joins)
      ++last->count;
    else
      units.push_back({{span.begin, length, span.begin, length, 1, false}});
  }
  return units;
}

// Masks of windowed blocks by (queries, keys, how far the first query is ahead of the first key).
class Masks {
 public:
  Masks(const std::vector<Unit>& units, std::int64_t window, const at::Tensor& like) {
    for (const Unit& unit : units)
      for (const Piece& piece : unit)
        if (piece.masked && !masks_.contains(key(piece)))
          masks_[key(piece)] = mask_of(piece.queries, piece.keys, piece.q0 - piece.k0, window, like);
  }
  std::optional<at::Tensor> of(const Piece& piece) const {
    return piece.masked ? std::optional(masks_.at(key(piece))) : std::nullopt;
  }

 private:
  using Key = std::array<std::int64_t, 3>;
  static Key key(const Piece& piece) { return {piece.queries, piece.keys, piece.q0 - piece.k0}; }
  std::map<Key, at::Tensor> masks_;
};

// The slices of a piece as [batch, heads, tokens, K]: one document takes key heads as the batch (no copy of shared
// heads), several take themselves.
at::Tensor query_view(const at::Tensor& x_NHK, const Piece& p, std::int64_t groups) {
  const at::Tensor s = x_NHK.narrow(0, p.q0, p.queries * p.count);
  const std::int64_t heads = s.size(1), size = s.size(2);
  return p.count == 1 ? s.view({p.queries, groups, heads / groups, size}).permute({1, 2, 0, 3})
                      : s.view({p.count, p.queries, heads, size}).transpose(1, 2);
}
at::Tensor key_view(const at::Tensor& x_NGK, const Piece& p, std::int64_t heads) {
  const std::int64_t groups = x_NGK.size(1), size = x_NGK.size(2), shared = heads / groups;
  const at::Tensor s = x_NGK.narrow(0, p.k0, p.keys * p.count).view({p.count, p.keys, groups, 1, size});
  const at::Tensor wide = s.expand({p.count, p.keys, groups, shared, size});
  return p.count == 1 ? wide[0].permute({1, 2, 0, 3}) : wide.reshape({p.count, p.keys, heads, size}).transpose(1, 2);
}
// Adds a gradient shaped as key_view gave it, summed over the query heads that share a key head.
void add_key_gradient(const at::Tensor& gradient, const Piece& p, bool first, at::Tensor& into_NGK) {
  const std::int64_t groups = into_NGK.size(1), size = into_NGK.size(2);
  const at::Tensor to =
      into_NGK.narrow(0, p.k0, p.keys * p.count).view({p.count, p.keys, groups, size}).transpose(1, 2);
  const at::Tensor by_group = gradient.reshape({p.count, groups, -1, p.keys, size});  // [S,G,R,T,K]
  const at::Tensor from = by_group.size(2) == 1 ? by_group.squeeze(2) : by_group.sum(2);
  first ? to.copy_(from) : to.add_(from);
}
at::Tensor lse_view(const at::Tensor& lse_NH, const Piece& p, std::int64_t groups) {
  return query_view(lse_NH.unsqueeze(-1), p, groups).squeeze(-1);
}

// Runs work(unit) for all of them: side by side when there are enough, else one after the other with threads inside.
template <class Work>
void for_each_unit(const std::vector<Unit>& units, Work&& work) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;  // a thread-local setting: needed in each thread
    for (std::int64_t i = begin; i < end; ++i) work(units[i]);
  };
  const auto count = static_cast<std::int64_t>(units.size());
  if (count >= 4 * at::get_num_threads())
    at::parallel_for(0, count, 1, run);
  else
    run(0, count);
}

bool covers_all(const std::vector<Span>& spans, std::int64_t tokens) {
  std::int64_t covered = 0;
  for (const Span& span : spans) covered += std::max<std::int64_t>(0, span.end - span.begin);
  return covered == tokens;
}

std::vector<Span> spans_from(const std::vector<std::int64_t>& flat) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) spans.push_back({flat[i], flat[i + 1]});
  return spans;
}

struct Attended {
  at::Tensor y_NHK, lse_NH;
};

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::vector<Span>& spans,
                const AttentionOptions& options) {
  const std::int64_t heads = q.size(1), groups = k.size(1);
  const std::vector<Unit> units = units_of(spans, options.window);
  const Masks masks(units, options.window, q);
  Attended made;
  made.y_NHK = covers_all(spans, q.size(0)) ? at::empty_like(q) : at::zeros_like(q);
  made.lse_NH = at::empty({q.size(0), heads}, q.options().dtype(at::toOpMathType(q.scalar_type())));
  for_each_unit(units, [&](const Unit& unit) {
    for (const Piece& p : unit) {
      const auto [y, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          query_view(q, p, groups), key_view(k, p, heads), key_view(v, p, heads), /*dropout_p=*/0.0, !p.masked,
          masks.of(p), options.scale);
      query_view(made.y_NHK, p, groups).copy_(y);
      lse_view(made.lse_NH, p, groups).copy_(lse);
    }
  });
  return made;
}

struct Gradients {
  at::Tensor q_NHK, k_NGK, v_NGK;
};

Gradients attend_backward(const at::Tensor& dy, const torch::autograd::variable_list& saved,
                          const std::vector<Span>& spans, const AttentionOptions& options) {
  const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &y = saved[3], &lse = saved[4];
  const std::int64_t heads = q.size(1), groups = k.size(1);
  const std::vector<Unit> units = units_of(spans, options.window);
  const Masks masks(units, options.window, q);
  const bool all = covers_all(spans, q.size(0));
  const auto made = [&](const at::Tensor& x) { return all ? at::empty_like(x) : at::zeros_like(x); };
  Gradients to{made(q), made(k), made(v)};
  for_each_unit(units, [&](const Unit& unit) {
    const bool several = unit.size() > 1;  // blocks of a window overlap in their keys
    if (several)
      for (at::Tensor* x : {&to.k_NGK, &to.v_NGK})
        x->slice(0, unit.front().k0, unit.back().k0 + unit.back().keys).zero_();
    for (const Piece& p : unit) {
      const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          query_view(dy, p, groups), query_view(q, p, groups), key_view(k, p, heads), key_view(v, p, heads),
          query_view(y, p, groups), lse_view(lse, p, groups), /*dropout_p=*/0.0, !p.masked, masks.of(p), options.scale);
      query_view(to.q_NHK, p, groups).copy_(dq);
      add_key_gradient(dk, p, !several, to.k_NGK);
      add_key_gradient(dv, p, !several, to.v_NGK);
    }
  });
  return to;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::vector<std::int64_t>& spans, double scale,
                            std::int64_t window) {
    const at::Tensor rows[] = {q.contiguous(), k.contiguous(), v.contiguous()};
    Attended made = attend(rows[0], rows[1], rows[2], spans_from(spans), {scale, window});
    ctx->save_for_backward({rows[0], rows[1], rows[2], made.y_NHK, made.lse_NH});
    ctx->saved_data["spans"] = spans;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    return made.y_NHK;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const AttentionOptions options{ctx->saved_data["scale"].toDouble(), ctx->saved_data["window"].toInt()};
    const auto spans = spans_from(ctx->saved_data["spans"].toIntVector());
    const Gradients to = attend_backward(grads[0].contiguous(), ctx->get_saved_variables(), spans, options);
    return {to.q_NHK, to.k_NGK, to.v_NGK, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                     const std::vector<Span>& spans, const AttentionOptions& options) {
  if (q_NHK.numel() == 0 || !kernels_take({q_NHK, k_NGK, v_NGK}))
    return reference::attention(q_NHK, k_NGK, v_NGK, spans, options);
  std::vector<std::int64_t> flat;
  for (const Span& span : spans) flat.insert(flat.end(), {span.begin, span.end});
  return AttentionFunction::apply(q_NHK, k_NGK, v_NGK, flat, options.scale, options.window);
}

at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options) {
  const std::int64_t queries = q_NHK.size(0), keys = k_GLK.size(1), groups = k_GLK.size(0);
  if (queries == 0 || !kernels_take({q_NHK, k_GLK, v_GLK}))
    return reference::cached_attention(q_NHK, k_GLK, v_GLK, options);
  const at::Tensor q = query_view(q_NHK.contiguous(), {0, queries, 0, keys, 1, false}, groups);
  const auto shared = [&](const at::Tensor& x) { return x.unsqueeze(1).expand({groups, q.size(1), keys, x.size(2)}); };
  const bool causal = queries == keys && (options.window == 0 || options.window >= keys);
  std::optional<at::Tensor> mask;
  if (!causal) mask = mask_of(queries, keys, keys - queries, options.window, q_NHK);
  const at::Tensor y = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, shared(k_GLK), shared(v_GLK), 0.0,
                                                                                   causal, mask, options.scale));
  return y.permute({2, 0, 1, 3}).flatten(1, 2);
}

}  // namespace hone::ops
