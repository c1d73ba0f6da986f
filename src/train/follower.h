// A model beside the one that is trained, which follows it (hone/objective.h, Following).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "hone/objective.h"
#include "hone/precision.h"
#include "hone/safetensors.h"
#include "train/updater.h"

namespace hone::training {

inline constexpr const char* kFollowingFile = "following.safetensors";  // in state/, once one of them has moved

// Error(config): `other` has other weights than the model, so that it cannot follow it.
void check_can_follow(const Model& other, const Model& trained, const Following& how);

// Where the run rounds weights (bf16, fp16) it has masters too: mixed in bf16, small shares would change nothing.
class Follower {
 public:
  // The precision that a model is loaded in which is to follow in a run of that one.
  static Precision wide(Precision run) { return has_masters(run) ? Precision::fp32 : run; }
  // REQUIRES: the model is filled in wide(run), and frozen.
  Follower(std::shared_ptr<Model> model, Following how, Precision run);
  const Model& model() const { return *model_; }
  // All weights but buffers move towards the trained model's masters.
  void follow(const Model& trained, Updater& updater);
  // What a checkpoint keeps of it, by the weights' names; nothing before it has moved.
  void each(const std::function<void(const Slice&)>& visit) const;
  // Takes that from a checkpoint, where the tensors' names begin with `prefix`. Error(checkpoint).
  void restore(const Safetensors& file, const std::string& prefix);

 private:
  void put(Weight& weight, const std::string& name, Tensor value);
  std::shared_ptr<Model> model_;
  Following how_;
  bool mixed_;  // the model's weights are its masters, rounded
  at::ScalarType type_;
  std::map<std::string, Tensor> masters_;  // by weight, without buffers
  bool moved_ = false;
};

}  // namespace hone::training
