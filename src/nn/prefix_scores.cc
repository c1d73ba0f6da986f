// Scores of beginnings: each token's as if it were the last one.
#include "nn/prefix_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "hone/error.h"
#include "nn/pair_scores.h"

namespace hone::nn {
namespace {

// A batch in which each token ends a document.
struct EachToken {
  explicit EachToken(const Batch& of) : batch(of), pass(batch) {}
  Batch batch;
  Pass pass;
};

}  // namespace

const Model* model_beside(const Model& model, const std::string& name) {
  for (const auto& [own, found] : model.beside())
    if (own == name) return found->as_model();
  return nullptr;
}

Tensor prefix_scores(const Model& model, const Output& output, const Batch& batch, Pass& pass) {
  const auto each = std::make_shared<EachToken>(batch);
  pass.kept.push_back(each);
  each->batch.docs.clear();
  for (std::int32_t row = 0; row < batch.rows(); ++row)
    for (std::int32_t t = 0; t < batch.length(); ++t) {
      Doc doc;
      doc.row = row, doc.begin = t, doc.end = t + 1;
      each->batch.docs.push_back(doc);
    }
  each->pass.training = pass.training, each->pass.adapter = pass.adapter, each->pass.seed = pass.seed;
  return model.classifier()->logits(output, each->pass).flatten();
}

void require_prefix_scores(const Model& model, const std::string& what) {
  require_score(model, what);
  const std::vector<AttentionLayer> layers = model.attention();
  if (std::all_of(layers.begin(), layers.end(), [](const AttentionLayer& layer) { return layer.causal; })) return;
  throw Error(ErrorKind::config, what +
                                     ": its tokens see later ones; expected a language model's body, which says of "
                                     "each token what it is worth without those that follow");
}

}  // namespace hone::nn
