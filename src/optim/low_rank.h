// What optimizers have in common whose moments are of a gradient's projection onto few directions.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "config/patterns.h"
#include "optim/hidden.h"
#include "optim/rest.h"

namespace hone::optim {

struct LowRankDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0;
  static constexpr bool decoupled = true;
};

// Default: its rank and scale.
template <class Default>
struct LowRankConfig : Rates<LowRankDefaults> {
  using Base = Rates<LowRankDefaults>;
  std::int64_t rank = Default::rank, update_proj_gap = 200;
  double scale = Default::scale;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  std::string adamw_for = kHeads;
  Rest adamw;
  static constexpr auto fields() {
    using C = LowRankConfig;
    constexpr OnResume record = OnResume::record;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("rank", &C::rank, "Directions of a matrix, of which there are at most as many as it has.",
                  at_least(1), OnResume::refuse),
            field("update_proj_gap", &C::update_proj_gap, "Updates after which they are chosen anew.", at_least(1),
                  record),
            field("scale", &C::scale, Default::kScaleDoc, {}, record),
            field("betas", &C::betas, kBetasDoc, kShare, record),
            field("eps", &C::eps, "Added to the root of the second moment, before both are corrected.", at_least(0),
                  record),
            field("adamw_for", &C::adamw_for,
                  "Regular expression of matrices that AdamW trains instead, besides embeddings.", OnResume::refuse),
            field("adamw", &C::adamw,
                  "AdamW for norms, biases, embeddings and what adamw_for names; its schedule is the same.")});
  }
  void validate(Problems& problems) const {
    check_betas(betas, 2, problems);
    config::check_patterns({adamw_for}, "adamw_for", problems);
  }
};

// Of the last two dimensions: a tall matrix is multiplied from the right, a wide one from the left.
struct Sides {
  std::int64_t rows, columns, rank;
  bool tall() const { return rows >= columns; }
};
inline Sides sides_of(const Tensor& weight, std::int64_t rank) {
  const std::int64_t rows = weight.size(-2), columns = weight.size(-1);
  return {rows, columns, std::min({rank, rows, columns})};
}
inline std::vector<std::int64_t> with_sides(const Tensor& weight, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> shape = weight.sizes().vec();
  shape.end()[-2] = rows, shape.end()[-1] = columns;
  return shape;
}
// [.., rank, columns] of a tall matrix, [.., rows, rank] of a wide one.
inline std::vector<std::int64_t> shape_of_directions(const Tensor& weight, const Sides& sides) {
  return sides.tall() ? with_sides(weight, sides.rank, sides.columns) : with_sides(weight, sides.rows, sides.rank);
}
inline std::vector<std::int64_t> shape_of_projection(const Tensor& weight, const Sides& sides) {
  return sides.tall() ? with_sides(weight, sides.rows, sides.rank) : with_sides(weight, sides.rank, sides.columns);
}
// When they fall due, and where there are none yet: of a weight that had no gradient so far.
inline bool wants_directions(const Tensor& directions, std::int64_t every, const WeightStep& step) {
  return (step.update - 1) % every == 0 || host::number(directions.abs().amax()) == 0;
}
inline Tensor projected(const Tensor& gradient, const Tensor& directions, const Sides& sides) {
  return sides.tall() ? at::matmul(gradient, directions.mT()) : at::matmul(directions.mT(), gradient);
}

// Adam's of a projection, in transformers' old form: eps is added before the corrections. Returns the direction without
// step_size.
struct LowRankStep {
  Tensor direction;
  double step_size = 0;
};
inline LowRankStep moments_step(const Tensor& gradient, Tensor& first, Tensor& second, const std::vector<double>& betas,
                                double eps, const WeightStep& step) {
  first.mul_(betas[0]).add_(gradient, 1 - betas[0]);
  second.mul_(betas[1]).addcmul_(gradient, gradient, 1 - betas[1]);
  const double t = static_cast<double>(step.update);
  return {first / second.sqrt().add_(eps),
          step.learning_rate * std::sqrt(1 - std::pow(betas[1], t)) / (1 - std::pow(betas[0], t))};
}

}  // namespace hone::optim
