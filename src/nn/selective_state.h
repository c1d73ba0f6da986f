// A layer with a state space of channels (Mamba; Gu and Dao, 2023, arXiv:2312.00752): a convolution, what is read and
// written by made of what it gives, the states, and a gate, between two products.
//
// Letters in tensor names: N tokens, C channels, K states of a channel.
#pragma once

#include <cstdint>

#include "hone/layers.h"
#include "hone/memory_layers.h"
#include "ops/primitives.h"

namespace hone::nn {

// What the states give for the pass's tokens; in generation they begin with what the cache holds of their documents.
Tensor selective_scan(const ops::ScanInput& input, Pass& pass);

struct PreNormLayer;

class SelectiveState final : public Module {
 public:
  // What steps, B and C are before they are used: as they were made, or brought to a mean square of 1 each, times a
  // weight (dt_layernorm, b_layernorm, c_layernorm) or not.
  enum class Norm { none, bare, weighted };
  struct Options {
    std::int64_t hidden = 0, inner = 0;  // inner: channels
    std::int64_t state_size = 16, rank = 1, taps = 4;  // rank: of the product that makes steps
    bool conv_bias = true, in_bias = false, out_bias = false;
    Norm norm = Norm::none;
    double norm_eps = 1e-6, std = 0.02;
    double conv_std = 0, out_std = 0, step_std = 0;  // of fresh weights there; 0: std
    double least_fresh_step = 0, most_fresh_step = 0;  // of fresh biases of steps; 0: these are zeros

    MemoryLayer memory() const;
  };
  explicit SelectiveState(const Options& options);
  Tensor operator()(const Input& x_1ND, Pass& pass) const;
  void describe(PreNormLayer& layer, const Pass& pass) const;  // what the short way of decoding makes (nn/decoding)

 private:
  Tensor normed(const Tensor& x, const RmsNorm* norm) const;
  Tensor read(const Tensor& x_NC, Pass& pass) const;
  const Options o;
  Weight &A_log, &D;
  ShortConvolution& conv1d;
  Linear &in_proj, &x_proj, &dt_proj, &out_proj;
  const RmsNorm *dt_layernorm = nullptr, *b_layernorm = nullptr, *c_layernorm = nullptr;
};

}  // namespace hone::nn
