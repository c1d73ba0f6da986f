// A layer with a state space.
//
// Letters in tensor names: N tokens, C convolved channels, I inner, H heads, G groups, K size of the state, V size of a
// head.
#include "nn/state_space.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <cmath>
#include <memory>
#include <utility>

#include "nn/decoding/pre_norm.h"
#include "ops/gated.h"
#include "ops/rms_norm.h"

namespace hone::nn {
namespace {

// In fp32 at least: what goes into an exponential, or into sums over the whole text.
Tensor in_wide(const Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

Init fresh_steps(const StateSpace::Options& o) {
  if (o.least_fresh_step == 0) return {.kind = Init::Kind::ones};
  return {.kind = Init::Kind::softplus_steps, .first = o.least_fresh_step, .last = o.most_fresh_step};
}

}  // namespace

GroupRmsNorm::GroupRmsNorm(std::int64_t width, std::int64_t groups, double eps)
    : weight(parameter("weight", {width}, {.kind = Init::Kind::ones}, /*decays=*/false)), groups_(groups), form_(eps) {}

Tensor GroupRmsNorm::operator()(const Tensor& x_NI) const {
  if (groups_ == 1) return ops::rms_norm(x_NI, weight.use(), form_, weight.gradient_sum());
  const Tensor x_NGJ = x_NI.unflatten(-1, {groups_, x_NI.size(-1) / groups_});
  const Tensor ones = at::ones({x_NGJ.size(-1)}, weight.use().options());
  return ops::rms_norm(x_NGJ, ones, form_, nullptr).flatten(-2) * weight.use();
}

MemoryLayer StateSpace::Options::memory() const {
  return {.heads = heads, .key_size = state_size, .value_size = head_size, .convolved = convolved(), .taps = taps};
}

StateSpace::StateSpace(const Options& options)
    : o(options),
      dt_bias(parameter("dt_bias", {o.heads}, fresh_steps(o), /*decays=*/false)),
      A_log(parameter("A_log", {o.heads},
                      {.kind = Init::Kind::log_ramp, .first = 1, .last = static_cast<double>(o.heads)})),
      D(parameter("D", {o.heads}, {.kind = Init::Kind::ones})),
      conv1d(child<ShortConvolution>(
          "conv1d", o.convolved(), o.taps,
          ShortConvolution::Options{.std = o.conv_std > 0 ? o.conv_std : o.std, .bias = o.conv_bias})),
      in_proj(child<Linear>("in_proj", o.hidden, o.inner() + o.convolved() + o.heads,
                            Linear::Options{.bias = o.in_bias, .std = o.std})),
      norm(o.norm == Norm::none ? nullptr : &child<GroupRmsNorm>("norm", o.inner(), o.groups, o.eps)),
      out_proj(child<Linear>("out_proj", o.inner(), o.hidden,
                             Linear::Options{.bias = o.out_bias, .std = o.out_std > 0 ? o.out_std : o.std})) {}

Tensor StateSpace::operator()(const Input& x_1ND, Pass& pass) const {
  const auto made = made_of(x_1ND, pass).split_with_sizes({o.inner(), o.convolved(), o.heads}, -1);
  const Tensor &gate_NI = made[0], &mixed_NC = made[1], &step_NH = made[2];
  const Tensor y_NI = read(mixed_NC, at::softplus(in_wide(step_NH) + in_wide(dt_bias.use())), pass);
  return out_proj(gated(y_NI, gate_NI.contiguous()).unsqueeze(0), pass);
}

Tensor StateSpace::made_of(const Input& x_1ND, Pass& pass) const {
  const Tensor made = linears(x_1ND, {&in_proj}, pass)[0].squeeze(0);
  if (o.scales == Scales()) return made;
  const Tensor scales = column_scales(made.options().dtype(at::toOpMathType(made.scalar_type())));
  return (made * scales).to(made.scalar_type());
}

Tensor StateSpace::column_scales(const at::TensorOptions& options) const {
  const auto part = [&](std::int64_t size, double scale) { return at::full({size}, scale, options); };
  return at::cat({part(o.inner(), o.scales.gate), part(o.inner(), o.scales.x), part(o.states(), o.scales.b),
                  part(o.states(), o.scales.c), part(o.heads, o.scales.step)});
}

void StateSpace::describe(PreNormLayer& layer, const Pass& pass) const {
  using NormOf = MemoryForm::NormOf;
  const std::int64_t group = o.heads / o.groups;
  MemoryForm form{.kind = MemoryForm::Kind::state, .in = {in_proj.with_adapter(pass)},
                  .out = out_proj.with_adapter(pass)};
  form.convolution = {conv1d.weight.use().squeeze(1), conv1d.bias ? conv1d.bias->use() : Tensor(), /*silu=*/true};
  form.convolved = {{.column = o.inner(), .channel = 0, .count = o.convolved()}};
  form.groups = o.groups, form.heads = o.heads, form.key_size = o.state_size, form.value_size = o.head_size;
  form.gate = {0, group * o.head_size}, form.step = {o.inner() + o.convolved(), group};
  form.rate_H = in_wide(A_log.use()).exp(), form.bias_H = in_wide(dt_bias.use()).contiguous();
  form.skip_H = in_wide(D.use()).contiguous();
  form.least_step = o.least_step, form.most_step = o.most_step;
  form.norm_of = o.norm == Norm::none ? NormOf::none : o.norm == Norm::of_gated ? NormOf::gated : NormOf::then_gated;
  if (norm) form.norm = norm->weight.use();
  form.eps = o.eps, form.norm_groups = o.groups;
  if (o.scales != Scales()) form.scale_M = column_scales(form.bias_H.options());
  layer.memory = std::make_shared<const MemoryForm>(std::move(form));
}

Tensor StateSpace::read(const Tensor& mixed_NC, const Tensor& given_NH, Pass& pass) const {
  const auto parts = conv1d(mixed_NC, pass).split_with_sizes({o.inner(), o.states(), o.states()}, -1);
  const auto heads = [](const Tensor& x, std::int64_t count) { return x.unflatten(-1, {count, x.size(-1) / count}); };
  const bool cut = o.least_step > 0 || std::isfinite(o.most_step);
  const Tensor step_NH = cut ? given_NH.clamp(o.least_step, o.most_step) : given_NH;
  const Tensor decay_NH = step_NH * -in_wide(A_log.use()).exp();
  return ssd(heads(parts[2], o.groups), heads(parts[1], o.groups), heads(parts[0], o.heads), decay_NH, step_NH,
             in_wide(D.use()), pass)
      .flatten(1);
}

Tensor StateSpace::gated(const Tensor& y_NI, const Tensor& gate_NI) const {
  if (o.norm == Norm::then_gated) return ops::gated(gate_NI, (*norm)(y_NI), ops::Activation::silu);
  const Tensor made_NI = ops::gated(gate_NI, y_NI, ops::Activation::silu);
  return norm ? (*norm)(made_NI) : made_NI;
}

}  // namespace hone::nn
