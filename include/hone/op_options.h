// What the options of layers and ops are made of.
#pragma once

#include <cstdint>

namespace at {
class Tensor;
}

namespace hone {

struct GradientSum;

namespace ops {

struct HeadBias;      // src/ops/head_losses.h
struct RelativeBias;  // src/ops/relative_bias.h
struct Teacher;       // src/ops/divergence.h

enum class Activation { silu, gelu, gelu_tanh, relu };  // of MLPs

// What RMSNorm multiplies normalised values with: the weight, once they are rounded (Llama); before anything is rounded
// the weight (OLMo 2) or 1 + weight (Gemma).
enum class RmsFactor { weight, wide_weight, one_plus_weight };
struct RmsNormForm {
  RmsNormForm(double eps = 0, RmsFactor factor = RmsFactor::weight) : eps(eps), factor(factor) {}  // NOLINT: an eps
  double eps;  // is added to the mean square
  RmsFactor factor;
};

// A document's tokens, [begin, end) of the flat token axis.
struct Span {
  std::int64_t begin = 0, end = 0;
};

// Whom a token sees within its document: causal, itself and those before it; full, all. A window > 0 leaves it the
// window - 1 nearest of them, on each side that it sees.
struct Mask {
  enum class Kind { causal, full } kind = Kind::causal;
  std::int64_t window = 0;
  static constexpr Mask causal(std::int64_t window = 0) { return {Kind::causal, window}; }
  static constexpr Mask full(std::int64_t window = 0) { return {Kind::full, window}; }
};

struct AttentionOptions {
  double scale = 1;
  Mask mask = {};
  double soft_cap = 0;  // > 0: scores s are soft_cap * tanh(s / soft_cap), as in Gemma 2
  // In training only: this share of the weights becomes 0 and the others 1 / (1 - dropout) times as large. Which ones
  // is a function of the seed, the query head and the places of query and key among the tokens.
  double dropout = 0;
  std::uint64_t seed = 0;
  std::int64_t first_head = 0;  // number of the first query head, where those that are given are not all
  // One more score of each query head, [H], that takes its share of the weights and gives nothing for it, as in
  // gpt-oss; null: none.
  const at::Tensor* sinks = nullptr;
  // What is added to a scaled score by the distance of key and query, as in T5; null: nothing.
  const RelativeBias* bias = nullptr;
};

struct CrossEntropyOptions {
  double label_smoothing = 0;       // (1 - s) nll + s (lse - mean logit)
  double z_loss = 0;                // + z lse^2
  double soft_cap = 0;              // > 0: logits l are soft_cap * tanh(l / soft_cap), as in Gemma 2
  bool by_probability = false;      // each loss times the label's probability, which is taken as a constant
  // > 0: each loss times a power of the entropy, in nats, of so many of the likeliest tokens among themselves, which is
  // taken as a constant.
  std::int64_t by_entropy_of = 0;
  double entropy_power = 1;
  GradientSum* head_sum = nullptr;  // takes the head's gradient; null: autograd does
  const HeadBias* bias = nullptr;   // of logits, before the cap; null: none
  // What the sum of losses will be divided by, a number there: a device makes the gradients for it at once. What comes
  // is looked at all the same. null: it is not known.
  const at::Tensor* divisor = nullptr;
  // null: labels alone are learnt. Not with label_smoothing, z_loss, by_probability or by_entropy_of.
  const Teacher* teacher = nullptr;
};

}  // namespace ops
}  // namespace hone
