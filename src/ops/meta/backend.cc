// The meta device's table: what the CPU's would allocate, and nothing computed. A dry run of a model's own code by it
// says what the run takes (tensor/meta_memory.h).
#include "ops/backend.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/column_sum.h"
#include "ops/float8_emulation.h"
#include "ops/group_loop.h"
#include "ops/kernels.h"
#include "ops/meta/stands_for.h"
#include "ops/routed_parts.h"

namespace hone::ops {
namespace meta_table {  // names as those of the ops
namespace {

thread_local const Backend* stood_for = nullptr;  // null: the CPU's

at::ScalarType wide_type(const at::Tensor& x) { return at::toOpMathType(x.scalar_type()); }
at::Tensor like(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }
at::Tensor wide_of(const at::Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(wide_type(x)));
}
at::Tensor sums_of_blocks(const at::Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return wide_of(x, {row_blocks(x.numel() / columns), columns});
}

void into(at::Tensor&, const std::vector<Factors>& factors, bool) {
  for (const Factors& f : factors)
    for (const at::Tensor& x : {f.a_MK, f.b_KN})
      if (x.stride(0) != 1 && x.stride(1) != 1) x.contiguous();
}
void with_packed(at::Tensor&, const at::Tensor&, const at::Tensor& b_KN, at::Tensor& packed) {
  if (!packed.defined() && !library_multiplies(b_KN.scalar_type())) packed = like(b_KN);
}
at::Tensor product(const at::Tensor& x_RI, const LinearWeight& w) {
  return at::empty({x_RI.size(0), w.weight_OI.size(0)}, x_RI.options());
}
std::vector<at::Tensor> skinny(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  std::vector<at::Tensor> made;
  for (const LinearWeight& w : weights) made.push_back(product(x_RI, w));
  return made;
}
at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight&, Activation) {
  return product(x_RI, gate);
}

Attended attend(const at::Tensor& q_NHK, const at::Tensor&, const at::Tensor&, const Documents&,
                const AttentionOptions&) {
  return {like(q_NHK), wide_of(q_NHK, {q_NHK.size(1), q_NHK.size(0)})};
}
AttentionGradients attend_backward(const at::Tensor&, const AttentionSaved& saved, const Documents& documents,
                                   const AttentionOptions& options) {
  AttentionGradients made{like(saved.q_NHK), like(saved.k_NGK), like(saved.v_NGK)};
  if (const auto room = stood_for ? stood_for->attention.backward_room : nullptr)
    at::empty({room(saved, documents, options)}, saved.q_NHK.options().dtype(at::kByte));
  return made;
}
at::Tensor attend_cached(const at::Tensor& q_NHK, const at::Tensor&, const at::Tensor&, const AttentionOptions&) {
  return like(q_NHK);
}
at::Tensor decode(const at::Tensor& q_RHK, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                  const AttentionOptions&) {
  return like(q_RHK);
}
void store(const at::Tensor&, const at::Tensor&, const CacheRoom&, const std::vector<CacheRun>&) {}
void store_one_each(const at::Tensor&, const at::Tensor&, const CacheRoom&, const at::Tensor&) {}

RmsNormed rms_norm(const at::Tensor& given, const at::Tensor& residual, const at::Tensor&, RmsNormForm) {
  const at::Tensor x = given.contiguous();
  return {residual.defined() ? like(x) : x, like(x), wide_of(x, {x.numel() / x.size(-1)})};
}
NormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor&, const at::Tensor&, const RmsNormed& saved,
                                RmsNormForm) {
  const at::Tensor gradient = dy.contiguous();
  return {like(saved.sum), sums_of_blocks(saved.sum), {}};
}
LayerNormed layer_norm(const at::Tensor& given, const at::Tensor& residual, const at::Tensor&, const at::Tensor&,
                       double) {
  const at::Tensor x = given.contiguous();
  const std::int64_t rows = x.numel() / x.size(-1);
  return {residual.defined() ? like(x) : x, like(x), wide_of(x, {rows}), wide_of(x, {rows})};
}
NormGradients layer_norm_backward(const at::Tensor& dy, const at::Tensor&, const at::Tensor&,
                                  const LayerNormed& saved) {
  const at::Tensor gradient = dy.contiguous();
  return {like(saved.sum), sums_of_blocks(saved.sum), sums_of_blocks(saved.sum)};
}

HeadNormed head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor&, double) {
  const at::IntArrayRef of_heads = x_NHK.sizes().slice(0, 2);
  return {like(gate), wide_of(x_NHK, of_heads), wide_of(x_NHK, of_heads)};
}
HeadNormGradients head_norm_backward(const at::Tensor&, const HeadNormSaved& saved) {
  return {like(saved.x_NHK), like(saved.gate), sums_of_blocks(saved.gate)};
}

MlstmMade mlstm(const MlstmInput& input, const Documents&, double, const MlstmPast&) {
  return {like(input.v_NHV), wide_of(input.v_NHV, {input.v_NHV.size(1), input.v_NHV.size(0)})};
}
MlstmInput mlstm_backward(const at::Tensor&, const MlstmSaved& saved, const Documents& documents, double) {
  const MlstmInput& x = saved.input;
  MlstmInput made{like(x.q_NHK), like(x.k_NHK), like(x.v_NHV), like(x.input_NH), like(x.forget_NH)};
  const Backend& table = stood_for ? *stood_for : cpu_backend();
  at::empty({table.mlstm.backward_room(x, documents)}, x.q_NHK.options().dtype(at::kByte));
  return made;
}

at::Tensor gated_delta(const DeltaInput& input, const Documents&, const DeltaPast&) { return like(input.v_NHV); }
DeltaInput gated_delta_backward(const at::Tensor&, const DeltaInput& x, const Documents& documents) {
  DeltaInput made{like(x.q_NGK), like(x.k_NGK), like(x.v_NHV), like(x.decay_NH), like(x.step_NH)};
  const Backend& table = stood_for ? *stood_for : cpu_backend();
  at::empty({table.gated_delta.backward_room(x, documents)}, x.q_NGK.options().dtype(at::kByte));
  return made;
}

at::Tensor ssd(const SsdInput& input, const Documents&, const SsdPast&) { return like(input.x_NHV); }
SsdInput ssd_backward(const at::Tensor&, const SsdInput& x, const Documents& documents) {
  SsdInput made{like(x.c_NGK), like(x.b_NGK), like(x.x_NHV), like(x.decay_NH), like(x.step_NH), like(x.skip_H)};
  const Backend& table = stood_for ? *stood_for : cpu_backend();
  at::empty({table.ssd.backward_room(x, documents)}, x.x_NHV.options().dtype(at::kByte));
  return made;
}

at::Tensor selective_scan(const ScanInput& input, const Documents&, const ScanPast&) { return like(input.x_NC); }
ScanInput selective_scan_backward(const at::Tensor&, const ScanInput& x, const Documents& documents) {
  ScanInput made{like(x.x_NC), like(x.step_NC), like(x.rate_CK), like(x.b_NK), like(x.c_NK), like(x.skip_C)};
  const Backend& table = stood_for ? *stood_for : cpu_backend();
  at::empty({table.selective_scan.backward_room(x, documents)}, x.x_NC.options().dtype(at::kByte));
  return made;
}

at::Tensor short_conv(const at::Tensor& x_NC, const ShortConvWeights&, const Documents&) { return like(x_NC); }
ShortConvGradients short_conv_backward(const at::Tensor&, const at::Tensor& x_NC, const ShortConvWeights& weights,
                                       const Documents&) {
  const auto sums = [&](const at::Tensor& weight) {
    return weight.defined() ? wide_of(x_NC, {row_blocks(x_NC.size(0)), weight.numel()}) : at::Tensor();
  };
  return {like(x_NC), sums(weights.weight_CT), sums(weights.bias_C)};
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor&, Activation) { return like(gate); }
GatedGradients gated_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, Activation,
                              GatedWish wish) {
  return {like(gate), wish.overwrite ? dy : like(up), wish.inner ? like(gate) : at::Tensor()};
}
void rotate_into(const at::Tensor&, const at::Tensor&, const RopeTable&, bool) {}
at::Tensor dropout(const at::Tensor& x, double, const DropoutSeed&) { return like(x); }

void join(const at::Tensor&, const Target&) {}
void add_to_table(const at::Tensor& dy, const at::Tensor&, std::int64_t, const at::Tensor&) { dy.contiguous(); }
void loss(at::Tensor&, const LossTargets&, bool, const CrossEntropyOptions&, at::Tensor&, at::Tensor&) {}
bool all_finite(const at::Tensor&) { return true; }
at::Tensor likeliest_of(const at::Tensor& logits_RV) {
  return at::empty({logits_RV.size(0)}, logits_RV.options().dtype(at::kLong));
}

std::int64_t chunk_bytes() { return (stood_for ? *stood_for : cpu_backend()).sums.chunk_bytes(); }

// A device's kernels make their results alone.
using Parts = RoutedParts<gated, gated_backward>;
at::Tensor take(const at::Tensor& x_ND, const at::Tensor& slot_S) {
  if (!stood_for) return Parts::take(x_ND, slot_S);
  return at::empty({slot_S.size(0), x_ND.size(1)}, x_ND.options());
}
at::Tensor add_up(const at::Tensor& y_SD, const at::Tensor& place_NK, const at::Tensor& weight_NK) {
  if (!stood_for) return Parts::add_up(y_SD, place_NK, weight_NK);
  return at::empty({place_NK.size(0), y_SD.size(1)}, y_SD.options());
}
RoutedGradients routed_backward(const at::Tensor& d_SI, const RoutedGated& saved, Activation activation) {
  if (!stood_for) return Parts::gated_backward(d_SI, saved, activation);
  return {like(d_SI), like(d_SI), d_SI, like(saved.weight_NK)};
}

bool takes(at::ScalarType type) { return type == at::kFloat || type == at::kDouble || type == at::kBFloat16; }

}  // namespace
}  // namespace meta_table

const Backend& meta_backend() {
  using namespace meta_table;
  static const Backend table{"meta",
                             /*on_host=*/true,
                             takes,
                             {into, with_packed, skinny, meta_table::skinny_gated, GroupLoop<into>::grouped,
                              GroupLoop<into>::over_groups, emulated_to_float8, emulated_float8_into<into>},
                             {attend, attend_backward, attend_cached, decode, store, store_one_each},
                             {meta_table::rms_norm, rms_norm_backward, meta_table::layer_norm, layer_norm_backward,
                              head_norm, head_norm_backward},
                             {meta_table::mlstm, mlstm_backward, nullptr},
                             {meta_table::gated_delta, gated_delta_backward, nullptr},
                             {meta_table::ssd, ssd_backward, nullptr},
                             {meta_table::selective_scan, selective_scan_backward, nullptr},
                             {meta_table::short_conv, short_conv_backward},
                             {meta_table::gated, meta_table::gated_backward, rotate_into, meta_table::dropout},
                             {sums_of_blocks, join, add_to_table, loss, all_finite, likeliest_of, chunk_bytes},
                             {Parts::slots, take, add_up, routed_backward, Parts::choose, Parts::choose_backward,
                              Parts::spread}};
  return table;
}

StandsFor::StandsFor(at::Device device) : StandsFor(table_of(device.type())) {}
StandsFor::StandsFor(const Backend& table) : before_(meta_table::stood_for) {
  meta_table::stood_for = &table == &cpu_backend() ? nullptr : &table;
}
StandsFor::~StandsFor() { meta_table::stood_for = before_; }

}  // namespace hone::ops
