// Products with few rows as a line of blocks of outputs, which threads share.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/cpu/products/quantized_rows.h"
#include "ops/cpu/products/skinny.h"
#include "ops/cpu/turned_rows.h"

namespace hone::ops {

inline constexpr std::int64_t kSkinnyBlock = 32;  // outputs: as many as tiles take at a time

// The rows that several products have in common, packed once for each kind of weight whose kernels want that.
class SharedRows {
 public:
  // What such a product gets as `packed`. Good until the next call for a weight of that kind.
  template <class T>
  const void* pack(const cpu::SkinnyProduct<T>& p) {
    if (p.turned) return nullptr;
    return p.quantized ? pack(cpu::quantized_row_kernels<T>(), p, quantized_)
                       : pack(cpu::skinny_kernels<T>(), p, lines_);
  }
  // For all of them.
  template <class T>
  void pack_for(std::span<cpu::SkinnyProduct<T>> products) {
    const void* packed[2] = {};
    for (cpu::SkinnyProduct<T>& p : products) {
      const void*& own = packed[p.quantized ? 1 : 0];
      if (!own) own = pack(p);
      p.packed = own;
    }
  }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  template <class T, class Kernels>
  static const void* pack(const Kernels& kernels, const cpu::SkinnyProduct<T>& p, std::vector<Line>& lines) {
    const std::int64_t bytes = kernels.pack ? kernels.packed_bytes(p.rows, p.in) : 0;
    if (bytes == 0) return nullptr;
    lines.resize(std::max<std::size_t>(lines.size(), (bytes + sizeof(Line) - 1) / sizeof(Line)));
    kernels.pack(p, lines.data());
    return lines.data();
  }
  std::vector<Line> lines_, quantized_;
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
  if (p.quantized)
    p.first += out;
  else
    p.weight += p.turned ? out : out * p.in;
  p.y += out;
  if (p.bias) p.bias += out;
  return p;
}

template <class T>
void multiply(const cpu::SkinnyProduct<T>& p) {
  if (p.quantized)
    cpu::quantized_row_kernels<T>().multiply(p);
  else if (p.turned)
    cpu::turned_row_kernels<T>().multiply(p);
  else
    cpu::skinny_kernels<T>().multiply(p);
}

// Blocks [begin, end) of all products one after another.
template <class T, class Products>
void multiply_blocks(const Products& products, std::int64_t begin, std::int64_t end) {
  for (const cpu::SkinnyProduct<T>& p : products) {  // [begin, end) counts from its first block
    const std::int64_t blocks = blocks_of(p);
    if (begin < blocks && end > 0) multiply(cut(p, std::max<std::int64_t>(0, begin), std::min(end, blocks)));
    begin -= blocks, end -= blocks;
  }
}

}  // namespace hone::ops
