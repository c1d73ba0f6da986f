// What vision towers share.
#include "models/tower.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <cmath>
#include <utility>

#include "hone/random.h"
#include "ops/checkpoint.h"
#include "tensor/device.h"

namespace hone::models {
namespace {

nn::Linear::Options with_bias(double std) { return {.bias = true, .std = std}; }

}  // namespace

PatchProduct::PatchProduct(std::vector<std::int64_t> shape, bool has_bias, double std)
    : weight(parameter("weight", shape, {.std = std})),
      bias(has_bias ? &parameter("bias", {shape[0]}, {.kind = Init::Kind::zeros}, /*decays=*/false) : nullptr) {}

Tensor PatchProduct::operator()(const Tensor& patches_PV) const {
  const Tensor& kernel = weight.use();
  const Tensor made_PD = at::matmul(patches_PV.to(kernel.scalar_type()), kernel.flatten(1).t());
  return bias ? made_PD + bias->use() : made_PD;
}

TowerMlp::TowerMlp(const Options& o)
    : activation_(o.activation),
      fc1(child<nn::Linear>(o.up, o.hidden, o.inner, with_bias(o.std))),
      fc2(child<nn::Linear>(o.down, o.inner, o.hidden, with_bias(o.out_std))) {}

Tensor TowerMlp::operator()(const nn::Input& x_1PD, const Pass& pass) const {
  return fc2(activation_(nn::linears(x_1PD, {&fc1}, pass)[0]), pass);
}

Tensor attend_in_tower(const Tensor& q_PHK, const Tensor& k_PHK, const Tensor& v_PHK, const TowerView& view,
                       double dropout, const Pass& pass) {
  const double usual = 1 / std::sqrt(static_cast<double>(q_PHK.size(-1)));
  ops::AttentionOptions options{.scale = view.scale > 0 ? view.scale : usual,
                                .mask = ops::Mask::full(),
                                .dropout = pass.training ? dropout : 0};
  if (options.dropout > 0)
    options.seed = Random(pass.seed, "attention of a tower").bits(static_cast<std::uint64_t>(view.layer));
  if (!view.rope.cos.defined()) return ops::attention(q_PHK, k_PHK, v_PHK, view.documents, options);
  const ops::Rotated turned = ops::rope_beside(q_PHK, k_PHK, v_PHK, view.rope);
  return ops::attention(turned.q_NHK, turned.k_NGK, turned.v_NGK, view.documents, options);
}

ops::RopeTable rope_in_tower(const Tensor& angles, const Tensor& like) {
  const auto made = [&](const Tensor& x) {
    return devices::sent(x.to(at::toOpMathType(like.scalar_type())).contiguous(), like.device());
  };
  return {made(angles.cos()), made(angles.sin()), devices::sent(at::arange(angles.size(0), at::kLong), like.device())};
}

Tensor through_block(const Tensor& x_1PD, const Pass& pass, std::function<void(nn::Residual&)> add) {
  const auto run = [add = std::move(add)](const Tensor& x) {
    nn::Residual residual(x);
    add(residual);
    return residual.sum();
  };
  return pass.checkpoint_blocks ? ops::checkpoint(run, x_1PD) : run(x_1PD);
}

}  // namespace hone::models
