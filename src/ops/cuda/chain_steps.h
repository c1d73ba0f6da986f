// The steps of a chain as kernels/chain_steps.h has them, and the arguments of the launches that they stand for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hone::ops::cuda_table {

constexpr std::size_t kStepBytes = 160, kStepWeights = 3;

enum StepKind : int { kProductsStep, kGatedStep, kDecodeStep };
enum Residual : int { kNoResidual, kGivenResidual, kKeptResidual };

struct ProductsStep {
  int kind = kProductsStep, in = 0, split = 1, groups = 0, x_word = 0, y_word = 0, activation = 0, residual_from = 0;
  std::array<int, kStepWeights> outs{};
  std::array<const void*, kStepWeights> weights{}, biases{};
  std::array<void*, kStepWeights> to{};
  const void *x = nullptr, *residual = nullptr, *norm = nullptr;
  void* sum = nullptr;
  double eps = 0;
};
struct DecodeStep {
  int kind = kDecodeStep, across = 1, down = 1, q_word = 0, k_word = 0, v_word = 0, y_word = 0, groups = 1, shared = 1,
      size = 0, least = 0;
  void *k = nullptr, *v = nullptr, *y = nullptr;
  const void* held = nullptr;
  long long parts_at = 0, window = 0, group_apart = 0;
  const void *cos = nullptr, *sin = nullptr, *angles = nullptr, *sinks = nullptr;
  float scale = 1, soft_cap = 0;
};
static_assert(sizeof(ProductsStep) <= kStepBytes && sizeof(DecodeStep) <= kStepBytes);

// Parameters of kernels, in their order: structs are laid out as the driver lays these out.
struct ProductsArguments {
  static constexpr std::size_t kWeights = 4;
  const void* x;
  std::array<const void*, kWeights> weights, biases;
  std::array<void*, kWeights> to;
  std::array<long long, kWeights> outs;
  long long in;
  int rows, split;
  const void *residual, *norm;
  void* sum;
  double eps;
  int wide;
};
struct GatedArguments {
  const void *x, *gate, *gate_bias, *up, *up_bias;
  void* y;
  long long outs, in;
  int rows, activation;
  const void *residual, *norm;
  void* sum;
  double eps;
  int wide;
};
struct DecodeArguments {
  const void* q;
  void *k, *v, *y;
  void *largest, *sum, *parts;
  const void* held;
  long long window, row_apart, group_apart, entry_apart;
  int groups, shared, size, least;
  double scale, soft_cap;
  const void *new_k, *new_v, *cos, *sin, *angles, *sinks;
  int settled, wide;
};
struct JoinArguments {
  void* y;
  const void *largest, *sum, *parts, *held;
  long long window;
  const void* sinks;
  int heads, size, least, most, settled;
};

}  // namespace hone::ops::cuda_table
