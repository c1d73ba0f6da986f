// The layers that models are built from. Each is a Module whose weights carry Hugging Face's names. Blocks read like
// their papers, and what belongs together still runs as one op:
//
//   void add_to(nn::Residual& x, Pass& pass) const override {
//     x += self_attn(input_layernorm(x), pass);
//     x += mlp(post_attention_layernorm(x), pass);
//   }
//
// What has a weight of two dimensions takes the pass, for the weight may have an adapter.
//
// Letters in tensor names: N tokens (of all documents of a pass, one after another), D hidden, H query heads, G
// key/value heads (H a multiple of G), K head size, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/model.h"
#include "hone/module.h"
#include "hone/op_options.h"

namespace hone {

namespace ops {  // what layers hand to the kernels below them: src/ops
struct AddNorm;
struct GatedMlpWeights;
struct LayerNormSums;
struct LinearWeight;
struct LossSums;
struct NormGatedMlp;
struct NormedProducts;
struct RopeTable;
struct TokenLogProbs;
}  // namespace ops

namespace nn {

class Norm;

// Hidden states that blocks add to. The last addition is made when the sum is next read, by the norm that reads it.
class HONE_API Residual {
 public:
  explicit Residual(Tensor x) : x_(std::move(x)) {}
  Residual& operator+=(Tensor y);
  const Tensor& sum();

 private:
  friend class Input;
  Tensor x_, added_;  // added_ undefined: nothing is
  std::int64_t changes_ = 0;
};

// A block that only adds. From one to the next its last addition is left to the first norm that reads it, where nobody
// wants to see what is between them.
class HONE_API ResidualBlock : public Block {
 public:
  Tensor forward(const Tensor& x_BTD, Pass& pass) const final;
  void add_to(Residual& x, Pass& pass) const override = 0;
};

// What products read: a tensor, or the norm of a residual as it was when norm(residual) was written. That norm is made
// where it is used, with the sum and the products as one op. The residual and the norm must be there until then.
class HONE_API Input {
 public:
  Input(const Tensor& x) : x_(x) {}  // NOLINT: a tensor is an input
  Input(const Norm& norm, Residual& residual);
  operator Tensor() const { return value(); }  // NOLINT: and an input is a tensor

  Tensor value() const;
  std::vector<Tensor> linears(const std::vector<ops::LinearWeight>& weights) const;  // its product with each
  Tensor gated_mlp(const ops::GatedMlpWeights& weights, ops::Activation activation) const;

 private:
  void keep(const Tensor& sum) const;
  Tensor x_, added_;
  const Norm* norm_ = nullptr;  // null: x itself
  Residual* residual_ = nullptr;
  std::int64_t changes_ = 0;
};

class HONE_API Norm : public Module {
 public:
  virtual Tensor operator()(const Tensor& x) const = 0;
  Input operator()(Residual& x) const { return {*this, x}; }

  // Of x + residual (x itself where it is undefined): the sum, and what is made of its norm.
  virtual ops::AddNorm add(const Tensor& x, const Tensor& residual) const = 0;
  virtual ops::NormedProducts linears(const Tensor& x, const Tensor& residual,
                                      const std::vector<ops::LinearWeight>& weights) const;
  virtual ops::NormGatedMlp gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                                      ops::Activation activation) const;
};

// x / sqrt(mean(x^2) + eps) * weight, or * (1 + weight), whose fresh weights are zeros.
class HONE_API RmsNorm final : public Norm {
 public:
  RmsNorm(std::int64_t width, ops::RmsNormForm form);
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override;
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override;
  ops::NormedProducts linears(const Tensor& x, const Tensor& residual,
                              const std::vector<ops::LinearWeight>& weights) const override;
  ops::NormGatedMlp gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                              ops::Activation activation) const override;

  Weight& weight;

 private:
  ops::RmsNormForm form_;
};

// (x - mean) / sqrt(variance + eps) * weight + bias.
class HONE_API LayerNorm final : public Norm {
 public:
  LayerNorm(std::int64_t width, double eps, bool with_bias = true);
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override;
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override;

  Weight& weight;
  Weight* const bias;  // null: none

 private:
  ops::LayerNormSums sums() const;
  double eps_;
};

// x W^T + b; weight [out, in].
class HONE_API Linear final : public Module {
 public:
  struct Options {
    bool bias = false;
    double std = 0.02;  // of fresh weights
    Init fresh_bias = {.kind = Init::Kind::zeros};
  };
  Linear(std::int64_t in, std::int64_t out, Options options);
  Tensor operator()(const Tensor& x, const Pass& pass) const;
  // For ops that take several: without the adapter, and with what an op can make of it. What it cannot is made apart.
  ops::LinearWeight with_bias() const;
  ops::LinearWeight with_adapter(const Pass& pass) const;
  bool is_made_apart(const Pass& pass) const;

  Weight& weight;
  Weight* const bias;  // null: none
};

// The products of one input with several weights: its gradient is summed over them before it is rounded.
HONE_API std::vector<Tensor> linears(const Input& x, std::initializer_list<const Linear*> linears, const Pass& pass);

// For layers with weights of their own: y, which is what `weight` alone makes of x, with what its adapter adds.
HONE_API Tensor adapt(Tensor y, const Tensor& x, const Weight& weight, const Pass& pass);

class HONE_API Embedding final : public Module {
 public:
  // Rows that equal no_gradient_id get no gradient, as Hugging Face's padding id; -1: none.
  Embedding(std::int64_t rows, std::int64_t width, double std, std::int64_t no_gradient_id = -1);
  Tensor operator()(const Tensor& ids, const Pass& pass) const;  // Error(data) for an id outside of the table

  Weight& weight;

 private:
  std::int64_t no_gradient_id_;
};

// down(act(gate(x)) * up(x)).
class HONE_API GatedMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;
    ops::Activation activation = ops::Activation::silu;
    bool bias = false;
    double std = 0.02;
    const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";  // the children's names
    std::optional<double> gate_std = {}, down_std = {};                    // where theirs is not std
  };
  explicit GatedMlp(const Options& options);
  Tensor operator()(const Input& x, const Pass& pass) const;
  ops::GatedMlpWeights weights() const;                        // without adapters
  ops::GatedMlpWeights with_adapters(const Pass& pass) const;  // as Linear's

 private:
  ops::Activation activation_;
  Linear &gate_, &up_, &down_;
};

// Equal blocks named "0", "1", ...; each is made as B(args..., index).
template <class B>
class Stack final : public Module {
 public:
  template <class... Args>
  explicit Stack(std::int64_t count, const Args&... args) {
    for (std::int64_t i = 0; i < count; ++i) blocks_.push_back(&child<B>(std::to_string(i), args..., i));
  }
  const std::vector<const B*>& blocks() const { return blocks_; }

 private:
  std::vector<const B*> blocks_;
};

// The language-model head: from hidden states to logits, or straight to the loss without holding [B,T,V].
class HONE_API Head final : public Module {
 public:
  // tied: the embedding's weight, which is then used instead of an own one (and listed under its own name only). An
  // adapter of it is the embedding's alone. soft_cap > 0: logits l are soft_cap * tanh(l / soft_cap). bias: [V], of who
  // makes the head; null: none.
  Head(std::int64_t hidden, std::int64_t vocab, double std, Weight* tied = nullptr, double soft_cap = 0,
       Weight* bias = nullptr);

  // [..., D] -> [..., V] in fp32 (fp64 for fp64 models). The product is made in the weight's type, as in transformers.
  Tensor logits(const Tensor& hidden, const Pass& pass) const;

  // Sum over positions of weight * cross-entropy: a graph scalar, fp32 (fp64 for fp64 models). labels_BT is the target
  // AT t; -100 is skipped. weight_BT undefined = all 1. The trainer divides. `sums`: what is logged of it, if asked for
  // (src/ops/cross_entropy.h).
  Tensor cross_entropy(const Tensor& hidden_BTD, const Tensor& labels_BT, const Tensor& weight_BT, const Pass& pass,
                       const ops::CrossEntropyOptions& options = {}, ops::LossSums* sums = nullptr) const;

  // Of each token: the logarithm of its label's probability, [B * T], 0 where there is none; and what is logged of it
  // if asked for, or the entropy of its distribution with a graph (src/ops/log_probs.h).
  ops::TokenLogProbs log_probs(const Tensor& hidden_BTD, const Tensor& labels_BT, const Pass& pass,
                               bool with_statistics, bool with_entropy = false) const;

  std::int64_t vocab_size() const;
  bool tied() const { return tied_; }
  double soft_cap() const { return soft_cap_; }
  bool is_weight(const Weight& weight) const { return &weight == weight_; }
  ops::LinearWeight with_bias() const;  // as Linear's
  bool is_made_apart(const Pass& pass) const;

 private:
  bool tied_;
  double soft_cap_;
  Weight *weight_, *bias_;
};

// [B,T]: the place of each token in its document, in generation behind what the cache holds; 0 on padding.
HONE_API Tensor positions(Pass& pass);

// Attention of the pass's tokens within their documents; in generation also to what the cache holds of them. Dropout
// acts in training only, with numbers of its own for each layer of each pass.
HONE_API Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                       ops::AttentionOptions options);

// The same of heads that are yet to be rotated: ops::rope(q, rope), ops::rope(k, rope).
HONE_API Tensor attend_rotated(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK,
                               const ops::RopeTable& rope, Pass& pass, ops::AttentionOptions options);

// In training only; which numbers is a function of the pass's seed, the layer and the place in it, so that a block
// that is computed again drops the same.
HONE_API Tensor dropout(const Tensor& x, double rate, const Pass& pass, std::string_view place);
// The same of what the batch's rows hold, [B,T,D], before padding is left out.
HONE_API Tensor dropout_embedded(const Tensor& x_BTD, double rate, const Pass& pass, std::string_view place);

// Embedded tokens, in training with even noise of at most pass.embedding_noise / sqrt(L D), where L are the tokens of
// the document (NEFTune: Jain et al., 2023, arXiv:2310.05914); the same numbers for the same seed.
HONE_API Tensor embedding_noise(const Tensor& x_BTD, const Pass& pass);

HONE_API Tensor activate(const Tensor& x, ops::Activation activation);
// By its name in config.json: silu, swish, gelu, gelu_pytorch_tanh, gelu_new or relu; another is a problem at `path`,
// or an Error(config).
HONE_API ops::Activation read_activation(const std::string& name, const std::string& path, Problems& problems);
HONE_API ops::Activation read_activation(const std::string& name);

}  // namespace nn
}  // namespace hone
