// Products with few rows as a line of blocks of outputs, which threads share.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/cpu/products/skinny.h"

namespace hone::ops {

inline constexpr std::int64_t kSkinnyBlock = 32;  // outputs: as many as tiles take at a time

// The rows that several products have in common, packed once where kernels want them so.
class SharedRows {
 public:
  // What such products get as `packed`. Good until the next call.
  template <class T>
  const void* pack(const cpu::SkinnyProduct<T>& p) {
    const auto kernels = cpu::skinny_kernels<T>();
    const std::int64_t bytes = kernels.pack ? kernels.packed_bytes(p.rows, p.in) : 0;
    if (bytes == 0) return nullptr;
    lines_.resize(std::max<std::size_t>(lines_.size(), (bytes + sizeof(Line) - 1) / sizeof(Line)));
    kernels.pack(p, lines_.data());
    return lines_.data();
  }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines_;
};

template <class T>
std::int64_t blocks_of(const cpu::SkinnyProduct<T>& p) {
  return (p.outs + kSkinnyBlock - 1) / kSkinnyBlock;
}

// The product's blocks [begin, end).
template <class T>
cpu::SkinnyProduct<T> cut(cpu::SkinnyProduct<T> p, std::int64_t begin, std::int64_t end) {
  const std::int64_t out = begin * kSkinnyBlock;
  p.outs = std::min(p.outs, end * kSkinnyBlock) - out;
  p.weight += out * p.in, p.y += out;
  if (p.bias) p.bias += out;
  return p;
}

// Blocks [begin, end) of all products one after another.
template <class T, class Products>
void multiply_blocks(const Products& products, std::int64_t begin, std::int64_t end) {
  const auto kernels = cpu::skinny_kernels<T>();
  for (const cpu::SkinnyProduct<T>& p : products) {  // [begin, end) counts from its first block
    const std::int64_t blocks = blocks_of(p);
    if (begin < blocks && end > 0) kernels.multiply(cut(p, std::max<std::int64_t>(0, begin), std::min(end, blocks)));
    begin -= blocks, end -= blocks;
  }
}

}  // namespace hone::ops
