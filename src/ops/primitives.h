// What the primitives of a device take and give (ops/backend.h), and the ops above them with it.
//
// Letters: M rows, N columns or tokens, K what is summed over or head size, B blocks of rows, O columns, H query heads,
// S rows by groups, as slots by experts E, of K choices each; D hidden, I inner; R rows of a cache; V size of a value;
// G heads of keys; C channels or a capacity.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

// Of a matrix product.
struct Factors {
  at::Tensor a_MK, b_KN;  // of one type; transposed views are as good as others
};

// Of a product of each group of rows: a's rows of group g with b[g]. Transposed views are as good as others.
struct GroupedFactors {
  at::Tensor a_SK;
  std::vector<at::Tensor> b_KN;  // one for each group, all of one shape and one order in memory
};

// Few rows, as products of decoding take them: rms_norm(x + residual), of x where that is undefined.
struct NormedRows {
  at::Tensor x_RI, residual_RI, norm_I;
  RmsNormForm form = {};
};
// What comes of a norm and products together: the sum (x itself without a residual), a product with each weight.
struct NormedProducts {
  at::Tensor sum;
  std::vector<at::Tensor> products;
};

// Where a result goes: in place of what is there, or added to it.
struct Target {
  at::Tensor out;
  bool add = false;
};

// How a matrix is kept in fp8: every value times its row's scale (the matrix's), which brings the largest one to the
// largest of the type. By rows the scale is a power of two.
struct Float8Format {
  at::ScalarType type = at::kFloat8_e4m3fn;  // or kFloat8_e5m2
  bool by_rows = false;
};
struct Float8Matrix {
  at::Tensor values_RK;         // rows are dense
  at::Tensor inverse_scale_R1;  // fp32; [1, 1] of a matrix
};
inline constexpr double kFloat8Smallest = 1e-12;  // what is smaller than this does not make a scale larger
// Who makes such products on a device.
enum class Float8By { hardware, emulation, nothing };
struct Float8Factors {
  Float8Matrix a_MK, b_NK;  // of a b^T
};

// One fp32 (fp64) value of mean and inv_* per row. Without a residual, sum is x itself.
struct RmsNormed {
  at::Tensor sum, normed, inv_rms;
};
struct LayerNormed {
  at::Tensor sum, normed, mean, inv_std;
};
// Gradients of a norm: of its input, and what sums of columns give for its weight and bias (column_sum.h): as many rows
// as the device likes, in fp32 (fp64).
struct NormGradients {
  at::Tensor x, weight_BO, bias_BO;
};

// Of act(gate) * up: up's gradient may take dy's memory; the product is wanted again; gate's gradient goes there, where
// its rows and dy's are as far apart as in one matrix of both (undefined: anywhere).
struct GatedWish {
  bool overwrite = false, inner = false;
  at::Tensor gate = {};
};
// And, where it was asked for, the product itself.
struct GatedGradients {
  at::Tensor gate, up, inner = {};
};

// A router's choice, as ops/router.h says.
struct ChoiceOptions {
  std::int64_t per_token = 1;
  bool normalise = false;
};
// fp32 (fp64), but who was chosen (int64); probability: of all experts.
struct RoutedChoice {
  at::Tensor probability_NE, weight_NK, expert_NK;
};

// Slots of routed experts: in the order of their experts; where in it each token's stand; where each expert's begin.
struct RoutedSlots {
  at::Tensor slot_S, place_NK, begin_E1;  // int64
};
// What act(gate) * up of slots was made of, and each slot's weight, fp32 (fp64).
struct RoutedGated {
  at::Tensor gate_SI, up_SI, weight_NK, slot_S;
};
// The product times the weight, and the gradients.
struct RoutedGradients {
  at::Tensor inner_SI, gate_SI, up_SI, weight_NK;
};

// gpt-oss's gate: ops/clamped_gate.h.
struct ClampedGate {
  double alpha = 1.702, limit = 7;
};

// Row p holds cos and sin of p's angles (times the attention factor), [P, K/2], fp32 (fp64 for fp64 models); rows_N
// (int64) says which row belongs to each token.
struct RopeTable {
  at::Tensor cos, sin, rows_N;
};

// The result of attention, and the logarithm of the sum of e^score, in fp32 (fp64).
struct Attended {
  at::Tensor y_NHK, lse_HN;
};
// What its backward pass has to go by.
struct AttentionSaved {
  at::Tensor q_NHK, k_NGK, v_NGK;
  Attended result;
};
struct AttentionGradients {
  at::Tensor q_NHK, k_NGK, v_NGK;
};

// Keys and values of the tokens so far, by rows with room for C of them each. settled: what rows hold, how many entries
// that are, and the angles of new tokens lie there since before something was launched that waits for all before it, as
// a table's look-up is; they may be read ahead of what was launched since.
struct CacheRoom {
  at::Tensor k_RGCK, v_RGCK;
  bool settled = false;
};
// One new token of each row: its heads before their rotation, and the angles of each.
struct NewTokens {
  at::Tensor q_RHK, k_RGK, v_RGK;
  RopeTable rope;
};
// What the next step of rows begins with, int64: its tokens, the likeliest ones (0 where there is none), and counts of
// what rows hold, each one more than it was.
struct NextStep {
  at::Tensor ids_R1;
  std::vector<at::Tensor> held_R;
};
// Tokens [first, first + count) of a pass, which are entries [at, at + count) of a row.
struct CacheRun {
  std::int64_t first = 0, count = 0, row = 0, at = 0;
};

// Of sigmoid(gate) times a norm by heads: the result, and one value per token and head.
struct HeadNormed {
  at::Tensor y, mean_NH, inv_std_NH;
};
struct HeadNormSaved {
  at::Tensor x_NHK, gate, weight, mean_NH, inv_std_NH;
};
struct HeadNormGradients {
  at::Tensor x_NHK, gate, weight_BO;  // the last as NormGradients has it
};

// What a matrix memory reads, as ops/mlstm.h says. The gates are in fp32 (fp64).
struct MlstmInput {
  at::Tensor q_NHK, k_NHK, v_NHV, input_NH, forget_NH;
};
// What rows hold, in fp32 (fp64), dense: sums that are divided by e^m.
struct MlstmMemory {
  at::Tensor values_RHKV, keys_RHK, m_RH;
};
// Memories that documents go on with, and leave behind: the row of each document; none: they begin with nothing.
struct MlstmPast {
  MlstmMemory memory;
  std::vector<std::int64_t> rows;
};
// The result, and what it was divided by where that is large enough, in fp32 (fp64).
struct MlstmMade {
  at::Tensor h_NHV, divisor_HN;
};
struct MlstmSaved {
  MlstmInput input;
  MlstmMade made;
};

// What a memory that is corrected reads, as ops/gated_delta.h says. decay and step are in fp32 (fp64).
struct DeltaInput {
  at::Tensor q_NGK, k_NGK, v_NHV, decay_NH, step_NH;
};
// Memories that documents go on with, and leave behind, in fp32 (fp64), dense: the row of each document; none: they
// begin with zeros.
struct DeltaPast {
  at::Tensor memory_RHKV;
  std::vector<std::int64_t> rows;
};

// What a state space reads, as ops/ssd.h says. decay, step and skip are in fp32 (fp64).
struct SsdInput {
  at::Tensor c_NGK, b_NGK, x_NHV, decay_NH, step_NH, skip_H;
};
// States that documents go on with, and leave behind, as DeltaPast has them.
struct SsdPast {
  at::Tensor state_RHKV;
  std::vector<std::int64_t> rows;
};

// What a state space reads whose decays are each channel's and each state's own, as ops/selective_scan.h says. step,
// rate and skip are in fp32 (fp64).
struct ScanInput {
  at::Tensor x_NC, step_NC, rate_CK, b_NK, c_NK, skip_C;
};
// States that documents go on with, and leave behind, in fp32 (fp64), dense: the row of each document; none: they begin
// with zeros.
struct ScanPast {
  at::Tensor state_RKC;
  std::vector<std::int64_t> rows;
};

// Of a short convolution: of each channel; bias undefined: there is none; silu: what is done with the sum.
struct ShortConvWeights {
  at::Tensor weight_CT, bias_C = {};
  bool silu = true;
};
struct ShortConvGradients {
  at::Tensor x_NC, weight_BO, bias_BO = {};  // the last two as NormGradients has them, of [C, taps] and of [C]
};

// Labels in range and weights, in fp32 (fp64), of a chunk of tokens of a loss.
struct LossTargets {
  at::Tensor labels_C, weight_C;
  at::Tensor entropy_C = {};  // to head_losses() alone: what gradients are of besides, times each token's entropy
};

}  // namespace hone::ops
