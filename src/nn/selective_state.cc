// A layer with a state space of channels.
//
// Letters in tensor names: N tokens, C channels, K states of a channel, J what steps, B and C are made as, H channels
// as heads of which ranks have some.
#include "nn/selective_state.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <memory>
#include <utility>

#include "nn/context.h"
#include "nn/decoding/pre_norm.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/gated.h"
#include "ops/rms_norm.h"
#include "ops/selective_scan.h"

namespace hone::nn {
namespace {

// In fp32 at least: what goes into an exponential, or into sums over the whole text.
Tensor wide_of(const Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

Init fresh_steps(const SelectiveState::Options& o) {
  if (o.least_fresh_step == 0) return {.kind = Init::Kind::zeros};
  return {.kind = Init::Kind::softplus_steps, .first = o.least_fresh_step, .last = o.most_fresh_step};
}

// Ranks share out the channels, and all have what these are read and written by.
Tensor scan_together(const ops::ScanInput& in, const Plan& plan) {
  const Context& context = *plan.context();
  const auto all = context.to_heads({in.x_NC, in.step_NC, in.b_NK.unsqueeze(1), in.c_NK.unsqueeze(1)});
  return context.to_tokens(ops::selective_scan({all[0], all[1], context.own_heads(in.rate_CK), all[2].squeeze(1),
                                                all[3].squeeze(1), context.own_heads(in.skip_C)},
                                               plan.documents()));
}

}  // namespace

Tensor selective_scan(const ops::ScanInput& in, Pass& pass) {
  const Plan& plan = pass.plan();
  if (pass.cache) return pass.cache->selective_scan(pass.layer, in, plan);
  const auto there = [&](const Tensor& x) { return plan.to_documents(x); };
  const Tensor y_NC = plan.context() ? scan_together(in, plan)
                                     : plan.from_documents(ops::selective_scan(
                                           {there(in.x_NC), there(in.step_NC), in.rate_CK, there(in.b_NK),
                                            there(in.c_NK), in.skip_C},
                                           plan.documents()));
  pass.sow("selective_scan", y_NC);
  return y_NC;
}

// A channel is a head with a state for each number that it is read by.
MemoryLayer SelectiveState::Options::memory() const {
  return {.heads = inner, .key_size = state_size, .value_size = 1, .convolved = inner, .taps = taps};
}

SelectiveState::SelectiveState(const Options& options)
    : o(options),
      A_log(parameter("A_log", {o.inner, o.state_size},
                      {.kind = Init::Kind::log_ramp, .first = 1, .last = static_cast<double>(o.state_size)})),
      D(parameter("D", {o.inner}, {.kind = Init::Kind::ones})),
      conv1d(child<ShortConvolution>(
          "conv1d", o.inner, o.taps,
          ShortConvolution::Options{.std = o.conv_std > 0 ? o.conv_std : o.std, .bias = o.conv_bias})),
      in_proj(child<Linear>("in_proj", o.hidden, 2 * o.inner, Linear::Options{.bias = o.in_bias, .std = o.std})),
      x_proj(child<Linear>("x_proj", o.inner, o.rank + 2 * o.state_size, Linear::Options{.std = o.std})),
      dt_proj(child<Linear>("dt_proj", o.rank, o.inner,
                            Linear::Options{.bias = true,
                                            .std = o.step_std > 0 ? o.step_std : o.std,
                                            .fresh_bias = fresh_steps(o)})),
      out_proj(child<Linear>("out_proj", o.inner, o.hidden,
                             Linear::Options{.bias = o.out_bias, .std = o.out_std > 0 ? o.out_std : o.std})) {
  if (o.norm != Norm::weighted) return;
  dt_layernorm = &child<RmsNorm>("dt_layernorm", o.rank, ops::RmsNormForm(o.norm_eps));
  b_layernorm = &child<RmsNorm>("b_layernorm", o.state_size, ops::RmsNormForm(o.norm_eps));
  c_layernorm = &child<RmsNorm>("c_layernorm", o.state_size, ops::RmsNormForm(o.norm_eps));
}

Tensor SelectiveState::operator()(const Input& x_1ND, Pass& pass) const {
  const auto both = linears(x_1ND, {&in_proj}, pass)[0].squeeze(0).chunk(2, -1);
  const Tensor y_NC = read(conv1d(both[0], pass), pass);
  return out_proj(ops::gated(both[1].contiguous(), y_NC, ops::Activation::silu).unsqueeze(0), pass);
}

void SelectiveState::describe(PreNormLayer& layer, const Pass& pass) const {
  MemoryForm form{.kind = MemoryForm::Kind::channels, .in = {in_proj.with_adapter(pass)},
                  .out = out_proj.with_adapter(pass)};
  form.convolution = {conv1d.weight.use().squeeze(1), conv1d.bias ? conv1d.bias->use() : Tensor(), /*silu=*/true};
  form.convolved = {{.column = 0, .channel = 0, .count = o.inner}};
  form.groups = 1, form.heads = o.inner, form.key_size = o.state_size, form.value_size = 1, form.rank = o.rank;
  form.selection = x_proj.with_adapter(pass), form.to_steps = dt_proj.with_adapter(pass);
  form.rate_SC = -wide_of(A_log.use()).exp().t().contiguous(), form.skip_H = wide_of(D.use()).contiguous();
  form.is_selection_normed = o.norm != Norm::none, form.eps = o.norm_eps;
  if (dt_layernorm)
    form.step_norm = dt_layernorm->weight.use(), form.write_norm = b_layernorm->weight.use(),
    form.read_norm = c_layernorm->weight.use();
  layer.memory = std::make_shared<const MemoryForm>(std::move(form));
}

Tensor SelectiveState::normed(const Tensor& x, const RmsNorm* norm) const {
  if (norm) return (*norm)(x);
  if (o.norm == Norm::none) return x;
  return ops::rms_norm(x, at::ones({x.size(-1)}, x.options()), ops::RmsNormForm(o.norm_eps), nullptr);
}

Tensor SelectiveState::read(const Tensor& x_NC, Pass& pass) const {
  const Tensor made_NJ = x_proj(x_NC.unsqueeze(0), pass).squeeze(0);
  const auto parts = made_NJ.split_with_sizes({o.rank, o.state_size, o.state_size}, -1);
  const Tensor step_NC = dt_proj(normed(parts[0], dt_layernorm).contiguous().unsqueeze(0), pass).squeeze(0);
  return selective_scan({x_NC, at::softplus(wide_of(step_NC)), -wide_of(A_log.use()).exp(),
                         normed(parts[1], b_layernorm), normed(parts[2], c_layernorm), wide_of(D.use())},
                        pass);
}

}  // namespace hone::nn
