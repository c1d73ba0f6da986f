// Vectors of texts' tokens.
//
// Letters: S documents, L tokens of the longest text, D numbers of a vector, N tokens, A, B two sets of texts, Q, R
// their tokens.
#include "nn/token_vectors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "hone/config.h"
#include "nn/plan.h"
#include "nn/text_embedding.h"
#include "nn/vector_module.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

constexpr double kLeastLikeness = -1e30;   // none is less
constexpr double kLikenessOfNone = -1e12;  // that of a document without vectors

Tensor sent_with(const std::vector<std::int64_t>& values, const Tensor& like) {
  return devices::sent(host::tensor_of(values, {std::ssize(values)}), like.device());
}

// Where the tokens that count are among all, and where they come to in [S,L].
struct CountingTokens {
  std::vector<std::int64_t> from, to;
  std::int64_t longest = 1;
};

CountingTokens counting_tokens(const Batch& batch) {
  const auto column = batch.extra.find(kCountingTokens);
  Tensor here;
  std::span<const std::int64_t> counts;
  if (column != batch.extra.end() && !column->second.is_meta()) {  // which may all count, as far as anybody knows
    here = host::read(column->second.to(at::kLong).contiguous());
    counts = host::values<std::int64_t>(here);
  }
  CountingTokens made;
  std::vector<std::vector<std::int64_t>> all;
  for (const Doc& doc : batch.docs) {
    std::vector<std::int64_t>& own = all.emplace_back();
    for (std::int64_t t = doc.begin; t < doc.end; ++t)
      if (const std::int64_t i = doc.row * batch.length() + t; counts.empty() || counts[static_cast<std::size_t>(i)])
        own.push_back(i);
    made.longest = std::max(made.longest, std::ssize(own));
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all[i].size(); ++j) {
      made.from.push_back(all[i][j]);
      made.to.push_back(static_cast<std::int64_t>(i) * made.longest + static_cast<std::int64_t>(j));
    }
  return made;
}

Tensor without_vectors_last(const Tensor& likeness, const TokenVectors& b) {
  return likeness.masked_fill(b.counts_SL.sum(1).eq(0), kLikenessOfNone);
}

Tensor by_kind(const Tensor& sums, const TokenVectors& a, TokenSimilarity kind) {
  if (kind == TokenSimilarity::maxsim) return sums;
  const Tensor count_A = a.counts_SL.sum(1).clamp_min(1);
  return sums / (sums.dim() == 2 ? count_A.unsqueeze(1) : count_A);
}

// Of all of a with some of b, [A,B].
Tensor likeness_with(const TokenVectors& a, const TokenVectors& b) {
  const std::int64_t rows = a.vector_SLD.size(0), tokens = a.vector_SLD.size(1), others = b.vector_SLD.size(0);
  const Tensor all = a.vector_SLD.flatten(0, 1).matmul(b.vector_SLD.flatten(0, 1).t());
  const Tensor hidden_BR = b.counts_SL.eq(0);
  const Tensor likeness_AQBR =
      all.view({rows, tokens, others, -1}).masked_fill(hidden_BR.unsqueeze(0).unsqueeze(0), kLeastLikeness);
  const Tensor most_AQB = std::get<0>(likeness_AQBR.max(-1));
  return without_vectors_last((most_AQB * a.counts_SL.unsqueeze(2)).sum(1), b);
}

TokenVectors some_of(const TokenVectors& texts, std::int64_t begin, std::int64_t count) {
  return {texts.vector_SLD.narrow(0, begin, count), texts.counts_SL.narrow(0, begin, count)};
}

}  // namespace

TokenVectors token_vectors(const Model& model, const Output& output, const Batch& batch, bool normalize, Pass& pass) {
  if (batch.context)
    throw Error(ErrorKind::config, "vectors of tokens: several ranks compute a row together; expected each its "
                                   "own rows")
        .hint("parallel.context: 1, and parallel.tensor: 1");
  if (pass.plan().has_unattended() && !pass.plan().kept_unattended())
    throw Error(ErrorKind::config, "query_expansion: this model's layers let every token see all others")
        .hint("query_expansion_attend: true learns and embeds so");
  const CountingTokens tokens = counting_tokens(batch);
  const std::int64_t documents = std::ssize(batch.docs);
  const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1).index_select(0, sent_with(tokens.from, output.hidden_BTD));
  Tensor x_ND = hidden_ND.to(at::promote_types(hidden_ND.scalar_type(), at::kFloat));
  for (const NamedVectorModule& one : vector_modules(model)) x_ND = (*one.module)(x_ND, pass);
  if (normalize) x_ND = unit_rows(x_ND);
  const Tensor to_N = sent_with(tokens.to, x_ND);
  const Tensor vectors =
      at::zeros({documents * tokens.longest, x_ND.size(1)}, x_ND.options()).index_copy(0, to_N, x_ND);
  const Tensor counts = at::zeros({documents * tokens.longest}, x_ND.options().requires_grad(false))
                            .index_fill(0, to_N, 1);
  return {vectors.view({documents, tokens.longest, -1}), counts.view({documents, tokens.longest})};
}

Tensor rows_of(const TokenVectors& texts) {
  return at::cat({texts.vector_SLD, texts.counts_SL.unsqueeze(2)}, 2).flatten(1);
}

TokenVectors texts_in(const Tensor& rows, std::int64_t width) {
  const Tensor all = rows.unflatten(1, {rows.size(1) / (width + 1), width + 1});
  return {all.narrow(2, 0, width), all.select(2, width).detach()};
}

TokenVectors trimmed(const TokenVectors& texts) {
  if (texts.counts_SL.size(0) == 0 || texts.counts_SL.is_meta()) return texts;
  const Tensor most = host::read(texts.counts_SL.sum(1).amax(0).to(at::kDouble));
  const std::int64_t longest = std::max<std::int64_t>(1, static_cast<std::int64_t>(host::own_number(most)));
  return {texts.vector_SLD.narrow(1, 0, longest), texts.counts_SL.narrow(1, 0, longest)};
}

Tensor max_similarity(const TokenVectors& a, const TokenVectors& b, TokenSimilarity kind, std::int64_t at_once) {
  const std::int64_t others = b.vector_SLD.size(0);
  const std::int64_t of_one = std::max<std::int64_t>(1, a.counts_SL.numel() * b.vector_SLD.size(1));
  const std::int64_t step = std::max<std::int64_t>(1, at_once / of_one);
  if (others == 0) return at::zeros({a.vector_SLD.size(0), 0}, a.vector_SLD.options());
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0; begin < others; begin += step)
    parts.push_back(likeness_with(a, some_of(b, begin, std::min(step, others - begin))));
  return by_kind(at::cat(parts, 1), a, kind);
}

Tensor max_similarity_pairwise(const TokenVectors& a, const TokenVectors& b, TokenSimilarity kind) {
  const Tensor likeness_AQR =
      a.vector_SLD.bmm(b.vector_SLD.transpose(1, 2)).masked_fill(b.counts_SL.eq(0).unsqueeze(1), kLeastLikeness);
  return by_kind(without_vectors_last((std::get<0>(likeness_AQR.max(-1)) * a.counts_SL).sum(1), b), a, kind);
}

std::int64_t token_vector_width(const Model& model) { return embedding_width(model); }

}  // namespace hone::nn
