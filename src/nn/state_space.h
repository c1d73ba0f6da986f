// A layer with a state space (Mamba-2; Dao and Gu, 2024, arXiv:2405.21060): a convolution, the state, and a gated norm
// of what is read from it, between two products.
//
// Letters in tensor names: N tokens, D hidden, I inner (all heads' x together).
#pragma once

#include <cstdint>
#include <limits>

#include "hone/layers.h"
#include "hone/memory_layers.h"

namespace hone::nn {

struct PreNormLayer;

// RMSNorm of groups of a token's values, times a weight of each value.
class GroupRmsNorm final : public Module {
 public:
  GroupRmsNorm(std::int64_t width, std::int64_t groups, double eps);
  Tensor operator()(const Tensor& x_NI) const;

  Weight& weight;

 private:
  const std::int64_t groups_;
  const ops::RmsNormForm form_;
};

class StateSpace final : public Module {
 public:
  // What is done with what is read of the state and its gate: a norm of their product (GroupRmsNorm), the product of a
  // norm and the gate, or their product alone.
  enum class Norm { of_gated, then_gated, none };
  // What the first product's parts are multiplied by.
  struct Scales {
    double gate = 1, x = 1, b = 1, c = 1, step = 1;
    bool operator==(const Scales&) const = default;
  };
  struct Options {
    std::int64_t hidden = 0;
    std::int64_t heads = 0, head_size = 0;    // of x
    std::int64_t groups = 1, state_size = 0;  // of B and C
    std::int64_t taps = 4;                    // of the convolution
    bool conv_bias = true, in_bias = false, out_bias = false;
    double least_step = 0, most_step = std::numeric_limits<double>::infinity();
    Norm norm = Norm::of_gated;
    Scales scales = {};
    double eps = 1e-6, std = 0.02;
    double conv_std = 0, out_std = 0;  // of the convolution's and the second product's fresh weights; 0: std
    double least_fresh_step = 0, most_fresh_step = 0;  // of fresh biases of steps; 0: these are ones

    std::int64_t inner() const { return heads * head_size; }
    std::int64_t states() const { return groups * state_size; }  // of all groups
    std::int64_t convolved() const { return inner() + 2 * states(); }
    MemoryLayer memory() const;
  };
  explicit StateSpace(const Options& options);
  Tensor operator()(const Input& x_1ND, Pass& pass) const;
  void describe(PreNormLayer& layer, const Pass& pass) const;  // what the short way of decoding makes (nn/decoding)

 private:
  Tensor made_of(const Input& x_1ND, Pass& pass) const;
  Tensor column_scales(const at::TensorOptions& options) const;  // of what in_proj makes
  Tensor read(const Tensor& mixed_NC, const Tensor& given_NH, Pass& pass) const;
  Tensor gated(const Tensor& y_NI, const Tensor& gate_NI) const;
  const Options o;
  Weight &dt_bias, &A_log, &D;
  ShortConvolution& conv1d;
  Linear& in_proj;
  const GroupRmsNorm* const norm;  // null: there is none
  Linear& out_proj;
};

}  // namespace hone::nn
