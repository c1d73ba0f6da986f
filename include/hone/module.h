// Weights with names: a tree of modules, built on the meta device without memory, filled by a checkpoint or by init.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/error.h"
#include "hone/quantization.h"

namespace hone {

class Adapter;
class Model;
class Pass;
namespace config {
class Node;  // hone/config.h
}
struct GradientSum;
namespace nn {
class VectorModule;  // src/nn/vector_module.h
}
namespace ops {
struct LowRank;    // src/ops/linear_weight.h
struct Quantized;  // src/ops/quantized_matrix.h
}

using at::Tensor;

// How a fresh weight is filled; a function of (seed, full name), independent of order, threads and precision.
struct Init {
  enum class Kind { normal, ones, zeros, ramp, log_ramp, log_uniform, softplus_steps } kind = Kind::normal;
  double std = 0.02;           // of normal numbers
  double first = 0, last = 0;  // of a ramp: equal steps from one to the other along a weight's last dimension; of
                               // log_ramp: their logarithms; of log_uniform: those of random numbers between them; of
                               // softplus_steps: what softplus makes steps of whose logarithms lie between theirs
};

// Which part of a weight this process holds. Dimensions are those of the whole weight.
struct HONE_API Layout {
  std::vector<std::int64_t> global_shape;  // of the whole weight: what files and Hugging Face call its shape
  std::vector<std::int64_t> shape;         // of the part
  std::vector<std::int64_t> offset;        // where the part begins
  std::vector<std::string> axes;           // of the mesh, along which each dimension is cut; "": it is not
  // Where the part is cut once more without regard to its dimensions: `count` of its elements, one row behind another,
  // from `begin` on; a tensor of one dimension. -1: it is not.
  std::int64_t begin = 0, count = -1;
  bool whole() const { return shape == global_shape && count < 0; }
  std::int64_t numel() const;  // of the shape
};

// How ranks that compute layers together may share a weight out (parallel.tensor): along which dimension, and in how
// many pieces that stay whole; each rank has as many, or one more. -1: each has all of it.
struct TensorCut {
  int dimension = -1;
  std::int64_t pieces = 0;
};

// What a buffer becomes after an update of the weights: of its value and of the sum of what layers saw in that update's
// micro-batches (Pass::observe). Of the value's shape.
using BufferUpdate = std::function<Tensor(const Tensor& value, const Tensor& seen)>;

// What a layer makes with a weight of two dimensions: x W^T, x W, or rows by their numbers. stack: of three, [E, out,
// in], x W[e]^T of the rows that are e's; stack_in_out: [E, in, out], x W[e] of them.
enum class WeightUse { other, product, product_in_out, table, stack, stack_in_out };

// The adapter that layers take unless a pass says otherwise.
inline constexpr const char* kDefaultAdapter = "default";

// A named parameter: its shape, its storage, and what the optimizer may do with it.
// Not thread-safe; one forward/backward at a time.
class HONE_API Weight {
 public:
  Weight(std::vector<std::int64_t> shape, Init init, bool decays);
  ~Weight();

  const std::vector<std::int64_t>& shape() const { return layout_.global_shape; }  // of the whole weight
  std::int64_t numel() const;                                                      // likewise
  const Layout& layout() const { return layout_; }
  void set_layout(Layout layout);  // REQUIRES: not filled; a part of this weight. Throws Error(bug) otherwise
  Tensor part_of(const Tensor& whole) const;  // what the layout says of it, contiguous; the same tensor if that is all

  // Where its values are, or will be: what is given to fill() goes there. The host, unless said. A filled weight moves,
  // and so do its adapters.
  at::Device device() const { return device_; }
  void set_device(at::Device device);

  const Tensor& use() const;  // the tensor to compute with; REQUIRES: filled
  bool filled() const { return value_.defined(); }
  bool is_there() const;  // filled, and its memory has not gone (fill_whole), or not come yet (quantized)
  // REQUIRES: of the layout's shape; keeps requires_grad as `trainable` says. Quantizes, where held_as() says so.
  void fill(Tensor value);
  // From now on all elements of the layout's shape: a tensor whose memory comes and goes (nn::Residency).
  void fill_whole(Tensor value);
  void set_trainable(bool trainable);
  bool trainable() const { return trainable_; }
  bool decays() const { return decays_; }  // false for norms and biases: weight decay skips them by default
  const Init& init() const { return init_; }
  Tensor& value() { return value_; }

  // What fill() makes of values. REQUIRES: not filled, not trained, two dimensions, whole; none: nothing.
  void set_held_as(QuantizedAs held_as);
  const QuantizedAs& held_as() const { return held_as_; }
  // Of a weight in fewer bits; null: it is not. use() then has memory only while a pass is in the weight's block
  // (Model::set_unpacking), or between unpack() and pack().
  const ops::Quantized* quantized() const { return quantized_.get(); }
  void fill_quantized(std::shared_ptr<const ops::Quantized> quantized, at::ScalarType type);  // type: of use()
  void fill_in_full(Tensor value);  // as fill(), and held_as() is none from now on
  void unpack() const;
  void pack() const;
  Tensor whole() const;  // use(), or a copy of what a quantized weight stands for
  Tensor grad() const;  // of the last backward(s), in the weight's dtype; undefined if none
  void clear_grad();
  // Ops that can, add to this from now on (null: grad()); others go on using grad(). Must live as long as it is set.
  void set_gradient_sum(GradientSum* sum) { gradient_sum_ = sum; }
  GradientSum* gradient_sum() const { return gradient_sum_; }

  // Saved with the model and never trained; kept in fp32 (fp64 in an fp64 run), whatever the run computes in.
  bool is_buffer() const { return update_ != nullptr; }
  void update_buffer(const Tensor& seen);  // REQUIRES: a buffer, filled

  // Times the optimizer's learning rate.
  double learning_rate_scale() const { return learning_rate_scale_; }
  void set_learning_rate_scale(double scale) { learning_rate_scale_ = scale; }

  // How its layer uses it; of `other` and of stacks: nothing can sit on it.
  WeightUse use_as() const { return use_as_; }
  void set_use(WeightUse use) { use_as_ = use; }

  // How it may be shared out by who computes with a part of it; says nothing of what this process has (layout()).
  const TensorCut& tensor_cut() const { return tensor_cut_; }
  void set_tensor_cut(TensorCut cut) { tensor_cut_ = cut; }

  // Whether its layer's products may be made in fp8 where a pass wants that.
  bool takes_float8() const { return takes_float8_; }
  void set_takes_float8(bool takes) { takes_float8_ = takes; }

  // What its layer rounds it to in every pass; it stays as it is. REQUIRES: an nn::Linear's.
  const FakeQuantized& fake_quantized() const { return fake_quantized_; }
  void set_fake_quantized(const FakeQuantized& grids) { fake_quantized_ = grids; }

  // Of how many tokens its layer makes a product with it: of an expert, those that are given to it where all experts
  // have as many. For measures of work.
  double share_of_tokens() const { return share_of_tokens_; }
  void set_share_of_tokens(double share) { share_of_tokens_ = share; }

  // What sits on the weight, by name: layers add the part of the one that the pass takes (Pass::adapter) to what they
  // make with the weight. null: takes it away.
  void set_adapter(std::unique_ptr<Adapter> adapter, const std::string& name = kDefaultAdapter);
  Adapter* adapter(std::string_view name = kDefaultAdapter) const;  // null: there is none
  bool has_adapters() const { return !adapters_.empty(); }

 private:
  friend class Module;
  Layout layout_;
  at::Device device_ = at::kCPU;
  Init init_;
  bool decays_, trainable_ = true;
  Tensor value_;
  QuantizedAs held_as_;
  std::shared_ptr<const ops::Quantized> quantized_;
  GradientSum* gradient_sum_ = nullptr;
  BufferUpdate update_;
  double learning_rate_scale_ = 1;
  WeightUse use_as_ = WeightUse::other;
  TensorCut tensor_cut_;
  bool takes_float8_ = false;
  FakeQuantized fake_quantized_;
  double share_of_tokens_ = 1;
  std::vector<std::pair<std::string, std::unique_ptr<Adapter>>> adapters_;
};

// A tree of named weights. Children carry Hugging Face's names; one without a name adds nothing to those of its
// weights. No child is ever replaced after construction.
class HONE_API Module {
 public:
  Module() = default;
  Module(const Module&) = delete;  // members refer to children: neither copied nor moved
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  // Calls visit(full dotted name, weight) for every weight once, in the order of declaration (tied weights: the first
  // name): parameters and buffers, as files hold them; adapters' weights are not among them.
  void each_weight(const std::function<void(const std::string&, Weight&)>& visit, const std::string& prefix = "");
  void each_weight(const std::function<void(const std::string&, const Weight&)>& visit,
                   const std::string& prefix = "") const;
  // Each weight, and behind it those of its default adapter. Their names begin with the name of the adapted weight
  // without its last ".weight".
  virtual void each_with_adapters(const std::function<void(const std::string&, Weight&)>& visit);
  bool has_adapters() const;             // of any name
  virtual void set_device(at::Device device);  // of every weight
  at::Device device() const;             // of its weights; the host, where it has none
  std::int64_t parameter_count() const;  // of distinct weights, without buffers and adapters

 protected:
  Weight& parameter(std::string name, std::vector<std::int64_t> shape, Init init = {}, bool decays = true);
  // What is saved but not trained, such as running statistics. `update` makes its next value after each update.
  Weight& buffer(std::string name, std::vector<std::int64_t> shape, Init init, BufferUpdate update);
  template <class M, class... Args>
  M& child(std::string name, Args&&... args) {
    auto module = std::make_unique<M>(std::forward<Args>(args)...);
    M& made = *module;
    children_.emplace_back(std::move(name), std::move(module));
    return made;
  }

 private:
  template <class Visit>
  void walk(const Visit& visit, const std::string& prefix) const;
  std::vector<std::pair<std::string, std::unique_ptr<Weight>>> weights_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
};

// A module with a folder of its own: its weights by name, and config.json. A model, or what is trained beside one.
class HONE_API SavedModule : public Module {
 public:
  virtual config::Node hf_config() const = 0;
  // What it is; null: it is something else.
  virtual Model* as_model() { return nullptr; }
  virtual const nn::VectorModule* as_vector_module() const { return nullptr; }
};

// What is learnt beside a weight, which stays as it is: LoRA (Hu et al., 2021, arXiv:2106.09685) and its like.
class HONE_API Adapter : public Module {
 public:
  // y: what the weight alone makes of x, which is a product's input [..., in] or a table's ids. Returns y with the
  // adapter's part, in y's shape and type.
  virtual Tensor add(const Tensor& y, const Tensor& x, const Pass& pass) const = 0;
  // Where add() is y + scale * B (A x), or several such sums, and nothing else in this pass: what an op needs to make
  // them with the weight's own product. Empty: add() is called.
  virtual std::vector<ops::LowRank> low_ranks(const Pass& pass) const;
  // The weight that does alone what `weight` does with the adapter; of its shape and type.
  virtual Tensor merged(const Tensor& weight) const = 0;
};

}  // namespace hone
