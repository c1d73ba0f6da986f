// What vision towers share: patches become vectors, and blocks that see a picture, or a part of one, as a document.
//
// Letters in tensor names: P patches (of all pictures one after another), V values of a patch, D hidden, H heads, K
// head size, S positions of a picture.
// Children carry Hugging Face's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hone/layers.h"
#include "models/quick_gelu.h"
#include "ops/attention.h"
#include "ops/rope.h"

namespace hone::models {

// The convolution whose steps are as wide as its kernel: a product of each patch's values.
class PatchProduct final : public Module {
 public:
  PatchProduct(std::vector<std::int64_t> shape, bool with_bias, double std);  // [D, 3, (frames,) rows, columns]
  Tensor operator()(const Tensor& patches_PV) const;                          // [P, D], in the weight's type

 private:
  Weight& weight;
  Weight* const bias;  // null: none
};

// A learned vector of each position.
class PositionTable final : public Module {
 public:
  PositionTable(std::int64_t positions, std::int64_t width, double std)
      : weight(parameter("weight", {positions, width}, {.std = std})) {}
  Weight& weight;
};

// fc2(act(fc1(x))).
class TowerMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;
    std::string activation = "quick_gelu";
    double std = 0.02, out_std = 0.02;
    const char *up = "fc1", *down = "fc2";  // the children's names
  };
  explicit TowerMlp(const Options& options);
  Tensor operator()(const nn::Input& x_1PD, const Pass& pass) const;

 private:
  Activated activation_;
  nn::Linear &fc1, &fc2;
};

// How a block's attention sees patches.
struct TowerView {
  ops::Documents documents;  // what sees each other
  ops::RopeTable rope = {};  // cos undefined: nothing is rotated
  std::int64_t layer = 0;    // of random numbers
  double scale = 0;          // of scores; 0: 1 / sqrt(K)
};
// Everything of a document sees all of it. Dropout acts in training only.
Tensor attend_in_tower(const Tensor& q_PHK, const Tensor& k_PHK, const Tensor& v_PHK, const TowerView& view,
                       double dropout, const Pass& pass);

// By these angles [P, K / 2], the two halves of a head together.
ops::RopeTable rope_in_tower(const Tensor& angles, const Tensor& like);

// x with what `add` does, which a pass with checkpoint_blocks computes again in backward. `add` must outlive that.
Tensor through_block(const Tensor& x_1PD, const Pass& pass, std::function<void(nn::Residual&)> add);

}  // namespace hone::models
