// Attention by latents: with keys and values of all heads, or by latents alone.
#include "nn/latent.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "hone/adapter.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/linear_weight.h"
#include "ops/matmul.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

Tensor padded(const Tensor& x, std::int64_t size) {
  return x.size(-1) == size ? x : at::constant_pad_nd(x, {0, size - x.size(-1)});
}

struct Expanded {
  Tensor q_NHS, k_NHS, v_NHS;  // of one size, as attention wants them: zeros add nothing
};
Expanded expanded(const LatentTokens& tokens, const Linear& expand, const LatentHeads& sizes, const Pass& pass) {
  const Tensor made_NHX =
      expand(tokens.latent_NL.unsqueeze(0), pass).view({-1, sizes.heads, sizes.plain + sizes.values});
  const Tensor rotated_NHP = tokens.rotated_NP.unsqueeze(1).expand({-1, sizes.heads, -1});
  const Tensor k_NHK = at::cat({made_NHX.narrow(-1, 0, sizes.plain), rotated_NHP}, -1);
  const std::int64_t size = std::max(k_NHK.size(-1), sizes.values);
  return {padded(tokens.q_NHK, size), padded(k_NHK, size),
          padded(made_NHX.narrow(-1, sizes.plain, sizes.values), size)};
}

// x [N, H, I] times b [H, I, O]: each head by a matrix of its own.
Tensor by_heads(const Tensor& x_NHI, const Tensor& b_HIO) {
  const std::int64_t tokens = x_NHI.size(0), heads = x_NHI.size(1);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(heads), tokens);
  const Tensor begin = at::arange(heads + 1, x_NHI.options().dtype(at::kLong)).mul_(tokens);
  ops::GroupedFactors factors{x_NHI.transpose(0, 1).reshape({-1, x_NHI.size(2)}), {}};
  for (std::int64_t h = 0; h < heads; ++h) factors.b_KN.push_back(b_HIO.select(0, h));
  Tensor made = at::empty({heads * tokens, b_HIO.size(2)}, x_NHI.options());
  ops::grouped_matmul_into(made, {factors}, ops::RowGroups(begin, counts));
  return made.view({heads, tokens, -1}).transpose(0, 1);
}

// The weight with the pass's adapter, of each head.
Tensor by_head(const Tensor& own, const Linear& expand, const LatentHeads& sizes, const Pass& pass) {
  const Adapter* adapter = pass.adapter_of(expand.weight);
  const Tensor weight = adapter ? adapter->merged(own) : own;
  return weight.detach().view({sizes.heads, sizes.plain + sizes.values, sizes.latent});
}

// q (W c) = (q W) c, and the sum of weights times (W c) is W times the sum.
Tensor attend_where_they_lie(const LatentTokens& tokens, const Tensor& entry_N1L, const Linear& expand,
                             const LatentHeads& sizes, Pass& pass, const ops::AttentionOptions& options) {
  const Tensor weight_HXL = by_head(expand.with_bias().weight_OI, expand, sizes, pass);
  const Tensor plain_NHL = by_heads(tokens.q_NHK.narrow(-1, 0, sizes.plain), weight_HXL.narrow(1, 0, sizes.plain));
  const Tensor q_NHE = at::cat({plain_NHL, tokens.q_NHK.narrow(-1, sizes.plain, sizes.rotated)}, -1);
  const Tensor y_NHE = pass.cache->attend(pass.layer, q_NHE, entry_N1L, {}, pass.plan(), options);
  return by_heads(y_NHE.narrow(-1, 0, sizes.latent), weight_HXL.narrow(1, sizes.plain, sizes.values).mT());
}

}  // namespace

Tensor weight_of_heads(const Linear& expand, const LatentHeads& sizes, const Pass& pass) {
  const at::NoGradGuard no_grad;
  return by_head(expand.weight.quantized() ? expand.weight.whole() : expand.weight.use(), expand, sizes, pass);
}

Tensor attend_latents(const LatentTokens& tokens, const Linear& expand, const LatentHeads& sizes, Pass& pass,
                      ops::AttentionOptions options) {
  if (pass.cache) {
    options.dropout = 0;
    const Tensor entry_N1L = at::cat({tokens.latent_NL, tokens.rotated_NP}, -1).unsqueeze(1);
    if (!pass.cache->is_fresh(pass.plan()))
      return attend_where_they_lie(tokens, entry_N1L, expand, sizes, pass, options);
    pass.cache->take_in(pass.layer, entry_N1L, pass.plan());
  }
  const Expanded all = expanded(tokens, expand, sizes, pass);
  const Tensor y_NHS = pass.cache ? ops::attention(all.q_NHS, all.k_NHS, all.v_NHS, pass.plan().documents(), options)
                                  : attend(all.q_NHS, all.k_NHS, all.v_NHS, pass, options);
  return y_NHS.narrow(-1, 0, sizes.values);
}

}  // namespace hone::nn
