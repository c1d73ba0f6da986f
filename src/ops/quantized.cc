// Quantizing, and back.
#include "ops/quantized.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "hone/error.h"
#include "ops/backend.h"
#include "ops/cpu/quantized.h"
#include "ops/kernels.h"
#include "ops/parallel.h"
#include "tensor/host.h"

namespace hone::ops {
namespace {

// Quantiles of a normal distribution, one of them 0 (Dettmers et al., 2023, appendix E).
constexpr std::array<float, 16> kNf4 = {-1.0f,
                                        -0.6961928009986877f,
                                        -0.5250730514526367f,
                                        -0.39491748809814453f,
                                        -0.28444138169288635f,
                                        -0.18477343022823334f,
                                        -0.09105003625154495f,
                                        0.0f,
                                        0.07958029955625534f,
                                        0.16093020141124725f,
                                        0.24611230194568634f,
                                        0.33791524171829224f,
                                        0.44070982933044434f,
                                        0.5626170039176941f,
                                        0.7229568362236023f,
                                        1.0f};
// A sign, two bits of exponent and one of mantissa, the largest one 1.
constexpr std::array<float, 16> kFp4 = {
    0.0f,  0.0052083334885537624f,  2.0f / 3,  1.0f,  1.0f / 3,  0.5f,  1.0f / 6,  0.25f,
    -0.0f, -0.0052083334885537624f, -2.0f / 3, -1.0f, -1.0f / 3, -0.5f, -1.0f / 6, -0.25f};

bool is_four_bits(QuantType type) { return type == QuantType::nf4 || type == QuantType::fp4; }

std::int64_t blocks_of(std::int64_t numel, std::int64_t block) { return (numel + block - 1) / block; }

at::Tensor tensor_of(const std::vector<float>& values) { return host::tensor_of(values, {std::ssize(values)}); }

// One tensor for all weights.
at::Tensor table_of(QuantType type) {
  static const auto *nf4 = new at::Tensor(tensor_of(quant_table(QuantType::nf4))),
                    *fp4 = new at::Tensor(tensor_of(quant_table(QuantType::fp4)));  // the allocator may go first
  return type == QuantType::nf4 ? *nf4 : *fp4;
}
at::Tensor table_of_scales() {
  static const auto* table = new at::Tensor(tensor_of(scale_table()));
  return *table;
}

// The table's values by size, and what is half-way between them. Of fp4's two zeros bitsandbytes gives numbers above 0
// the negative one, which is worth as much.
cpu::Nearest nearest_of(QuantType type) {
  const std::vector<float> table = quant_table(type);
  std::array<int, 16> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return table[a] < table[b]; });
  cpu::Nearest nearest;
  for (std::size_t i = 0; i < order.size(); ++i) {
    nearest.codes[i] = static_cast<std::uint8_t>(order[i]);
    if (i > 0) nearest.bounds[i - 1] = (table[order[i - 1]] + table[order[i]]) / 2;
  }
  return nearest;
}

// Scales in eight bits: what is left of them without their mean.
void quantize_scales(Quantized& made, std::vector<float> scales) {
  double sum = 0;
  for (const float scale : scales) sum += scale;
  made.scale_offset = static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(1, scales.size())));
  const std::vector<float> table = scale_table();
  std::vector<float> largest;
  std::vector<std::uint8_t> codes(scales.size());
  for (std::size_t begin = 0; begin < scales.size(); begin += kScaleBlock) {
    const std::size_t end = std::min<std::size_t>(scales.size(), begin + kScaleBlock);
    float most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(scales[i] -= made.scale_offset));
    for (std::size_t i = begin; i < end; ++i) {
      const float x = most > 0 ? scales[i] / most : 0;
      const auto above = std::lower_bound(table.begin(), table.end(), x);
      const bool lower = above == table.end() || (above != table.begin() && x - *(above - 1) <= *above - x);
      codes[i] = static_cast<std::uint8_t>(above - table.begin() - (lower ? 1 : 0));
    }
    largest.push_back(most);
  }
  made.scales = host::tensor_of(largest, {std::ssize(largest)});
  made.scale_codes = host::tensor_of(codes, {std::ssize(codes)});
  made.scale_table = table_of_scales();
}

void require_finite(std::span<const float> scales) {
  if (!std::all_of(scales.begin(), scales.end(), [](float scale) { return std::isfinite(scale); }))
    throw Error(ErrorKind::checkpoint, "a value is infinite or not a number, which cannot be quantized");
}

template <class T>
void to_four_bits(Quantized& made, std::span<const T> x) {
  const cpu::Nearest nearest = nearest_of(made.as.type);
  std::vector<float> scales(blocks_of(made.numel(), made.block));
  const std::span<std::uint8_t> codes = host::mutable_values<std::uint8_t>(made.codes);
  at::parallel_for(0, std::ssize(scales), grain(made.block), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t from = begin * made.block, to = std::min(made.numel(), end * made.block);
    cpu::quantized_kernels<T>().to_four_bits(x.data() + from, to - from, made.block, nearest, codes.data() + from / 2,
                                             scales.data() + begin);
  });
  require_finite(scales);
  if (made.as.double_quant)
    quantize_scales(made, std::move(scales));
  else
    made.scales = host::tensor_of(scales, {std::ssize(scales)});
}

template <class T>
void to_int8(Quantized& made, std::span<const T> x) {
  const std::int64_t rows = made.shape[0], in = made.shape[1];
  const std::span<std::int8_t> codes = host::mutable_values<std::int8_t>(made.codes);
  const std::span<float> scales = host::mutable_values<float>(made.scales);
  at::parallel_for(0, rows, grain(in), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      cpu::quantized_kernels<T>().to_int8(x.data() + r * in, in, codes.data() + r * in, &scales[r]);
  });
  require_finite(scales);
}

std::shared_ptr<Quantized> with_room(const std::vector<std::int64_t>& shape, QuantizedAs as, at::Device device) {
  auto made = std::make_shared<Quantized>(Quantized{.as = as, .shape = shape});
  const at::TensorOptions options = at::TensorOptions().device(device);
  const std::int64_t blocks = blocks_of(made->numel(), made->block);
  if (as.type == QuantType::int8) {
    made->codes = at::empty(shape, options.dtype(at::kChar));
    made->scales = at::empty({shape[0]}, options.dtype(at::kFloat));
    return made;
  }
  made->codes = at::empty({(made->numel() + 1) / 2}, options.dtype(at::kByte));
  made->table = table_of(as.type);
  if (!device.is_meta()) return made;
  made->scales = at::empty({as.double_quant ? blocks_of(blocks, kScaleBlock) : blocks}, options.dtype(at::kFloat));
  if (!as.double_quant) return made;
  made->scale_codes = at::empty({blocks}, options.dtype(at::kByte));
  made->scale_table = table_of_scales();
  return made;
}

// Of any device, by LibTorch's own operations.
at::Tensor composed(const Quantized& q) {
  if (q.as.type == QuantType::int8) return q.codes.to(at::kFloat) * (q.scales * (1.0f / 127.0f)).unsqueeze(1);
  const std::int64_t blocks = blocks_of(q.numel(), q.block);
  at::Tensor scales = q.scales;
  if (q.as.double_quant)
    scales = q.scale_table.index_select(0, q.scale_codes.to(at::kInt)) *
                 q.scales.repeat_interleave(kScaleBlock).narrow(0, 0, blocks) +
             q.scale_offset;
  const at::Tensor places = at::stack({q.codes.bitwise_right_shift(4), q.codes.bitwise_and(15)}, 1).flatten();
  at::Tensor values = q.table.index_select(0, places.to(at::kInt));
  if (const std::int64_t beyond = blocks * q.block - values.size(0); beyond != 0)
    values = at::constant_pad_nd(values, {0, beyond});  // or one of an odd number is cut off
  return (values.view({blocks, q.block}) * scales.unsqueeze(1)).flatten().narrow(0, 0, q.numel()).view(q.shape);
}

}  // namespace

std::vector<float> quant_table(QuantType type) {
  HONE_ASSERT(is_four_bits(type));
  const auto& table = type == QuantType::nf4 ? kNf4 : kFp4;
  return {table.begin(), table.end()};
}

// Seven decades of either sign; the k-th has 2^k values, in the middle of equal parts of what lies between a tenth of
// its largest and that (dynamic tree quantization, Dettmers, 2016, arXiv:1511.04561).
std::vector<float> scale_table() {
  std::vector<float> values{0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = 1 << decade;
    for (int i = 0; i < parts; ++i) {
      const double middle = 0.1 + 0.9 * (i + 0.5) / parts, value = std::pow(10.0, decade - 6) * middle;
      values.push_back(static_cast<float>(value)), values.push_back(static_cast<float>(-value));
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::uint64_t quantized_bytes(const std::vector<std::int64_t>& shape, QuantizedAs as) {
  return with_room(shape, as, at::kMeta)->bytes();
}

std::shared_ptr<const Quantized> quantize(const at::Tensor& weight_OI, QuantizedAs as) {
  HONE_ASSERT(weight_OI.dim() == 2 && as.type != QuantType::none && as.type != QuantType::stored);
  const at::NoGradGuard no_grad;
  if (weight_OI.is_meta()) return with_room(weight_OI.sizes().vec(), as, at::kMeta);
  if (!weight_OI.is_cpu()) return quantize(weight_OI.cpu(), as)->on(weight_OI.device());
  const bool half = weight_OI.scalar_type() == at::kHalf;
  const at::Tensor given = (half ? weight_OI.to(at::kFloat) : weight_OI).detach().contiguous();
  const std::shared_ptr<Quantized> made = with_room(given.sizes().vec(), as, at::kCPU);
  cpu::with_type(given.scalar_type(), [&]<class T>(T) {
    is_four_bits(as.type) ? to_four_bits(*made, host::values<T>(given)) : to_int8(*made, host::values<T>(given));
  });
  return made;
}

void dequantize_into(const Quantized& quantized, const at::Tensor& to) {
  HONE_ASSERT(to.sizes() == at::IntArrayRef(quantized.shape) && to.is_contiguous());
  if (to.is_meta()) return;
  const at::Tensor alone = to.variable_data();  // its changes are counted apart
  const at::NoGradGuard no_grad;
  const Backend* table = alone.numel() == 0 ? nullptr : backend_for({alone});
  if (table && table->elementwise.dequantize) return table->elementwise.dequantize(quantized, alone);
  alone.copy_(composed(quantized));
}

at::Tensor dequantize(const Quantized& quantized, at::ScalarType type) {
  at::Tensor made = at::empty(quantized.shape, quantized.codes.options().dtype(type));
  dequantize_into(quantized, made);
  return made;
}

}  // namespace hone::ops
