// Norms in plain ATen. With y the normalised values and g the gradient of y: dx = (g - mean(g) - y mean(g y)) /
// deviation, without mean(g) for RMSNorm.
#include <ATen/ATen.h>

#include "ops/reference/table.h"

namespace hone::ops::reference_table {
namespace {

at::Tensor per_row(const at::Tensor& values, const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return values.view(shape);
}
at::Tensor over_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).sum(0, /*keepdim=*/true); }
at::Tensor row_mean(const at::Tensor& x) { return x.mean(-1, /*keepdim=*/true); }

at::Tensor factor_of(const at::Tensor& weight, RmsNormForm form) {
  return form.factor == RmsFactor::one_plus_weight ? 1 + widened(weight) : widened(weight);
}

RmsNormed rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form) {
  const at::Tensor sum = residual.defined() ? x + residual : x, wide = widened(sum);
  const at::Tensor inv_rms = (row_mean(wide.square()) + form.eps).rsqrt(), y = wide * inv_rms;
  const at::Tensor normed = form.factor == RmsFactor::weight ? y.to(x.scalar_type()) * weight
                                                             : (y * factor_of(weight, form)).to(x.scalar_type());
  return {sum, normed, inv_rms.flatten()};
}

NormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& weight,
                                const RmsNormed& saved, RmsNormForm form) {
  const at::Tensor inv_rms = per_row(saved.inv_rms, saved.sum), y = widened(saved.sum) * inv_rms;
  const at::Tensor gradient = widened(dy), factor = factor_of(weight, form);
  const at::Tensor g = gradient * factor,
                   multiplied = form.factor == RmsFactor::weight ? widened(y.to(dy.scalar_type())) : y;
  at::Tensor dx = (g - y * row_mean(g * y)) * inv_rms;
  if (extra.defined()) dx = dx + extra;
  return {dx.to(dy.scalar_type()), over_rows(gradient * multiplied), {}};
}

LayerNormed layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps) {
  const at::Tensor sum = residual.defined() ? x + residual : x, wide = widened(sum), centre = row_mean(wide);
  const at::Tensor away = wide - centre, inv_std = (row_mean(away.square()) + eps).rsqrt();
  at::Tensor y = away * inv_std * widened(weight);
  if (bias.defined()) y = y + widened(bias);
  return {sum, y.to(x.scalar_type()), centre.flatten(), inv_std.flatten()};
}

NormGradients layer_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& weight,
                                  const LayerNormed& saved) {
  const at::Tensor inv_std = per_row(saved.inv_std, saved.sum);
  const at::Tensor y = (widened(saved.sum) - per_row(saved.mean, saved.sum)) * inv_std;
  const at::Tensor gradient = widened(dy), g = gradient * widened(weight);
  at::Tensor dx = (g - row_mean(g) - y * row_mean(g * y)) * inv_std;
  if (extra.defined()) dx = dx + extra;
  return {dx.to(dy.scalar_type()), over_rows(gradient * y), over_rows(gradient)};
}

HeadNormed head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps) {
  const at::Tensor wide = widened(x_NHK), centre = row_mean(wide), away = wide - centre;
  const at::Tensor inv_std = (row_mean(away.square()) + eps).rsqrt();
  const at::Tensor y = (away * inv_std).view(gate.sizes()) * widened(weight) * widened(gate).sigmoid();
  return {y.to(x_NHK.scalar_type()), centre.squeeze(-1), inv_std.squeeze(-1)};
}

HeadNormGradients head_norm_backward(const at::Tensor& dy, const HeadNormSaved& saved) {
  const at::Tensor inv_std = saved.inv_std_NH.unsqueeze(-1);
  const at::Tensor y_NHK = (widened(saved.x_NHK) - saved.mean_NH.unsqueeze(-1)) * inv_std, y = y_NHK.view(dy.sizes());
  const at::Tensor open = widened(saved.gate).sigmoid(), opened = widened(dy) * open;
  const at::Tensor g = opened * widened(saved.weight), g_NHK = g.view(y_NHK.sizes());
  const at::Tensor dx = (g_NHK - row_mean(g_NHK) - y_NHK * row_mean(g_NHK * y_NHK)) * inv_std;
  return {dx.to(dy.scalar_type()), (g * y * (1 - open)).to(dy.scalar_type()), over_rows(opened * y)};
}

}  // namespace

Backend::Norms norms() {
  return {rms_norm, rms_norm_backward, layer_norm, layer_norm_backward, head_norm, head_norm_backward};
}

}  // namespace hone::ops::reference_table
