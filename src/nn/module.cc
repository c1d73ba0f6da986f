// Weights and the tree they hang in.
#include "hone/module.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>

#include "ops/linear_weight.h"
#include "ops/quantized.h"
#include "tensor/dtype.h"
#include "tensor/storage.h"

namespace hone {

Weight::Weight(std::vector<std::int64_t> shape, Init init, bool decays) : init_(init), decays_(decays) {
  layout_ = {shape, shape, std::vector<std::int64_t>(shape.size()), std::vector<std::string>(shape.size())};
  numel();  // refuses sizes that cannot be
}

Weight::~Weight() = default;

std::int64_t Weight::numel() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape()) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      throw Error(ErrorKind::config, fmt::format("a weight of shape {}: too large to exist", shape_text(shape())));
  }
  return count;
}

std::int64_t Layout::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void Weight::set_layout(Layout layout) {
  const std::size_t dims = shape().size();
  bool fits = !filled() && layout.global_shape == shape() && layout.shape.size() == dims &&
              layout.offset.size() == dims && layout.axes.size() == dims;
  for (std::size_t d = 0; fits && d < dims; ++d)
    fits = layout.offset[d] >= 0 && layout.shape[d] >= 0 && layout.offset[d] + layout.shape[d] <= shape()[d] &&
           (!layout.axes[d].empty() || layout.shape[d] == shape()[d]);
  fits = fits && layout.begin >= 0 && layout.begin + std::max<std::int64_t>(layout.count, 0) <= layout.numel();
  if (!fits)
    throw Error(ErrorKind::bug, fmt::format("a weight of shape {}: the layout is not one of it", shape_text(shape())));
  layout_ = std::move(layout);
}

Tensor Weight::part_of(const Tensor& whole) const {
  Tensor part = whole;
  for (std::size_t d = 0; d < layout_.shape.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), layout_.offset[d], layout_.shape[d]);
  if (layout_.count >= 0) return part.flatten().narrow(0, layout_.begin, layout_.count).clone();
  return layout_.whole() ? whole : part.clone(at::MemoryFormat::Contiguous);
}

const Tensor& Weight::use() const {
  HONE_ASSERT(value_.defined());
  return value_;
}

bool Weight::is_there() const { return filled() && (value_.numel() == 0 || value_.storage().nbytes() > 0); }

void Weight::fill(Tensor value) {
  const std::vector<std::int64_t> expected =
      layout_.count < 0 ? layout_.shape : std::vector<std::int64_t>{layout_.count};
  if (value.sizes() != at::IntArrayRef(expected))
    throw Error(ErrorKind::bug,
                fmt::format("a weight of shape {} was given {}", shape_text(expected), shape_text(value.sizes())));
  if (held_as_.type != QuantType::none)
    return fill_quantized(ops::quantize(value, held_as_), value.scalar_type());
  quantized_ = nullptr;
  value_ = (value.is_meta() ? value : value.to(device_)).detach();
  value_.set_requires_grad(trainable_);
}

void Weight::set_held_as(QuantizedAs held_as) {
  HONE_ASSERT(held_as.type != QuantType::stored && !filled());
  HONE_ASSERT(held_as.type == QuantType::none || (!trainable_ && !is_buffer() && shape().size() == 2));
  held_as_ = held_as;
}

void Weight::fill_quantized(std::shared_ptr<const ops::Quantized> quantized, at::ScalarType type) {
  HONE_ASSERT(!trainable_ && layout_.whole() && quantized->shape == shape() && held_as_.type == quantized->as.type);
  const bool moves = !quantized->codes.is_meta() && quantized->codes.device() != device_;
  quantized_ = moves ? quantized->on(device_) : std::move(quantized);
  value_ = at::empty(shape(), quantized_->codes.options().dtype(type));  // of which nothing is touched
  pack();
}

void Weight::fill_in_full(Tensor value) {
  held_as_ = {};
  fill(std::move(value));
}

void Weight::unpack() const {
  if (!quantized_ || storage::is_there(value_)) return;
  storage::restore(value_);
  ops::dequantize_into(*quantized_, value_);
}

void Weight::pack() const {
  if (quantized_) storage::release(value_);
}

Tensor Weight::whole() const {
  return quantized_ ? ops::dequantize(*quantized_, use().scalar_type()) : use();
}

void Weight::set_device(at::Device device) {
  device_ = device;
  if (quantized_)
    fill_quantized(quantized_, value_.scalar_type());
  else if (filled())
    fill(value_.detach());
  for (const auto& [name, adapter] : adapters_) adapter->set_device(device);
}

void Weight::fill_whole(Tensor value) {
  layout_.begin = 0, layout_.count = -1;
  fill(std::move(value));
}

void Weight::update_buffer(const Tensor& seen) {
  HONE_ASSERT(is_buffer());
  const at::NoGradGuard no_grad;
  Tensor next = update_(use(), seen);
  HONE_ASSERT(next.sizes() == use().sizes());
  value_.copy_(next);  // in its place and type
}

void Weight::set_adapter(std::unique_ptr<Adapter> adapter, const std::string& name) {
  HONE_ASSERT(!name.empty());
  std::erase_if(adapters_, [&](const auto& entry) { return entry.first == name; });
  if (!adapter) return;
  adapter->set_device(device_);
  adapters_.emplace_back(name, std::move(adapter));
}

Adapter* Weight::adapter(std::string_view name) const {
  for (const auto& [own, adapter] : adapters_)
    if (own == name) return adapter.get();
  return nullptr;
}

std::vector<ops::LowRank> Adapter::low_ranks(const Pass&) const { return {}; }

void Weight::set_trainable(bool trainable) {
  HONE_ASSERT(!trainable || (!is_buffer() && held_as_.type == QuantType::none));
  trainable_ = trainable;
  if (!value_.defined()) return;
  value_.set_requires_grad(trainable);
  if (!trainable) clear_grad();
}

Tensor Weight::grad() const { return value_.defined() ? value_.grad() : Tensor(); }

void Weight::clear_grad() {
  if (value_.defined()) value_.mutable_grad() = Tensor();
}

template <class Visit>
void Module::walk(const Visit& visit, const std::string& prefix) const {
  for (const auto& [name, weight] : weights_) visit(prefix + name, *weight);
  for (const auto& [name, child] : children_) child->walk(visit, name.empty() ? prefix : prefix + name + ".");
}

void Module::each_weight(const std::function<void(const std::string&, Weight&)>& visit, const std::string& prefix) {
  walk(visit, prefix);
}

void Module::each_weight(const std::function<void(const std::string&, const Weight&)>& visit,
                         const std::string& prefix) const {
  walk(visit, prefix);
}

void Module::each_with_adapters(const std::function<void(const std::string&, Weight&)>& visit) {
  constexpr std::string_view kLast = "weight";
  const auto both = [&](const std::string& name, Weight& weight) {
    visit(name, weight);
    if (!weight.adapter()) return;
    const bool plain = name == kLast || name.ends_with(std::string(".") + std::string(kLast));
    weight.adapter()->each_weight(visit, plain ? name.substr(0, name.size() - kLast.size()) : name + ".");
  };
  walk(both, "");
}

bool Module::has_adapters() const {
  return std::any_of(weights_.begin(), weights_.end(), [](const auto& own) { return own.second->has_adapters(); }) ||
         std::any_of(children_.begin(), children_.end(), [](const auto& own) { return own.second->has_adapters(); });
}

void Module::set_device(at::Device device) {
  each_weight([&](const std::string&, Weight& weight) { weight.set_device(device); });
}

at::Device Module::device() const {
  std::optional<at::Device> found;
  each_weight([&](const std::string&, const Weight& weight) { found = found.value_or(weight.device()); });
  return found.value_or(at::kCPU);
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  each_weight([&](const std::string&, const Weight& weight) {
    if (!weight.is_buffer() && __builtin_add_overflow(count, weight.numel(), &count))
      throw Error(ErrorKind::config, "the model: more parameters than can be counted");
  });
  return count;
}

Weight& Module::parameter(std::string name, std::vector<std::int64_t> shape, Init init, bool decays) {
  return *weights_.emplace_back(std::move(name), std::make_unique<Weight>(std::move(shape), init, decays)).second;
}

Weight& Module::buffer(std::string name, std::vector<std::int64_t> shape, Init init, BufferUpdate update) {
  HONE_ASSERT(update != nullptr);
  Weight& made = parameter(std::move(name), std::move(shape), init, /*decays=*/false);
  made.trainable_ = false;
  made.update_ = std::move(update);
  return made;
}

}  // namespace hone
