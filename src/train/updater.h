// One optimizer update: gradients of several backward passes in fp32, their norm, clipping, fp32 masters of bf16
// weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hone/gradient_sum.h"
#include "hone/hub.h"
#include "hone/model.h"
#include "hone/optimizer.h"
#include "hone/world.h"
#include "parallel/replica_sums.h"
#include "parallel/sharded_model.h"

namespace hone::training {

// What of a weight or of the optimizer's state this process has: `part`, of one dimension, is the weight's elements
// from `begin` on; or all of it, and then in its shape.
struct Slice {
  std::string name;
  std::vector<std::int64_t> shape;  // of the whole
  std::int64_t begin = 0;
  Tensor part;
  // Of a slice that leaves some of each row out (parallel.tensor): which columns the part's rows have, and `begin` is
  // among these elements. count -1: all.
  struct Columns {
    std::int64_t first = 0, count = -1;
  };
  Columns columns = {};
};

// What becomes of long gradients; 0: nothing.
struct Clipping {
  double norm = 0;   // scaled down to it
  double value = 0;  // elements, after that, cut off at it
};

// The model and the optimizer must outlive it; the model's weights are filled. One thread. On several ranks each has
// all of it, or (sharded) its share of it: then of a weight that is not whole there is a slice, or none.
class Updater {
 public:
  // The trainable weights as they are, adapters' too, become the masters; all weights but buffers are then in the type
  // that the run computes in.
  // slices: into how many weights are cut, of which those of groups of so many ranks have one each; sharded.
  Updater(Model& model, Optimizer& optimizer, Precision precision, World world = {}, bool sharded = false,
          int slices = 1);
  ~Updater();
  Updater(const Updater&) = delete;  // the weights point to its sums

  // Passes give so many times the gradients, from the next one on; all else here is without the factor.
  void set_loss_scale(double factor) { loss_scale_ = factor; }
  // After each backward pass of an update: adds what ops did not add themselves, in fp32. At kernel level `reference`
  // that is all, as autograd has it, in the weights' type.
  void end_pass();
  void idle_pass();         // instead of a pass, where other ranks have one
  void expect_last_pass();  // before this rank's last one of an update: sums that are done go to the others at once
  // Instead of passes: these gradients, by weights' names, of the weights' shapes; of others there is none. Throws
  // Error(config) for a name or a shape that is not the model's. Not sharded.
  void set_gradients(const std::map<std::string, Tensor>& gradients);
  void idle_forward();  // instead of one that goes forward only
  // After the last pass: the sums of all ranks become each rank's: of every weight for which one of them has any.
  void add_over_ranks();
  double gradient_norm();  // of all that was added; before clipping; the same on all ranks
  bool has_gradients() const;  // of this rank, as gradient_norm() found them
  // Where a device makes the update by itself, the norm as a scalar there, for which nobody has waited; undefined: it
  // does not, or there is no gradient.
  Tensor norm_there();
  // Then, with that norm: clips and updates, if all of `finite`, which lie there too, are that. What was summed stays
  // until leave_out().
  void update_there(UpdateStep step, const Tensor& norm, const Tensor& finite, double most_norm);
  // Clips and updates; of `step` the scales are set here. The weights are cast from their masters again.
  void update(UpdateStep step, double norm, const Clipping& clipping);
  void leave_out();  // instead of an update
  // Instead of an update: the gradients are of `labels` labels that the model has drawn (Optimizer::take_curvature).
  void take_curvature(double labels);
  void clear_gradients();

  // From now on those weights stay as they are that are not trained, and cost no gradient. Until then all are trained.
  // REQUIRES: not sharded.
  void choose(const std::function<bool(const std::string&)>& trained);
  // How many updates each weight has had, for optimizers that count on from there. Until then all have had the run's.
  void count_from(const std::function<std::int64_t(const std::string&)>& had);

  // Name of the first weight whose gradient holds NaN or Inf, or ""; the same on all ranks.
  std::string first_not_finite() const;
  std::set<std::string> bad_gradients() const;  // the names of all of them
  bool weights_finite() const;  // of all ranks
  // Of what this rank has of the weights (Slice); zero where there is none.
  void each_gradient(const std::function<void(const std::string&, const Tensor&)>& visit) const;
  // The optimizer's state, and what it updates: the fp32 (fp64) weights, which in a bf16 run are not the model's.
  // restored() after any have been overwritten.
  void each_state(const std::function<void(Slice&)>& visit);
  void each_master(const std::function<void(Slice&)>& visit);
  void restored();

  // While it lives, the model has the weights that are evaluated, where the optimizer averages them.
  class Evaluated;
  // Those weights, where they are not the ones that are trained.
  void each_average(const std::function<void(Slice&)>& visit);
  // What they are made of, to be changed as the weights are (Optimizer::average_source).
  void each_average_source(const std::function<void(const std::string&, Tensor&)>& visit);
  bool averages_weights() const { return optimizer_.averages(); }
  bool averaged() const { return averaged_; }  // an Evaluated lives, and has changed them

  bool sharded() const { return sharded_ != nullptr; }
  // The whole of a master, of which all ranks have a slice: all of them ask, in the same order.
  Tensor whole(const Slice& master);
  // What this rank is to write of a tensor of which it has some columns: some whole rows. Likewise.
  Slice in_rows(const Slice& slice);

 private:
  Tensor slice_of(const std::string& kind, std::size_t group, std::size_t part);
  void each_slice(const std::vector<std::string>& kinds, const std::function<void(Slice&)>& visit);
  void find_kinds();
  static constexpr const char* kMasters = "";  // among kinds of the optimizer's state
  void collect_weights(Model& model, at::ScalarType type);
  void make_groups(Model& model, at::ScalarType wide);
  void shard(Model& model, at::ScalarType type, at::ScalarType wide);
  void add_gradients();
  void hear_of_gradients();
  void collect();
  void cast_from_masters();
  void count_update();
  void update_all(UpdateStep step);
  void update_group(std::span<OptimizedWeight> group, UpdateStep step);
  Optimizer& optimizer_;
  World world_;
  int slices_;
  bool mixed_;                            // weights are bf16 or fp16, masters fp32
  double loss_scale_ = 1;
  std::vector<OptimizedWeight> weights_;  // in the order of groups; sharded: those of which a part is here
  std::vector<GradientSum> sums_;         // not sharded: of each weight
  std::vector<std::int64_t> had_;         // updates of each weight; empty: as the run
  // Of weights_, each with one learning rate; a group's masters and sums lie in one piece.
  std::vector<std::span<OptimizedWeight>> groups_;
  std::unique_ptr<parallel::ReplicaSums> replicas_;  // not sharded, and several ranks
  std::unique_ptr<parallel::ShardedModel> sharded_;
  // Sharded. Of weights_: which part of which group; the index into weights_, by name. Kinds of the optimizer's state,
  // "exp_avg."; whether any rank has a gradient of a part, of all parts of all groups.
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<std::string> kinds_;
  std::vector<std::vector<std::string>> names_;  // of each group's parts
  std::vector<std::vector<bool>> any_;
  std::map<std::string, Tensor> states_;
  bool averaged_ = false;
};

class Updater::Evaluated {
 public:
  explicit Evaluated(Updater& updater);
  ~Evaluated();
  Evaluated(const Evaluated&) = delete;

 private:
  Updater& updater_;
  std::vector<Tensor> trained_;  // of each weight; undefined where it is evaluated as it is; none: all are
};

}  // namespace hone::training
