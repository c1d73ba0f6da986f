// Layers that hold what they have seen in a memory of fixed size instead of keys and values, and what goes with them.
//
// Letters in tensor names: N tokens (of all documents of a pass, one after another), H heads, G heads of queries and
// keys (H a multiple of G), K size of queries and keys, V size of values, C channels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/model.h"
#include "hone/module.h"

namespace hone::nn {

// What a matrix memory (mLSTM; Beck et al., 2024, arXiv:2405.04517) gives for the pass's tokens; in generation it
// begins with what the cache holds of their documents. input_NH, forget_NH: gates before their e^x and sigmoid, fp32
// (fp64). Keys are as large as queries, values may be larger; V: their size.
HONE_API Tensor mlstm(const Tensor& q_NHK, const Tensor& k_NHK, const Tensor& v_NHV, const Tensor& input_NH,
                      const Tensor& forget_NH, double eps, Pass& pass);

// The same of a memory that each token corrects, gated delta rule (Yang et al., 2024, arXiv:2412.06464). Queries and
// keys are brought to length 1 here. decay_NH: what is kept of the memory, as its logarithm, no larger than 0; step_NH:
// how far the token's value replaces what the memory has for its key, 0 to 1; both fp32 (fp64).
HONE_API Tensor gated_delta(const Tensor& q_NGK, const Tensor& k_NGK, const Tensor& v_NHV, const Tensor& decay_NH,
                            const Tensor& step_NH, Pass& pass);

// The same of a state space (Mamba-2; Dao and Gu, 2024, arXiv:2405.21060): c_NGK is what reads the state, b_NGK what
// writes x_NHV to it. step_NH: by which x is written; decay_NH: what is kept of the state, as its logarithm, no larger
// than 0; skip_H: by which a token's own x is added; fp32 (fp64).
HONE_API Tensor ssd(const Tensor& c_NGK, const Tensor& b_NGK, const Tensor& x_NHV, const Tensor& decay_NH,
                    const Tensor& step_NH, const Tensor& skip_H, Pass& pass);

// A sum over a channel's last `taps` tokens of the document, each times a weight of the channel's own, and silu of it;
// in generation it begins with what the cache holds. weight [C, 1, taps], the newest token's last, as
// torch.nn.Conv1d's.
class HONE_API ShortConvolution final : public Module {
 public:
  struct Options {
    double std = 0.02;  // of fresh weights
    bool silu = true;   // false: the sum itself
    bool bias = false;
  };
  ShortConvolution(std::int64_t channels, std::int64_t taps, Options options);
  Tensor operator()(const Tensor& x_NC, Pass& pass) const;

  Weight& weight;
  Weight* const bias;  // null: none

 private:
  bool silu_;
};

// sigmoid(gate) * (x - mean) / sqrt(variance + eps) * weight, where mean and variance are those of a token's head.
class HONE_API GatedHeadNorm final : public Module {
 public:
  GatedHeadNorm(std::int64_t heads, std::int64_t head_size, double eps);
  Tensor operator()(const Tensor& x_NHK, const Tensor& gate) const;  // gate and result [..., H K]

  Weight& weight;  // [H K]

 private:
  double eps_;
};

}  // namespace hone::nn
