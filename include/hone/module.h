// Weights with names: a tree of modules, built on the meta device without memory, filled by a checkpoint or by init.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone {

struct GradientSum;

using at::Tensor;

// How a fresh weight is filled; a function of (seed, full name), independent of order, threads and precision.
struct Init {
  enum class Kind { normal, ones, zeros } kind = Kind::normal;
  double std = 0.02;
};

// A named parameter: its logical shape, its storage, and what the optimizer may do with it.
// Not thread-safe; one forward/backward at a time.
class HONE_API Weight {
 public:
  Weight(std::vector<std::int64_t> shape, Init init, bool decays);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t numel() const;
  const Tensor& use() const;  // the tensor to compute with; REQUIRES: filled
  bool filled() const { return value_.defined(); }
  void fill(Tensor value);  // REQUIRES: same shape; keeps requires_grad as `trainable` says
  void set_trainable(bool trainable);
  bool trainable() const { return trainable_; }
  bool decays() const { return decays_; }  // false for norms and biases: weight decay skips them by default
  const Init& init() const { return init_; }
  Tensor& value() { return value_; }
  Tensor grad() const;  // of the last backward(s), in the weight's dtype; undefined if none
  void clear_grad();
  // Ops that can, add to this from now on (null: grad()); others go on using grad(). Must live as long as it is set.
  void set_gradient_sum(GradientSum* sum) { gradient_sum_ = sum; }
  GradientSum* gradient_sum() const { return gradient_sum_; }

 private:
  std::vector<std::int64_t> shape_;
  Init init_;
  bool decays_, trainable_ = true;
  Tensor value_;
  GradientSum* gradient_sum_ = nullptr;
};

// A tree of named weights. Children carry Hugging Face's names; one without a name adds nothing to those of its weights. No
// child is ever replaced after construction.
class HONE_API Module {
 public:
  Module() = default;
  Module(const Module&) = delete;  // members refer to children: neither copied nor moved
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  // Calls visit(full dotted name, weight) for every weight once, in the order of declaration (tied weights: the first
  // name).
  void each_weight(const std::function<void(const std::string&, Weight&)>& visit, const std::string& prefix = "");
  std::int64_t parameter_count();  // of distinct weights

 protected:
  Weight& parameter(std::string name, std::vector<std::int64_t> shape, Init init = {}, bool decays = true);
  template <class M, class... Args>
  M& child(std::string name, Args&&... args) {
    auto module = std::make_unique<M>(std::forward<Args>(args)...);
    M& made = *module;
    children_.emplace_back(std::move(name), std::move(module));
    return made;
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Weight>>> weights_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
};

}  // namespace hone
