// Memory of tensors that are never there.
#include "tensor/meta_memory.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/arena.h"
#include "tensor/tensor_memory.h"

namespace hone {

struct MetaMemory::State {
  static constexpr std::size_t kRegion = std::size_t{1} << 46;
  Arena arena{reinterpret_cast<void*>(Arena::kAlignment), kRegion};
  std::size_t small = 0, most_small = 0, most = 0;  // of the small ones, which are malloc's

  std::size_t in_use() const { return arena.in_use() + small; }
  void note() { most = std::max(most, in_use()), most_small = std::max(most_small, small); }
};

namespace {

std::mutex one_at_a_time;

// The state of the one that lives. LibTorch keeps one allocator for ever.
std::shared_ptr<void> current;

}  // namespace

class MetaMemory::Allocator final : public at::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    const at::Device device(at::kMeta);
    if (!current || bytes == 0) return {nullptr, device};
    auto* block = new Block{std::static_pointer_cast<State>(current), nullptr, 0};
    if (bytes >= kLeastInRegion) block->place = block->state->arena.take(bytes);
    if (!block->place) block->state->small += block->small = (bytes + 79) / 64 * 64;  // with malloc's own
    block->state->note();
    return {nullptr, block, &give_back, device};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}

 private:
  struct Block {
    std::shared_ptr<State> state;
    void* place;
    std::size_t small;
  };
  static void give_back(void* pointer) {
    const std::unique_ptr<Block> block(static_cast<Block*>(pointer));
    block->state->small -= block->small;
    block->state->arena.give_back(block->place);
  }
};

namespace {

at::Tensor select_rows(const at::Tensor& x, std::int64_t dim, const at::Tensor& index) {
  auto sizes = x.sizes().vec();
  if (!sizes.empty()) sizes.at(static_cast<std::size_t>(at::maybe_wrap_dim(dim, x.dim()))) = index.numel();
  return at::empty(sizes, x.options());
}
at::Tensor& fill_where(at::Tensor& x, const at::Tensor&, const at::Scalar&) { return x; }
at::Tensor either(const at::Tensor& which, const at::Tensor& a, const at::Tensor& b) {
  return at::empty(at::infer_size(which.sizes(), at::infer_size(a.sizes(), b.sizes())),
                   a.options().dtype(at::result_type(a, b)));
}
at::Tensor quotient(const at::Tensor& x, const at::Tensor& by) {
  return at::empty(at::infer_size(x.sizes(), by.sizes()), x.options().dtype(at::result_type(x, by)));
}
at::Tensor& absolute(const at::Tensor& x, at::Tensor& made) { return made.resize_(x.sizes()), made; }
std::tuple<at::Tensor, at::Tensor> sigmoid_logarithm(const at::Tensor& x) {
  return {at::empty_like(x), at::empty_like(x)};
}
at::Tensor positive_part(const at::Tensor& x) { return at::empty_like(x); }
at::Tensor turned(const at::Tensor& x, at::IntArrayRef) { return at::empty(x.sizes(), x.options()); }
at::Tensor& both(const at::Tensor& a, const at::Tensor& b, at::Tensor& made) {
  return made.resize_(at::infer_size(a.sizes(), b.sizes())), made;
}
// The normed rows, and of each row its mean and the inverse of its deviation.
std::tuple<at::Tensor, at::Tensor, at::Tensor> normed_rows(const at::Tensor& x, c10::SymIntArrayRef shape,
                                                           const std::optional<at::Tensor>& weight,
                                                           const std::optional<at::Tensor>&, double) {
  auto sizes = x.sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(shape.size()), sizes.end(), 1);
  const bool mixed = weight && weight->defined() && weight->scalar_type() != x.scalar_type();
  const at::Tensor mean = at::empty(sizes, x.options().dtype(mixed ? at::kFloat : x.scalar_type()));
  return {at::empty_like(x), mean, at::empty_like(mean)};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> normed_rows_slopes(
    const at::Tensor&, const at::Tensor& x, c10::SymIntArrayRef, const at::Tensor&, const at::Tensor&,
    const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias, std::array<bool, 3> wanted) {
  const auto like = [](bool is_wanted, const at::Tensor& one) {
    return is_wanted ? at::empty_like(one) : at::Tensor();
  };
  return {like(wanted[0], x), like(wanted[1], weight.value_or(at::Tensor())),
          like(wanted[2], bias.value_or(at::Tensor()))};
}
at::Tensor sigmoid_logarithm_slope(const at::Tensor& dy, const at::Tensor&, const at::Tensor&) {
  return at::empty_like(dy);
}

// Shapes that LibTorch knows in Python alone. Once per process.
void teach_shapes() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
  static const bool taught = [] {
    library.impl("index_select", TORCH_FN(select_rows));
    library.impl("masked_fill_.Scalar", TORCH_FN(fill_where));
    library.impl("where.self", TORCH_FN(either));
    library.impl("floor_divide", TORCH_FN(quotient));
    library.impl("abs.out", TORCH_FN(absolute));
    library.impl("relu", TORCH_FN(positive_part));
    library.impl("flip", TORCH_FN(turned));
    library.impl("logical_and.out", TORCH_FN(both));
    library.impl("logical_not.out", TORCH_FN(absolute));
    library.impl("native_layer_norm", TORCH_FN(normed_rows));
    library.impl("native_layer_norm_backward", TORCH_FN(normed_rows_slopes));
    library.impl("log_sigmoid_forward", TORCH_FN(sigmoid_logarithm));
    library.impl("log_sigmoid_backward", TORCH_FN(sigmoid_logarithm_slope));
    return true;
  }();
  (void)taught;
}

}  // namespace

MetaMemory::MetaMemory() : state_(std::make_shared<State>()) {
  static Allocator allocator;
  static const bool placed = (c10::SetAllocator(at::kMeta, &allocator, /*priority=*/255), true);
  (void)placed;
  teach_shapes();
  one_at_a_time.lock();
  current = state_;
}

MetaMemory::~MetaMemory() {
  current.reset();
  one_at_a_time.unlock();
}

std::size_t MetaMemory::in_use() const { return state_->in_use(); }
std::size_t MetaMemory::most() const { return state_->most; }
void MetaMemory::forget_most() { state_->most = state_->in_use(); }
std::size_t MetaMemory::reached() const { return state_->arena.reached() + state_->most_small; }

}  // namespace hone
