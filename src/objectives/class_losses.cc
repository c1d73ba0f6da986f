// Losses of texts with labels.
//
// Letters: P texts, each of which is compared with all of them, A some of them, D numbers of a vector.
#include "objectives/class_losses.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "nn/text_embedding.h"

namespace hone::objectives {
namespace {

constexpr double kMost = std::numeric_limits<double>::infinity();
constexpr std::int64_t kTripletsAtOnce = std::int64_t{1} << 22;

// Every text from every other.
Tensor distances_PP(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const bool unit = settings.unit_length || dims > 0 || settings.distance == Distance::cosine;
  const Tensor rows_PD = unit ? nn::unit_rows(texts.query_PD, dims) : texts.query_PD;
  if (settings.distance == Distance::cosine) return 1 - rows_PD.matmul(rows_PD.t());
  constexpr std::int64_t kExact = 2;  // not by a product, whose differences of large numbers lose small distances
  const double p = settings.distance == Distance::manhattan ? 1 : 2;
  const Tensor made_PP = at::cdist(rows_PD, rows_PD, p, kExact);
  return settings.distance == Distance::squared_euclidean ? made_PP.square() : made_PP;
}

// Which texts are of one label, without a text itself, and which are of others.
struct Classes {
  Tensor same_PP, other_PP;
};
Classes classes_of(const EmbeddedTexts& texts) {
  const Tensor equal_PP = texts.class_P.unsqueeze(0).eq(texts.class_P.unsqueeze(1));
  Tensor same_PP = equal_PP.clone();
  same_PP.diagonal().fill_(false);
  return {same_PP, equal_PP.logical_not()};
}

// one: of some texts, from the first on, what each of their triplets says.
void in_parts(std::int64_t texts, const std::function<void(std::int64_t first, std::int64_t count)>& one) {
  const std::int64_t most = std::max<std::int64_t>(1, kTripletsAtOnce / std::max<std::int64_t>(1, texts * texts));
  for (std::int64_t first = 0; first < texts; first += most) one(first, std::min(most, texts - first));
}

// Of each text (row) and each other of its label the distance, less that of each of another label.
Tensor excess_APP(const Tensor& distance_PP, std::int64_t first, std::int64_t count) {
  const Tensor distance_AP = distance_PP.narrow(0, first, count);
  return distance_AP.unsqueeze(2) - distance_AP.unsqueeze(1);
}
Tensor triplets_APP(const Classes& classes, std::int64_t first, std::int64_t count) {
  return classes.same_PP.narrow(0, first, count).unsqueeze(2) & classes.other_PP.narrow(0, first, count).unsqueeze(1);
}

// The mean of all triplets that are wrong. It is a sum of distances, each as often as it stands in one of them.
Tensor batch_all(const Tensor& distance_PP, const Classes& classes, double margin) {
  const std::int64_t texts = distance_PP.size(0);
  Tensor times_PP = at::zeros_like(distance_PP), wrong = at::zeros({}, distance_PP.options());
  {
    const c10::NoGradGuard no_grad;
    in_parts(texts, [&](std::int64_t first, std::int64_t count) {
      const Tensor lost_APP = excess_APP(distance_PP, first, count) + margin;
      const Tensor wrong_APP = triplets_APP(classes, first, count) & lost_APP.gt(0);
      times_PP.narrow(0, first, count).copy_(wrong_APP.sum(2) - wrong_APP.sum(1));
      wrong += wrong_APP.sum();
    });
  }
  return ((times_PP * distance_PP).sum() + margin * wrong) / wrong.clamp_min(1);
}

// Of each text and each other of its label the nearest text of another label that is farther away than this one; where
// there is none, the farthest of another label.
Tensor semi_hard_PP(const Tensor& distance_PP, const Classes& classes) {
  const c10::NoGradGuard no_grad;
  const Tensor others_PP = distance_PP.masked_fill(classes.other_PP.logical_not(), -kMost);
  const Tensor farthest_P1 = others_PP.argmax(1, /*keepdim=*/true);
  Tensor chosen_PP = at::empty_like(distance_PP, at::kLong);
  in_parts(distance_PP.size(0), [&](std::int64_t first, std::int64_t count) {
    const Tensor nearer_APP = excess_APP(distance_PP, first, count).ge(0);
    const Tensor left_out_APP = nearer_APP | classes.other_PP.narrow(0, first, count).unsqueeze(1).logical_not();
    const Tensor distance_A1P = distance_PP.narrow(0, first, count).unsqueeze(1);
    const auto [least_AP, at_AP] = distance_A1P.masked_fill(left_out_APP, kMost).min(2);
    chosen_PP.narrow(0, first, count).copy_(at::where(least_AP.isinf(), farthest_P1.narrow(0, first, count), at_AP));
  });
  return chosen_PP;
}

Tensor batch_semi_hard(const Tensor& distance_PP, const Classes& classes, double margin) {
  const Tensor far_PP = distance_PP.gather(1, semi_hard_PP(distance_PP, classes));
  const Tensor pairs_PP = classes.same_PP & classes.other_PP.any(1, /*keepdim=*/true);
  const Tensor lost_PP = (distance_PP - far_PP + margin).relu() * pairs_PP.to(distance_PP.scalar_type());
  return lost_PP.sum() / classes.same_PP.sum().clamp_min(1);
}

// How much farther the farthest of the same label is than the nearest of another; one without the same is at 0.
Tensor hardest_P(const Tensor& distance_PP, const Classes& classes) {
  const Tensor farthest_P = std::get<0>(distance_PP.masked_fill(classes.same_PP.logical_not(), 0).max(1));
  return farthest_P - std::get<0>(distance_PP.masked_fill(classes.other_PP.logical_not(), kMost).min(1));
}

}  // namespace

Tensor class_losses_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const Tensor distance_PP = distances_PP(texts, settings, dims);
  const Classes classes = classes_of(texts);
  const std::int64_t count = distance_PP.size(0);
  if (settings.type == EmbeddingLoss::batch_all_triplet)
    return batch_all(distance_PP, classes, settings.margin).expand({count});
  if (settings.type == EmbeddingLoss::batch_semi_hard_triplet)
    return batch_semi_hard(distance_PP, classes, settings.margin).expand({count});
  const Tensor hardest = hardest_P(distance_PP, classes);
  return settings.type == EmbeddingLoss::batch_hard_soft_margin_triplet ? at::softplus(hardest)
                                                                        : (hardest + settings.margin).relu();
}

Tensor nearest_of_class_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings) {
  Tensor distance_PP = distances_PP(texts, settings, 0);
  distance_PP.diagonal().fill_(kMost);
  return classes_of(texts).same_PP.gather(1, distance_PP.argmin(1, /*keepdim=*/true)).squeeze(1);
}

}  // namespace hone::objectives
