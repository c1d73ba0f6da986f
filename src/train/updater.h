// One optimizer update: gradients of several backward passes in fp32, their norm, clipping, fp32 masters of bf16
// weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hone/gradient_sum.h"
#include "hone/hub.h"
#include "hone/model.h"
#include "hone/optimizer.h"
#include "hone/world.h"

namespace hone::training {

// The model and the optimizer must outlive it; the model's weights are filled. One thread.
class Updater {
 public:
  // The trainable weights as they are, adapters' too, become the masters; all weights but buffers are then in the type
  // that the run computes in.
  Updater(Model& model, Optimizer& optimizer, Precision precision);
  ~Updater();
  Updater(const Updater&) = delete;  // the weights point to its sums

  // After each backward: adds what ops did not add themselves, in fp32. At kernel level `reference` that is all, as
  // autograd has it, in the weights' type.
  void add_gradients();
  // The sums of all ranks become each rank's: of every weight for which one of them has any.
  void add_over_ranks(const World& world);
  double gradient_norm();  // of all that was added; before clipping
  // Clips to max_norm (0: never) and updates; `step` counts from 1. The weights are cast from their masters again.
  void update(std::int64_t step, double learning_rate, double norm, double max_norm);
  void clear_gradients();

  std::string first_not_finite() const;  // name of the first weight whose gradient holds NaN or Inf, or ""
  bool weights_finite() const;
  void each_gradient(const std::function<void(const std::string&, const Tensor&)>& visit) const;
  // The optimizer's state, and what it updates: the fp32 (fp64) weights, which in a bf16 run are not the model's.
  // restored() after any have been overwritten.
  void each_state(const std::function<void(const std::string&, Tensor&)>& visit);
  void each_master(const std::function<void(const std::string& weight, Tensor&)>& visit);
  void restored();

 private:
  void collect_weights(Model& model, at::ScalarType type);
  void make_groups(at::ScalarType wide);
  void collect();
  void cast_from_masters();
  Optimizer& optimizer_;
  bool mixed_;                            // weights are bf16, masters fp32
  std::vector<OptimizedWeight> weights_;  // in the order of groups
  std::vector<GradientSum> sums_;
  // Of weights_, each with one learning rate; a group's masters and sums lie in one piece.
  std::vector<std::span<OptimizedWeight>> groups_;
  std::vector<Tensor> group_sums_;  // each one's piece
};

}  // namespace hone::training
