// Products of few rows: the outputs of all weights are one line of work that the threads share.
#include "ops/skinny.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "hone/error.h"
#include "ops/cpu/dot/skinny.h"
#include "ops/linear.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kBlock = 16;              // outputs
constexpr std::int64_t kThreadBytes = 64 << 10;  // of weights: less is not worth a second thread

template <class T>
struct Part {
  cpu::SkinnyProduct<T> product;
  at::Tensor weight, bias;  // contiguous: what `product` points to
  std::int64_t begin = 0;   // its first block
};

template <class T>
Part<T> part_of(const at::Tensor& x_RI, const LinearWeight& w, at::Tensor& y_RO, std::int64_t begin) {
  const at::Tensor weight = w.weight_OI.contiguous(), bias = w.bias_O.defined() ? w.bias_O.contiguous() : at::Tensor();
  const T* add = bias.defined() ? bias.const_data_ptr<T>() : nullptr;
  const std::int64_t outs = weight.size(0);
  return {{x_RI.const_data_ptr<T>(), weight.const_data_ptr<T>(), add, x_RI.size(0), x_RI.size(1), outs,
           y_RO.mutable_data_ptr<T>(), outs},
          weight, bias, begin};
}

// Blocks [begin, end) of the part.
template <class T>
cpu::SkinnyProduct<T> cut(const Part<T>& part, std::int64_t begin, std::int64_t end) {
  cpu::SkinnyProduct<T> p = part.product;
  const std::int64_t out = begin * kBlock;
  p.outs = std::min(p.outs, end * kBlock) - out;
  p.weight += out * p.in, p.y += out;
  if (p.bias) p.bias += out;
  return p;
}

template <class T>
void run(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights, std::vector<at::Tensor>& made) {
  std::vector<Part<T>> parts;
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    parts.push_back(part_of<T>(x_RI, weights[i], made[i], blocks));
    blocks += (parts.back().product.outs + kBlock - 1) / kBlock;
  }
  const auto kernels = cpu::skinny_kernels<T>();
  const std::int64_t block_bytes = kBlock * x_RI.size(1) * static_cast<std::int64_t>(sizeof(T));
  at::parallel_for(0, blocks, std::max<std::int64_t>(1, kThreadBytes / block_bytes),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (const Part<T>& part : parts) {
                       const std::int64_t last = part.begin + (part.product.outs + kBlock - 1) / kBlock;
                       const std::int64_t from = std::max(begin, part.begin), to = std::min(end, last);
                       if (from < to) kernels.multiply(cut(part, from - part.begin, to - part.begin));
                     }
                   });
}

}  // namespace

std::vector<at::Tensor> skinny_products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  HONE_ASSERT(x_RI.dim() == 2 && x_RI.size(0) <= kSkinnyRows);
  const at::Tensor x = x_RI.contiguous();
  std::vector<at::Tensor> made;
  for (const LinearWeight& w : weights) {
    HONE_ASSERT(w.weight_OI.size(1) == x.size(1));
    made.push_back(at::empty({x.size(0), w.weight_OI.size(0)}, x.options()));
  }
  cpu::with_type(x.scalar_type(), [&]<class T>(T) { run<T>(x, weights, made); });
  return made;
}

}  // namespace hone::ops
