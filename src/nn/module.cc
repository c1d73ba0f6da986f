// Weights and the tree they hang in.
#include "hone/module.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tensor/dtype.h"

namespace hone {

Weight::Weight(std::vector<std::int64_t> shape, Init init, bool decays)
    : shape_(std::move(shape)), init_(init), decays_(decays) {
  numel();  // refuses sizes that cannot be
}

std::int64_t Weight::numel() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape_) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      throw Error(ErrorKind::config, fmt::format("a weight of shape {}: too large to exist", shape_text(shape_)));
  }
  return count;
}

const Tensor& Weight::use() const {
  HONE_ASSERT(value_.defined());
  return value_;
}

void Weight::fill(Tensor value) {
  if (value.sizes() != at::IntArrayRef(shape_))
    throw Error(ErrorKind::bug,
                fmt::format("a weight of shape {} was given {}", shape_text(shape_), shape_text(value.sizes())));
  value_ = value.detach();
  value_.set_requires_grad(trainable_);
}

void Weight::set_trainable(bool trainable) {
  trainable_ = trainable;
  if (!value_.defined()) return;
  value_.set_requires_grad(trainable);
  if (!trainable) clear_grad();
}

Tensor Weight::grad() const { return value_.defined() ? value_.grad() : Tensor(); }

void Weight::clear_grad() {
  if (value_.defined()) value_.mutable_grad() = Tensor();
}

void Module::each_weight(const std::function<void(const std::string&, Weight&)>& visit, const std::string& prefix) {
  for (auto& [name, weight] : weights_) visit(prefix + name, *weight);
  for (auto& [name, child] : children_) child->each_weight(visit, name.empty() ? prefix : prefix + name + ".");
}

std::int64_t Module::parameter_count() {
  std::int64_t count = 0;
  each_weight([&](const std::string&, Weight& weight) {
    if (__builtin_add_overflow(count, weight.numel(), &count))
      throw Error(ErrorKind::config, "the model: more parameters than can be counted");
  });
  return count;
}

Weight& Module::parameter(std::string name, std::vector<std::int64_t> shape, Init init, bool decays) {
  return *weights_.emplace_back(std::move(name), std::make_unique<Weight>(std::move(shape), init, decays)).second;
}

}  // namespace hone
