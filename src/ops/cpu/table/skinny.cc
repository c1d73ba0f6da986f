// The CPU's products of few rows: the outputs of all weights are one line of work that the threads share.
#include <ATen/ATen.h>

#include <algorithm>

#include "hone/error.h"
#include "ops/cpu/gated.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"
#include "ops/parallel.h"
#include "ops/skinny_parts.h"

namespace hone::ops::cpu_table {
namespace {

// Blocks that a thread takes at least of weights by inputs, whose rows it would else read in scraps.
constexpr std::int64_t kTurnedBlocks = 16;
constexpr std::int64_t kLeastBytes = 32 << 10, kMostBytes = 256 << 10;  // of weights that a thread takes at a time

// A product and the contiguous tensors that it points to.
template <class T>
struct Part {
  cpu::SkinnyProduct<T> product;
  at::Tensor weight, bias;
};

// Whether a weight lies by inputs.
bool is_turned(const at::Tensor& weight_OI) { return !weight_OI.is_contiguous() && weight_OI.stride(0) == 1; }

template <class T>
Part<T> part_of(const at::Tensor& x_RI, const LinearWeight& w, at::Tensor& y_RO) {
  const bool turned = is_turned(w.weight_OI);
  const at::Tensor weight = turned ? w.weight_OI : w.weight_OI.contiguous();
  const at::Tensor bias = w.bias_O.defined() ? w.bias_O.contiguous() : at::Tensor();
  HONE_ASSERT(weight.size(1) == x_RI.size(1) && weight.size(0) == y_RO.size(1));
  const T* add = bias.defined() ? bias.const_data_ptr<T>() : nullptr;
  cpu::SkinnyProduct<T> product{x_RI.const_data_ptr<T>(), weight.const_data_ptr<T>(), add, x_RI.size(0), x_RI.size(1),
                                weight.size(0), y_RO.mutable_data_ptr<T>(), weight.size(0)};
  if (turned) product.turned = weight.stride(1);
  return {product, weight, bias};
}

// Runs run(begin, end) for all of [0, blocks), where a block needs `bytes` of weights; `least` of them at a time.
template <class Run>
void share_blocks(std::int64_t blocks, std::int64_t bytes, std::int64_t least, Run&& run) {
  const std::int64_t chunk =
      std::max(least, std::clamp<std::int64_t>(blocks / 16, kLeastBytes / bytes, kMostBytes / bytes));
  share_out((blocks + chunk - 1) / chunk,
            [&](std::int64_t unit) { run(unit * chunk, std::min(blocks, (unit + 1) * chunk)); });
}

template <class T>
std::int64_t least_of(const std::vector<cpu::SkinnyProduct<T>>& line) {
  return std::ranges::any_of(line, [](const auto& product) { return product.turned; }) ? kTurnedBlocks : 1;
}

template <class T>
std::int64_t block_bytes(const at::Tensor& x_RI) {
  return kSkinnyBlock * x_RI.size(1) * static_cast<std::int64_t>(sizeof(T));
}

at::Tensor room_for(const at::Tensor& x_RI, const LinearWeight& w) {
  return at::empty({x_RI.size(0), w.weight_OI.size(0)}, x_RI.options());
}

template <class T>
void products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights, std::vector<at::Tensor>& made) {
  std::vector<Part<T>> parts;
  std::vector<cpu::SkinnyProduct<T>> line;
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    parts.push_back(part_of<T>(x_RI, weights[i], made[i]));
    line.push_back(parts.back().product);
    blocks += blocks_of(line.back());
  }
  if (line.empty()) return;
  SharedRows rows;
  const void* packed = nullptr;
  for (cpu::SkinnyProduct<T>& product : line) {
    if (!packed) packed = rows.pack(product);
    if (!product.turned) product.packed = packed;
  }
  share_blocks(blocks, block_bytes<T>(x_RI), least_of(line),
               [&](std::int64_t begin, std::int64_t end) { multiply_blocks<T>(line, begin, end); });
}

// Of each group's rows the product with its weight. REQUIRES: y_SO lives as long.
template <class T>
struct GroupedLine {
  std::vector<Part<T>> parts;
  std::vector<cpu::SkinnyProduct<T>> products;
  std::int64_t blocks = 0;

  GroupedLine(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups, const at::Tensor& y_SO) {
    std::int64_t begin = 0;
    for (const SkinnyGroup& group : groups) {
      at::Tensor y_RO = y_SO.narrow(0, begin, group.rows);
      parts.push_back(part_of<T>(x_SI.narrow(0, begin, group.rows), *group.weight, y_RO));
      products.push_back(parts.back().product);
      blocks += blocks_of(products.back());
      begin += group.rows;
    }
  }
};

template <class T>
void group_products(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups, const at::Tensor& y_SO) {
  GroupedLine<T> line(x_SI, groups, y_SO);
  std::vector<SharedRows> rows(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) line.products[g].packed = rows[g].pack(line.products[g]);
  share_blocks(line.blocks, block_bytes<T>(x_SI), least_of(line.products),
               [&](std::int64_t begin, std::int64_t end) { multiply_blocks<T>(line.products, begin, end); });
}

template <class T>
void multiply_gated(const cpu::SkinnyProduct<T>& gate, const cpu::SkinnyProduct<T>& up, Activation activation) {
  const auto gated = cpu::gated_kernels<T>();
  multiply(gate);
  multiply(up);
  for (std::int64_t r = 0; r < gate.rows; ++r)
    gated.forward(activation, gate.y + r * gate.stride, up.y + r * up.stride, gate.outs, gate.y + r * gate.stride);
}

template <class T>
void gated_group_products(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& gates,
                          const std::vector<SkinnyGroup>& ups, Activation activation, const at::Tensor& y_SO) {
  const at::Tensor upper = at::empty_like(y_SO);
  GroupedLine<T> low(x_SI, gates, y_SO), high(x_SI, ups, upper);
  std::vector<SharedRows> rows(gates.size());
  for (std::size_t g = 0; g < gates.size(); ++g)
    low.products[g].packed = high.products[g].packed = rows[g].pack(low.products[g]);
  const std::int64_t least = std::max(least_of(low.products), least_of(high.products));
  share_blocks(low.blocks, 2 * block_bytes<T>(x_SI), least, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t g = 0; g < gates.size() && end > 0; ++g) {  // [begin, end) counts from its first block
      const std::int64_t blocks = blocks_of(low.products[g]), from = std::max<std::int64_t>(0, begin);
      const std::int64_t to = std::min(end, blocks);
      if (from < to) multiply_gated(cut(low.products[g], from, to), cut(high.products[g], from, to), activation);
      begin -= blocks, end -= blocks;
    }
  });
}

}  // namespace

std::vector<at::Tensor> skinny_products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  const at::Tensor x = x_RI.contiguous();
  std::vector<at::Tensor> made;
  for (const LinearWeight& w : weights) made.push_back(room_for(x, w));
  cpu::with_type(x.scalar_type(), [&]<class T>(T) { products<T>(x, weights, made); });
  return made;
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  return skinny_gated_groups(x_RI, {{x_RI.size(0), &gate}}, {{x_RI.size(0), &up}}, activation);
}

at::Tensor skinny_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups) {
  const at::Tensor x = x_SI.contiguous(), y = room_for(x, *groups[0].weight);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) { group_products<T>(x, groups, y); });
  return y;
}

at::Tensor skinny_gated_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& gates,
                               const std::vector<SkinnyGroup>& ups, Activation activation) {
  const at::Tensor x = x_SI.contiguous(), y = room_for(x, *gates[0].weight);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) { gated_group_products<T>(x, gates, ups, activation, y); });
  return y;
}

}  // namespace hone::ops::cpu_table
