// LoRA's parts, and what they make of a product.
#include "nn/lora.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "hone/layers.h"
#include "ops/linear.h"

namespace hone::nn {
namespace {

constexpr Init kFilledLater{.kind = Init::Kind::zeros, .std = 0};

at::ScalarType wide(const Tensor& x) { return at::toOpMathType(x.scalar_type()); }

// Of a weight of which this rank has a slice: what belongs to that. The parts themselves are whole, and their gradients
// are the sums over all ranks.
void take_slice(ops::LowRank& own, const Layout& layout) {
  if (layout.shape[0] != layout.global_shape[0])
    own.b_OR = own.b_OR.narrow(0, layout.offset[0], layout.shape[0]), own.b_sum = nullptr;
  if (layout.shape[1] != layout.global_shape[1])
    own.a_RI = own.a_RI.narrow(1, layout.offset[1], layout.shape[1]).contiguous(), own.a_sum = nullptr;
}

}  // namespace

bool can_have_adapter(const Weight& weight) {
  const WeightUse use = weight.use_as();
  return use != WeightUse::other && use != WeightUse::stack && use != WeightUse::stack_in_out;
}

Lora::Lora(const Weight& weight, const Options& options, const Weight* bias, std::string place, Lora* shared_a)
    : weight_(weight), bias_(bias), place_(std::move(place)), options_(options), owns_a_(shared_a == nullptr) {
  const auto [outputs, inputs] = sides_of(weight);
  const bool table = weight.use_as() == WeightUse::table;
  // A file's names, as PEFT's: a table's are no modules of their own.
  a_ = shared_a ? shared_a->a_
                : &parameter(table ? "lora_embedding_A" : "lora_A.weight", {options.rank, inputs}, kFilledLater);
  b_ = &parameter(table ? "lora_embedding_B" : "lora_B.weight", {outputs, options.rank}, kFilledLater);
  if (options.magnitude) magnitude_ = &parameter("lora_magnitude_vector", {outputs}, kFilledLater);
}

std::pair<std::int64_t, std::int64_t> Lora::sides_of(const Weight& weight) {
  HONE_ASSERT(weight.shape().size() == 2 && can_have_adapter(weight));
  const bool rows_out = weight.use_as() == WeightUse::product;
  return {weight.shape()[rows_out ? 0 : 1], weight.shape()[rows_out ? 1 : 0]};
}

void Lora::set_start(Tensor a, Tensor b) {
  start_a_ = std::move(a), start_b_ = std::move(b);
  start_ = {};
}

std::vector<ops::LowRank> Lora::low_ranks(const Pass& pass) const {
  const bool dropped = pass.training && options_.dropout > 0;
  if (magnitude_ || dropped || weight_.use_as() == WeightUse::table) return {};
  std::vector<ops::LowRank> made{{a_->use(), b_->use(), options_.scale, a_->gradient_sum(), b_->gradient_sum()}};
  if (!weight_.layout().whole()) take_slice(made[0], weight_.layout());
  if (start_a_.defined()) made.push_back(start());
  return made;
}

const ops::LowRank& Lora::start() const {
  const auto type = a_->use().scalar_type();
  if (!start_.a_RI.defined() || start_.a_RI.scalar_type() != type)
    start_ = {start_a_.to(type), start_b_.to(type), -options_.scale};
  return start_;
}

// B (A x).
Tensor Lora::product(const Tensor& x) const {
  const auto through = [&](const Tensor& a, GradientSum* a_sum, const Tensor& b, GradientSum* b_sum) {
    const bool table = weight_.use_as() == WeightUse::table;
    const Tensor inner = table ? at::embedding(a.t(), x) : ops::linear(x, {a, {}, a_sum});
    return ops::linear(inner, {b, {}, b_sum});
  };
  const Tensor own = through(a_->use(), a_->gradient_sum(), b_->use(), b_->gradient_sum());
  return start_a_.defined() ? own - through(start().a_RI, nullptr, start().b_OR, nullptr) : own;
}

Tensor Lora::add(const Tensor& y, const Tensor& x, const Pass& pass) const {
  const bool table = weight_.use_as() == WeightUse::table;
  const bool dropped = pass.training && options_.dropout > 0 && !table;  // PEFT drops nothing of ids
  const Tensor input = dropped ? dropout(x, options_.dropout, pass, place_) : x;
  const Tensor added = product(input) * options_.scale;
  if (!magnitude_) return y + added;
  Tensor base = y;  // what the weight makes of the input, without the bias
  if (dropped)
    base = ops::linear(input, {as_product(weight_.use())});
  else if (bias_)
    base = y - bias_->use();
  const Tensor scale_O = magnitude_scale().to(y.scalar_type());
  return y + (scale_O - 1) * base + scale_O * added;
}

// [O,I], whatever the weight's own order.
Tensor Lora::as_product(const Tensor& weight) const {
  return weight_.use_as() == WeightUse::product ? weight : weight.t();
}

Tensor Lora::change() const {
  const auto product_of = [&](const Tensor& b, const Tensor& a) { return at::matmul(b.to(wide(b)), a.to(wide(a))); };
  Tensor made_OI = product_of(b_->use(), a_->use());
  if (start_a_.defined()) made_OI = made_OI - product_of(start_b_, start_a_);
  made_OI = made_OI * options_.scale;
  return weight_.use_as() == WeightUse::product ? made_OI : made_OI.t();
}

Tensor Lora::norms_of(const Tensor& weight) const {
  return at::linalg_vector_norm(as_product(weight).to(wide(weight)), 2, at::IntArrayRef{1});
}

// Of each output: the magnitude by the norm of the changed weight, which is taken for a constant (DoRA, section 4.3).
Tensor Lora::magnitude_scale() const {
  Tensor norms_O;
  {
    const at::NoGradGuard no_grad;
    const Tensor weight = weight_.use();
    norms_O = norms_of(weight.to(wide(weight)) + change());
  }
  return magnitude_->use().to(norms_O.scalar_type()) / norms_O;
}

Tensor Lora::merged(const Tensor& weight) const {
  const at::NoGradGuard no_grad;
  const Tensor changed = weight.to(wide(weight)) + change();
  if (!magnitude_) return changed.to(weight.scalar_type());
  const Tensor scale_O = magnitude_->use().to(changed.scalar_type()) / norms_of(changed);
  return (weight_.use_as() == WeightUse::product ? changed * scale_O.unsqueeze(1) : changed * scale_O)
      .to(weight.scalar_type());
}

}  // namespace hone::nn
