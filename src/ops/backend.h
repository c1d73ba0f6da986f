// What a device has to offer: one table of primitives below the ops' autograd functions, which own recomputation and
// gradient sums and exist once. A device without a table of its own has the reference's, plain ATen.
//
// A further device is a file src/ops/<device>/backend.cc that defines `const Backend& <device>_backend()`: the build
// finds it. Tables start best as a copy of the reference's, with what is better done otherwise put in its place.
//
// Not here: the rules of optimizers. Each is its own file's; a table of all would be a list that each one changes. In
// host memory an update is a pass over blocks (optim/blocks.h); a table with a compiler is given the rule's text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "hone/op_options.h"
#include "ops/documents.h"
#include "ops/dropout_words.h"
#include "ops/element_update.h"
#include "ops/linear_weight.h"
#include "ops/primitives.h"
#include "ops/recording.h"
#include "ops/row_groups.h"

namespace hone::ops {

// Tensors are those of the table's device and types, not empty, and outside autograd. Sums are made in fp32 at least.
struct Backend {
  std::string_view name;
  bool on_host = false;  // its tensors lie in host memory: reading a number waits for nothing
  bool (*takes)(at::ScalarType type) = nullptr;

  struct Products {
    // As matmul_into() of ops/matmul.h.
    void (*into)(at::Tensor& out_MN, const std::vector<Factors>& factors, bool add);
    // out = a b. `packed` starts undefined and stays with b: room for b in whatever form is good for several products.
    void (*with_packed)(at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor& packed);
    // Of few rows, as in decoding: x with each of the weights and their biases; gated(x gate, x up).
    std::vector<at::Tensor> (*skinny)(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights);
    at::Tensor (*skinny_gated)(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                               Activation activation);
    // Of rows by groups, as of experts: out's rows of group g = the sum of a b[g] over the factors, rounded once.
    void (*grouped)(at::Tensor& out_SN, const std::vector<GroupedFactors>& factors, const RowGroups& groups);
    // to[g] (+)= a^T b of the group's rows, as `into`; without a tensor: of that group nothing.
    void (*over_groups)(const at::Tensor& a_SM, const at::Tensor& b_SN, const RowGroups& groups,
                        const std::vector<Target>& to_MN);
    // x in fp8, or x^T, whose rows are then x's columns: as long as is good for the device, with zeros behind the end.
    Float8Matrix (*to_float8)(const at::Tensor& x_RC, const Float8Format& format, bool turned);
    // out = or += the sum of all a b^T, of bf16 or fp32; `add` is for fp32. fast: ops/float8.h.
    void (*float8_into)(at::Tensor& out_MN, const std::vector<Float8Factors>& factors, bool add, bool fast);
    Float8By (*float8_by)(const at::Tensor& like) = nullptr;  // null: emulation
    // As skinny and skinny_gated, with the rows' norm made on the way; null: it is made before.
    NormedProducts (*norm_skinny)(const NormedRows& rows, const std::vector<LinearWeight>& weights) = nullptr;
    NormedProducts (*norm_skinny_gated)(const NormedRows& rows, const LinearWeight& gate, const LinearWeight& up,
                                        Activation activation) = nullptr;
    // As skinny and skinny_gated of rows by groups, which follow one another in x, all at once; null: group by group.
    at::Tensor (*skinny_groups)(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups) = nullptr;
    at::Tensor (*skinny_gated_groups)(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& gates,
                                      const std::vector<SkinnyGroup>& ups, Activation activation) = nullptr;
    // As matmul_with_bias_into() of ops/matmul.h; null: the bias is one more pair of factors.
    void (*with_bias_into)(at::Tensor& out_MN, const std::vector<Factors>& factors, const at::Tensor& bias_N) = nullptr;
    // A sum of products whose left factors lie side by side in one matrix is made as one product.
    bool joins_neighbours = false;
  } products{};

  // As ops/attention.h says. The last dimension of q, k, v and dy is dense. lse_HN is a number also of tokens that are
  // in no document. `forward` and `backward` know of no sinks: with them is what comes of lse_HN. `backward` goes by y
  // and lse_HN as they are saved, which may be of more keys than the documents show.
  struct Attention {
    Attended (*forward)(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                        const Documents& documents, const AttentionOptions& options);
    AttentionGradients (*backward)(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                   const Documents& documents, const AttentionOptions& options);
    at::Tensor (*cached)(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                         const AttentionOptions& options);
    at::Tensor (*decode)(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                         const at::Tensor& held_R, const AttentionOptions& options);
    void (*store)(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                  const std::vector<CacheRun>& runs);
    void (*store_one_each)(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to,
                           const at::Tensor& held_R);
    // Bytes that `backward` has for itself meanwhile, of tensors that need not be there; null: none to speak of.
    std::int64_t (*backward_room)(const AttentionSaved& saved, const Documents& documents,
                                  const AttentionOptions& options) = nullptr;
    // q and k rotated, k and v stored as by store_one_each, then decode. Undefined: not such tokens; null: none.
    at::Tensor (*decode_new)(const NewTokens& tokens, const CacheRoom& room, const at::Tensor& held_R,
                             const AttentionOptions& options) = nullptr;
  } attention{};

  // residual, extra (a gradient that reaches the sum by other ways) and bias may be undefined.
  struct Norms {
    RmsNormed (*rms_norm)(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form);
    NormGradients (*rms_norm_backward)(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& weight,
                                       const RmsNormed& saved, RmsNormForm form);
    LayerNormed (*layer_norm)(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                              const at::Tensor& bias, double eps);
    NormGradients (*layer_norm_backward)(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& weight,
                                         const LayerNormed& saved);
    // As ops/head_norm.h says.
    HeadNormed (*head_norm)(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps);
    HeadNormGradients (*head_norm_backward)(const at::Tensor& dy, const HeadNormSaved& saved);
  } norms{};

  // As ops/mlstm.h says. The last dimension of q, k, v and dh is dense, and both gates are.
  struct Mlstm {
    MlstmMade (*forward)(const MlstmInput& input, const Documents& documents, double eps, const MlstmPast& past);
    MlstmInput (*backward)(const at::Tensor& dh_NHV, const MlstmSaved& saved, const Documents& documents,
                           double eps);  // gradients of the input, without a past
    // Bytes that `backward` has for itself meanwhile.
    std::int64_t (*backward_room)(const MlstmInput& input, const Documents& documents);
  } mlstm{};

  // As ops/gated_delta.h says. The last dimension of q, k, v and dy is dense, and decay and step are.
  struct GatedDelta {
    at::Tensor (*forward)(const DeltaInput& input, const Documents& documents, const DeltaPast& past);
    DeltaInput (*backward)(const at::Tensor& dy_NHV, const DeltaInput& input,
                           const Documents& documents);  // gradients of the input, without a past
    // Bytes that `backward` has for itself meanwhile.
    std::int64_t (*backward_room)(const DeltaInput& input, const Documents& documents);
  } gated_delta{};

  // As ops/ssd.h says. The last dimension of c, b, x and dy is dense, and decay, step and skip are.
  struct Ssd {
    at::Tensor (*forward)(const SsdInput& input, const Documents& documents, const SsdPast& past);
    SsdInput (*backward)(const at::Tensor& dy_NHV, const SsdInput& input,
                         const Documents& documents);  // gradients of the input, without a past
    // Bytes that `backward` has for itself meanwhile.
    std::int64_t (*backward_room)(const SsdInput& input, const Documents& documents);
  } ssd{};

  // As ops/selective_scan.h says; all is dense.
  struct SelectiveScan {
    at::Tensor (*forward)(const ScanInput& input, const Documents& documents, const ScanPast& past);
    ScanInput (*backward)(const at::Tensor& dy_NC, const ScanInput& input,
                          const Documents& documents);  // gradients of the input, without a past
    // Bytes that `backward` has for itself meanwhile.
    std::int64_t (*backward_room)(const ScanInput& input, const Documents& documents);
  } selective_scan{};

  // As ops/short_conv.h says; all is dense.
  struct ShortConv {
    at::Tensor (*forward)(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents);
    ShortConvGradients (*backward)(const at::Tensor& dy_NC, const at::Tensor& x_NC, const ShortConvWeights& weights,
                                   const Documents& documents);
  } short_conv{};

  struct Elementwise {
    at::Tensor (*gated)(const at::Tensor& gate, const at::Tensor& up, Activation activation);
    GatedGradients (*gated_backward)(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up,
                                     Activation activation, GatedWish wish);
    // y may be x. The values of a token lie side by side in both. back: the opposite rotation.
    void (*rotate_into)(const at::Tensor& y_NHK, const at::Tensor& x_NHK, const RopeTable& table, bool back);
    at::Tensor (*dropout)(const at::Tensor& x, double rate, const DropoutSeed& seed);  // ops/dropout.h
    // x, which is dense, times one number there, in fp32 at least; where that is 1, x is not touched. null: by ATen.
    void (*multiply)(const at::Tensor& x, const at::Tensor& factor) = nullptr;
    // As dequantize_into() of ops/quantized.h; null: by ATen.
    void (*dequantize)(const Quantized& quantized, const at::Tensor& to) = nullptr;
    // As ops/clamped_gate.h says, of what is dense; null: by ATen.
    at::Tensor (*clamped_gate)(const at::Tensor& both_SJ, const ClampedGate& gate) = nullptr;
    at::Tensor (*clamped_gate_backward)(const at::Tensor& d_SI, const at::Tensor& both_SJ,
                                        const ClampedGate& gate) = nullptr;
  } elementwise{};

  struct Sums {
    at::Tensor (*columns)(const at::Tensor& x);  // [B,O], as NormGradients has them
    // to[O] (+)= the sum over B. Its memory is dense.
    void (*join)(const at::Tensor& sums_BO, const Target& to);
    // sum_VD += the gradient's rows by their ids, in the order of the tokens; those of the id `skip` are left out.
    void (*add_to_table)(const at::Tensor& dy, const at::Tensor& ids, std::int64_t skip, const at::Tensor& sum_VD);
    // weight * loss into losses_C; with gradient, logits are replaced by theirs. statistics_C4, unless undefined: of
    // each row the entropy of its softmax in nats, the mean of its logits, 1 where none is above the label's, and the
    // logarithm of the sum of their exp.
    void (*loss)(at::Tensor& logits_CV, const LossTargets& targets, bool gradient, const CrossEntropyOptions& options,
                 at::Tensor& losses_C, at::Tensor& statistics_C4);
    bool (*all_finite)(const at::Tensor& x);
    at::Tensor (*likeliest)(const at::Tensor& logits_RV);  // ops/likeliest.h
    // How much memory a chunk of tokens' logits should take, in bytes, where losses are made of many.
    std::int64_t (*chunk_bytes)();
    // The same with the next step; null: it is begun by ATen.
    at::Tensor (*likeliest_then)(const at::Tensor& logits_RV, const NextStep& next) = nullptr;
  } sums{};

  // Of routed experts, as ops/experts.h says; slot_S are all of the tokens'.
  struct Routed {
    RoutedSlots (*slots)(const at::Tensor& expert_NK, std::int64_t experts);
    at::Tensor (*take)(const at::Tensor& x_ND, const at::Tensor& slot_S);  // each slot's token
    // Each token's slots, in fp32 at least, times its weights (undefined: 1).
    at::Tensor (*add_up)(const at::Tensor& y_SD, const at::Tensor& place_NK, const at::Tensor& weight_NK);
    // d_SI: the gradient of act(gate) * up before the weights; its memory may become up's gradient's.
    RoutedGradients (*gated_backward)(const at::Tensor& d_SI, const RoutedGated& saved, Activation activation);
    // As ops/router.h says. dweight and dsum_E (of the probabilities' sum over tokens) may be undefined; type: the
    // logits'.
    RoutedChoice (*choose)(const at::Tensor& logits_NE, const ChoiceOptions& options);
    at::Tensor (*choose_backward)(const RoutedChoice& made, const ChoiceOptions& options,
                                  const at::Tensor& dweight_NK, const at::Tensor& dsum_E, at::ScalarType type);
    at::Tensor (*spread)(const at::Tensor& begin_E1, double weight);
  } routed{};

  struct Updates {
    void (*elements)(const ElementUpdate& update);  // null: by plain ATen
  } updates{};

  // ops/recording.h; null: it remembers no work.
  std::unique_ptr<Recording> (*make_recording)() = nullptr;
};

const Backend& cpu_backend();        // kernels of ours: ops/cpu
const Backend& reference_backend();  // plain ATen: any device, and fp16

// The table for tensors of one type on one device; null where they are not, or not floating numbers, or where no table
// is wanted (HONE_KERNELS=reference): the op then has its composed meaning, differentiated by autograd.
const Backend* backend_for(std::initializer_list<at::Tensor> tensors);
// The table of a device, whatever its tensors are.
const Backend& table_of(at::DeviceType device);
// The table for what such tensors lead to.
const Backend& backend_of(const at::Tensor& x);

// Tests: this table for all tensors while alive. Not thread-safe.
class BackendScope {
 public:
  explicit BackendScope(const Backend& backend);
  ~BackendScope();
  BackendScope(const BackendScope&) = delete;

 private:
  const Backend* old_;
};

}  // namespace hone::ops
