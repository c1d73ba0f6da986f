// Products with weights of few bits; compiled once per instruction set.
#include "ops/cpu/products/quantized_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/cpu/products/whole_dots-inl.h"
#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kMostRows = 16;

// Number by number, with what the codes stand for.
template <class T>
void multiply_plainly(const SkinnyProduct<T>& p) {
  using W = Wide<T>;
  const QuantizedRows& w = *p.quantized;
  for (std::int64_t o = 0; o < p.outs; ++o) {
    W sums[kMostRows] = {};
    const std::int64_t begin = (p.first + o) * p.in;
    for (std::int64_t i = 0; i < p.in; ++i) {
      const std::int64_t at = begin + i;
      W weight;
      if (w.four.codes) {
        const std::uint8_t both = w.four.codes[at / 2];
        weight = w.four.table[at % 2 == 0 ? both >> 4 : both & 15] * w.four.scales.of(at / w.four.block);
      } else {
        weight = w.int8[at] * (w.row_scales[p.first + o] * (1.0f / 127.0f));
      }
      for (std::int64_t r = 0; r < p.rows; ++r) sums[r] += weight * load_one(p.x + r * p.in + i);
    }
    for (std::int64_t r = 0; r < p.rows; ++r)
      store_one(p.y + r * p.stride + o, p.bias ? sums[r] + load_one(p.bias + o) : sums[r]);
  }
}

#if defined(HONE_WHOLE_DOTS)

constexpr std::int64_t kChunk = 64, kAhead = 4096;  // numbers that share a scale of x; bytes
constexpr float kMostX = 32767, kMostFour = 4095;

// Rows of x as whole numbers, then their chunks' scales. Four bits want the numbers in another order than eight
// (WholeDots::place_of), so there are both.
struct PackedX {
  const std::int16_t *plain, *woven;
  const float* scales;
};

std::int64_t packed_bytes(std::int64_t rows, std::int64_t in) {
  return in % kChunk == 0 ? rows * (in * 4 + in / kChunk * 4) : 0;
}

PackedX view_of(const void* packed, std::int64_t rows, std::int64_t in) {
  const auto* numbers = static_cast<const std::int16_t*>(packed);
  return {numbers, numbers + rows * in, reinterpret_cast<const float*>(numbers + 2 * rows * in)};
}

template <class T>
void pack(const SkinnyProduct<T>& p, void* to) {
  const std::int64_t rows = p.rows, in = p.in;
  auto* plain = static_cast<std::int16_t*>(to);
  auto* woven = plain + rows * in;
  auto* scales = reinterpret_cast<float*>(plain + 2 * rows * in);
  for (std::int64_t at = 0; at < rows * in; at += kChunk) {
    float values[kChunk], most = 0;
    for (std::int64_t i = 0; i < kChunk; ++i) {
      values[i] = static_cast<float>(load_one(p.x + at + i));
      const float size = std::abs(values[i]);
      most = size > most || size != size ? size : most;
    }
    const float by = most > 0 ? kMostX / most : 0;
    scales[at / kChunk] = most / kMostX;  // not finite: neither are the sums
    for (std::int64_t i = 0; i < kChunk; ++i) {
      const auto number = static_cast<std::int16_t>(std::nearbyint(by > 0 && by < INFINITY ? values[i] * by : 0));
      plain[at + i] = number, woven[at + WholeDots::place_of(i)] = number;
    }
  }
}

WholeDots::Table table_of(const float* table) {
  std::int16_t numbers[16];
  for (int i = 0; i < 16; ++i) numbers[i] = static_cast<std::int16_t>(std::nearbyint(table[i] * kMostFour));
  return WholeDots::table_of(numbers);
}

// Sums of kRows rows with one row of the weight, of which chunk(c, weights) gives the scale and the numbers.
template <int kRows, class Chunk>
HONE_INLINE void add_up(const std::int16_t* x, const float* scales, std::int64_t in, Chunk&& chunk, float* sums) {
  const std::int64_t chunks = in / kChunk;
  WholeDots::Sum sum[2][kRows];
  HONE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[0][r] = sum[1][r] = WholeDots::zero();
  const auto add = [&](std::int64_t c, WholeDots::Sum* to) HONE_LAMBDA {
    WholeDots::Numbers weights[WholeDots::kRegisters];
    const float scale = chunk(c, weights);
    HONE_UNROLL
    for (int r = 0; r < kRows; ++r)
      to[r] = WholeDots::add(to[r], weights, x + r * in + c * kChunk, scale * scales[r * chunks + c]);
  };
  std::int64_t c = 0;
  for (; c + 2 <= chunks; c += 2) add(c, sum[0]), add(c + 1, sum[1]);
  if (c < chunks) add(c, sum[0]);
  HONE_UNROLL
  for (int r = 0; r < kRows; ++r) sums[r] = WholeDots::total(sum[0][r] + sum[1][r]);
}

template <class Chunk>
void add_up_rows(std::int64_t rows, const std::int16_t* x, const float* scales, std::int64_t in, const Chunk& chunk,
                 float* sums) {
  std::int64_t r = 0;
  const auto some = [&]<int kRows>(std::integral_constant<int, kRows>) {
    add_up<kRows>(x + r * in, scales + r * (in / kChunk), in, chunk, sums + r);
    r += kRows;
  };
  while (rows - r >= 4) some(std::integral_constant<int, 4>());
  if (rows - r >= 2) some(std::integral_constant<int, 2>());
  if (rows - r >= 1) some(std::integral_constant<int, 1>());
}

template <class T>
void put(const SkinnyProduct<T>& p, std::int64_t o, const float* sums, float scale) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const float sum = sums[r] * scale;
    store_one(p.y + r * p.stride + o, p.bias ? sum + load_one(p.bias + o) : sum);
  }
}

template <class T>
void multiply_four_bits(const SkinnyProduct<T>& p, const PackedX& x) {
  const FourBits& w = p.quantized->four;
  const WholeDots::Table table = table_of(w.table);
  const int block = std::countr_zero(static_cast<std::uint64_t>(w.block));  // a power of two
  float sums[kMostRows];
  for (std::int64_t o = 0; o < p.outs; ++o) {
    const std::int64_t begin = (p.first + o) * p.in;
    const auto chunk = [&](std::int64_t c, WholeDots::Numbers* weights) HONE_LAMBDA {
      const std::int64_t at = begin + c * kChunk;
      __builtin_prefetch(w.codes + at / 2 + kAhead);
      WholeDots::four_bits(w.codes + at / 2, table, weights);
      return w.scales.of(at >> block);
    };
    add_up_rows(p.rows, x.woven, x.scales, p.in, chunk, sums);
    put(p, o, sums, 1 / kMostFour);
  }
}

template <class T>
void multiply_int8(const SkinnyProduct<T>& p, const PackedX& x) {
  float sums[kMostRows];
  for (std::int64_t o = 0; o < p.outs; ++o) {
    const std::int8_t* row = p.quantized->int8 + (p.first + o) * p.in;
    const auto chunk = [&](std::int64_t c, WholeDots::Numbers* weights) HONE_LAMBDA {
      __builtin_prefetch(row + c * kChunk + kAhead);
      WholeDots::eight_bits(row + c * kChunk, weights);
      return 1.0f;
    };
    add_up_rows(p.rows, x.plain, x.scales, p.in, chunk, sums);
    put(p, o, sums, p.quantized->row_scales[p.first + o] * (1.0f / 127.0f));
  }
}

template <class T>
void multiply_in_chunks(const SkinnyProduct<T>& p) {
  if (!p.packed || !in_chunks(p.in, p.quantized->four.codes ? p.quantized->four.block : kChunk))
    return multiply_plainly(p);
  const PackedX x = view_of(p.packed, p.rows, p.in);
  p.quantized->four.codes ? multiply_four_bits(p, x) : multiply_int8(p, x);
}

#endif

}  // namespace

template <class T>
QuantizedRowKernels<T> quantized_row_kernels() {
#if defined(HONE_WHOLE_DOTS)
  if constexpr (!std::is_same_v<T, double>) return {multiply_in_chunks<T>, packed_bytes, pack<T>};
#endif
  return {multiply_plainly<T>};
}
HONE_INSTANTIATE_KERNELS(QuantizedRowKernels, quantized_row_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
