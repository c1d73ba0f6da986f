// One optimizer update.
#include "train/updater.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "optim/blocks.h"

namespace hone::training {

Updater::Updater(Model& model, Optimizer& optimizer, Precision precision)
    : optimizer_(optimizer), mixed_(precision == Precision::bf16) {
  const c10::NoGradGuard no_grad;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (mixed_ && weight.use().scalar_type() != at::kBFloat16) {
      // The master is the weight as loaded; the weight is its rounding.
      const Tensor master = weight.value().detach();
      weight.fill(master.to(at::kBFloat16));
      if (weight.trainable()) weights_.push_back({name, &weight, master.to(at::kFloat), {}, weight.decays()});
    } else if (weight.trainable()) {
      const Tensor value = weight.value().detach();
      weights_.push_back({name, &weight, mixed_ ? value.to(at::kFloat) : value, {}, weight.decays()});
    }
  });
  if (mixed_)
    for (const OptimizedWeight& weight : weights_) sums_.push_back(at::empty_like(weight.master));
  has_sum_.assign(weights_.size(), false);
  optimizer_.attach(weights_);
}

void Updater::add_gradients() {
  if (!mixed_) return;  // autograd itself adds in fp32
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Tensor gradient = weights_[i].weight->grad();
    if (!gradient.defined()) continue;
    if (has_sum_[i])
      sums_[i].add_(gradient);
    else
      sums_[i].copy_(gradient);
    has_sum_[i] = true;
    weights_[i].weight->clear_grad();
  }
}

void Updater::collect() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    Tensor& gradient = weights_[i].gradient;
    if (mixed_)
      gradient = has_sum_[i] ? sums_[i] : Tensor();
    else
      gradient = weights_[i].weight->grad();
    if (gradient.defined()) gradient = gradient.contiguous();
  }
}

double Updater::gradient_norm() {
  collect();
  return optim::gradient_norm(weights_);
}

void Updater::update(std::int64_t step, double learning_rate, double norm, double max_norm) {
  const c10::NoGradGuard no_grad;
  collect();
  const double scale = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;  // as clip_grad_norm_
  optimizer_.update(weights_, step, learning_rate, scale);
  cast_from_masters();
  clear_gradients();
}

void Updater::cast_from_masters() {
  if (!mixed_) return;
  const c10::NoGradGuard no_grad;
  for (OptimizedWeight& weight : weights_) weight.weight->value().detach().copy_(weight.master);
}

void Updater::clear_gradients() {
  for (OptimizedWeight& weight : weights_) {
    weight.weight->clear_grad();
    weight.gradient = Tensor();
  }
  has_sum_.assign(weights_.size(), false);
}

std::string Updater::first_not_finite() const {
  for (const OptimizedWeight& weight : weights_)
    if (weight.gradient.defined() && !at::isfinite(weight.gradient).all().item<bool>()) return weight.name;
  return "";
}

bool Updater::weights_finite() const {
  for (const OptimizedWeight& weight : weights_)
    if (!at::isfinite(weight.master).all().item<bool>()) return false;
  return true;
}

void Updater::each_gradient(const std::function<void(const std::string&, const Tensor&)>& visit) const {
  for (const OptimizedWeight& weight : weights_)
    visit(weight.name, weight.gradient.defined() ? weight.gradient : at::zeros_like(weight.master));
}

void Updater::each_state(const std::function<void(const std::string&, Tensor&)>& visit) {
  optimizer_.each_state(visit);
  if (!mixed_) return;
  for (OptimizedWeight& weight : weights_) visit("master." + weight.name, weight.master);
}

void Updater::restored() { cast_from_masters(); }

std::uint64_t Updater::state_bytes() {
  std::uint64_t bytes = 0;
  each_state([&](const std::string&, Tensor& tensor) { bytes += tensor.nbytes(); });
  return bytes;
}

}  // namespace hone::training
