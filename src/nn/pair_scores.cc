// Scores of pairs.
#include "nn/pair_scores.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hone/error.h"
#include "tensor/pairs.h"

namespace hone::nn {

const Classifier& require_score(const Model& model, const std::string& what) {
  const Classifier* classifier = model.classifier();
  if (classifier && !classifier->of_tokens() && classifier->labels().size() == 1) return *classifier;
  throw Error(ErrorKind::config,
              fmt::format("{}: needs a head of one label, a score; this model {}", what,
                          !classifier               ? "has none"
                          : classifier->of_tokens() ? "has one for tokens"
                                                    : fmt::format("has one of {} labels", classifier->labels().size())))
      .hint("objective: reward gives a model such a head and trains it");
}

PairScores pair_scores(const Model& model, const Output& output, const Batch& batch, Pass& pass) {
  const Tensor score_S = model.classifier()->logits(output, pass).squeeze(-1).to(at::kDouble);
  const Pairs pairs = pairs_of(batch);
  return {score_S.index_select(0, pairs.chosen_P), score_S.index_select(0, pairs.rejected_P)};
}

}  // namespace hone::nn
