// Sparse vectors of texts.
//
// Letters: S documents, V vocabulary, N tokens, D hidden, P parts of documents.
#include "nn/splade.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "hone/layers.h"
#include "ops/checkpoint.h"

namespace hone::nn {
namespace {

// Tokens of one document, or as many of them as are computed at once.
struct Part {
  std::size_t document = 0;
  std::int64_t begin = 0, count = 0;  // places among all tokens
};

// Parts of as many tokens together as there is room for, in the documents' order.
std::vector<std::vector<Part>> chunks_of(const Batch& batch, std::int64_t room) {
  std::vector<std::vector<Part>> chunks;
  std::int64_t left = 0;
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    const Doc& doc = batch.docs[i];
    std::int64_t begin = doc.row * batch.length() + doc.begin;
    const std::int64_t end = doc.row * batch.length() + doc.end;
    while (begin < end) {
      const bool splits = end - begin > room;
      if (left == 0 || (left < end - begin && !splits)) chunks.emplace_back(), left = room;
      const std::int64_t count = std::min(left, end - begin);
      chunks.back().push_back({i, begin, count});
      begin += count, left -= count;
    }
  }
  return chunks;
}

Tensor activated(const Tensor& x, SpladeActivation activation) {
  const Tensor made = x.relu().log1p();
  return activation == SpladeActivation::log1p_relu ? made.log1p() : made;
}

// Of each part its largest logits, or the sum of what they become.
Tensor of_parts(const MaskedLm& lm, const Tensor& hidden_ND, const std::vector<Part>& parts, const SpladeForm& form,
                const Pass& pass) {
  Tensor logits_NV = lm.mask_head().logits(lm.for_mask_head(hidden_ND, pass), pass);
  logits_NV = logits_NV.to(at::promote_types(logits_NV.scalar_type(), at::kFloat));
  if (form.strategy == SpladeStrategy::sum) logits_NV = activated(logits_NV, form.activation);
  std::vector<Tensor> made;
  std::int64_t begin = 0;
  for (const Part& part : parts) {
    const Tensor own_NV = logits_NV.narrow(0, begin, part.count);
    made.push_back(form.strategy == SpladeStrategy::sum ? own_NV.sum(0) : std::get<0>(own_NV.max(0)));
    begin += part.count;
  }
  return at::stack(made);
}

Tensor joined(const std::vector<Tensor>& parts, SpladeStrategy strategy) {
  Tensor made = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i)
    made = strategy == SpladeStrategy::sum ? made + parts[i] : at::maximum(made, parts[i]);
  return made;
}

}  // namespace

Tensor splade(const Model& model, const Output& output, const Batch& batch, const SpladeForm& form, const Pass& pass,
              std::int64_t logits_at_once) {
  const MaskedLm& lm = *model.masked_lm();
  const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1);
  const std::int64_t room = std::max<std::int64_t>(1, logits_at_once / model.vocab_size());
  std::vector<std::vector<Tensor>> of_document(batch.docs.size());
  for (const std::vector<Part>& parts : chunks_of(batch, room)) {
    std::vector<Tensor> tokens;
    for (const Part& part : parts) tokens.push_back(hidden_ND.narrow(0, part.begin, part.count));
    const Tensor own_ND = at::cat(tokens);
    const auto run = [&lm, parts, form, &pass](const Tensor& x_ND) { return of_parts(lm, x_ND, parts, form, pass); };
    const Tensor made_PV = ops::checkpoint(run, own_ND);
    for (std::size_t i = 0; i < parts.size(); ++i)
      of_document[parts[i].document].push_back(made_PV[static_cast<std::int64_t>(i)]);
  }
  std::vector<Tensor> rows;
  for (const std::vector<Tensor>& parts : of_document) rows.push_back(joined(parts, form.strategy));
  const Tensor made_SV = at::stack(rows);
  return form.strategy == SpladeStrategy::sum ? made_SV : activated(made_SV, form.activation);
}

Tensor largest(const Tensor& rows, std::int64_t kept) {
  if (kept >= rows.size(1)) return rows;
  const auto [values, places] = rows.topk(kept, /*dim=*/1);
  return at::zeros_like(rows).scatter(1, places, values);
}

}  // namespace hone::nn
