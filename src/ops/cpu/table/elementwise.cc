// The CPU's elementwise primitives.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <vector>

#include "ops/cpu/clamped_gate.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/gated.h"
#include "ops/cpu/quantized.h"
#include "ops/cpu/rope.h"
#include "ops/cpu/routed.h"
#include "ops/cpu/table/table.h"
#include "ops/dropout_words.h"
#include "ops/few_choices.h"
#include "ops/kernels.h"
#include "ops/parallel.h"
#include "ops/quantized_parts.h"
#include "ops/routed_parts.h"
#include "ops/skinny.h"
#include "tensor/host.h"

namespace hone::ops::cpu_table {
namespace {

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  const at::Tensor g = gate.contiguous(), u = up.contiguous();
  at::Tensor y = at::empty_like(g);
  cpu::with_type(g.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::gated_kernels<T>();
    at::parallel_for(0, g.numel(), grain(1), [&](std::int64_t begin, std::int64_t end) {
      kernels.forward(activation, g.const_data_ptr<T>() + begin, u.const_data_ptr<T>() + begin, end - begin,
                      y.mutable_data_ptr<T>() + begin);
    });
  });
  return y;
}

GatedGradients gated_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, Activation activation,
                              GatedWish wish) {
  const at::Tensor g = gate.contiguous(), u = up.contiguous(), d = dy.contiguous();
  GatedGradients made{at::empty_like(g), wish.overwrite ? d : at::empty_like(u),
                      wish.inner ? at::empty_like(g) : at::Tensor()};
  cpu::with_type(g.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::gated_kernels<T>();
    at::parallel_for(0, g.numel(), grain(1), [&](std::int64_t begin, std::int64_t end) {
      kernels.backward(activation, d.const_data_ptr<T>() + begin, g.const_data_ptr<T>() + begin,
                       u.const_data_ptr<T>() + begin, end - begin, made.gate.mutable_data_ptr<T>() + begin,
                       made.up.mutable_data_ptr<T>() + begin,
                       wish.inner ? made.inner.mutable_data_ptr<T>() + begin : nullptr);
    });
  });
  return made;
}

at::Tensor clamped_gate(const at::Tensor& both_SJ, const ClampedGate& gate) {
  const at::Tensor y_SI = at::empty({both_SJ.size(0), both_SJ.size(1) / 2}, both_SJ.options());
  cpu::with_type(both_SJ.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::clamped_gate_kernels<T>();
    const auto alpha = static_cast<cpu::Wide<T>>(gate.alpha), limit = static_cast<cpu::Wide<T>>(gate.limit);
    at::parallel_for(0, y_SI.numel(), grain(1), [&](std::int64_t begin, std::int64_t end) {
      kernels.forward(both_SJ.const_data_ptr<T>() + 2 * begin, end - begin, alpha, limit,
                      y_SI.mutable_data_ptr<T>() + begin);
    });
  });
  return y_SI;
}

at::Tensor clamped_gate_backward(const at::Tensor& d_SI, const at::Tensor& both_SJ, const ClampedGate& gate) {
  const at::Tensor made_SJ = at::empty_like(both_SJ);
  cpu::with_type(both_SJ.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::clamped_gate_kernels<T>();
    const auto alpha = static_cast<cpu::Wide<T>>(gate.alpha), limit = static_cast<cpu::Wide<T>>(gate.limit);
    at::parallel_for(0, d_SI.numel(), grain(1), [&](std::int64_t begin, std::int64_t end) {
      kernels.backward(d_SI.const_data_ptr<T>() + begin, both_SJ.const_data_ptr<T>() + 2 * begin, end - begin, alpha,
                       limit, made_SJ.mutable_data_ptr<T>() + 2 * begin);
    });
  });
  return made_SJ;
}

void rotate_into(const at::Tensor& y_NHK, const at::Tensor& x_NHK, const RopeTable& table, bool back) {
  const std::int64_t heads = x_NHK.size(1), half = x_NHK.size(2) / 2;
  cpu::with_type(x_NHK.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    cpu::RopeArgs<T> all{.x_stride = x_NHK.stride(0),
                         .cos = table.cos.const_data_ptr<W>(),
                         .sin = table.sin.const_data_ptr<W>(),
                         .heads = heads,
                         .half = half,
                         .back = back,
                         .y_stride = y_NHK.stride(0)};
    at::parallel_for(0, x_NHK.size(0), grain(heads * half * 2), [&](std::int64_t begin, std::int64_t end) {
      cpu::RopeArgs<T> part = all;
      part.x = x_NHK.const_data_ptr<T>() + begin * part.x_stride;
      part.y = y_NHK.mutable_data_ptr<T>() + begin * part.y_stride;
      part.rows = table.rows_N.const_data_ptr<std::int64_t>() + begin;
      part.tokens = end - begin;
      cpu::rope_kernels<T>().rotate(part);
    });
  });
}

constexpr std::int64_t kRoomBehind = 16;  // words that kernels may read behind the last column's

at::Tensor dropout(const at::Tensor& given, double rate, const DropoutSeed& seed) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  const std::int64_t columns = x.size(-1);
  const DropoutWords words(seed, x.numel() / columns, columns + kRoomBehind);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::dropout_kernels<T>();
    at::parallel_for(0, x.numel() / columns, grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        kernels.row(rate, words.rows[r], words.columns.data(), x.const_data_ptr<T>() + r * columns, columns,
                    y.mutable_data_ptr<T>() + r * columns);
    });
  });
  return y;
}

template <class T>
void by_kernels(const Quantized& q, std::span<T> to) {
  const auto kernels = cpu::quantized_kernels<T>();
  const std::int64_t in = q.shape[1];
  if (q.as.type == QuantType::int8) {
    const std::int8_t* codes = host::values<std::int8_t>(q.codes).data();
    const float* scales = host::values<float>(q.scales).data();
    at::parallel_for(0, q.shape[0], grain(in), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) kernels.from_int8(codes + r * in, scales[r], in, to.data() + r * in);
    });
    return;
  }
  const cpu::FourBits from = four_bits(q);
  at::parallel_for(0, (q.numel() + q.block - 1) / q.block, grain(q.block), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * q.block;
    kernels.from_four_bits(from, first, std::min(q.numel(), end * q.block), to.data() + first);
  });
}

void dequantize(const Quantized& quantized, const at::Tensor& to) {
  cpu::with_type(to.scalar_type(), [&]<class T>(T) { by_kernels(quantized, host::mutable_values<T>(to)); });
}

using Routed = RoutedParts<gated, gated_backward>;

// Of few tokens, as in decoding, by kernels: the decoder's bits (nn/decoding).
RoutedChoice choose(const at::Tensor& given_NE, const ChoiceOptions& options) {
  const std::int64_t tokens = given_NE.size(0), experts = given_NE.size(1);
  if (tokens > kSkinnyRows) return Routed::choose(given_NE, options);
  const at::Tensor logits_NE = given_NE.contiguous();
  const auto wide = logits_NE.options().dtype(at::toOpMathType(logits_NE.scalar_type()));
  const RoutedChoice made{at::empty({tokens, experts}, wide), at::empty({tokens, options.per_token}, wide),
                          at::empty({tokens, options.per_token}, wide.dtype(at::kLong))};
  cpu::with_type(logits_NE.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    for (std::int64_t n = 0; n < tokens; ++n)
      choose_for_one(logits_NE.const_data_ptr<T>() + n * experts, experts, options,
                     made.probability_NE.mutable_data_ptr<W>() + n * experts,
                     made.weight_NK.mutable_data_ptr<W>() + n * options.per_token,
                     made.expert_NK.mutable_data_ptr<std::int64_t>() + n * options.per_token);
  });
  return made;
}

at::Tensor add_up(const at::Tensor& given_SD, const at::Tensor& place_NK, const at::Tensor& given_NK) {
  const std::int64_t tokens = place_NK.size(0), count = place_NK.size(1), columns = given_SD.size(1);
  if (tokens > kSkinnyRows) return Routed::add_up(given_SD, place_NK, given_NK);
  const at::Tensor y_SD = given_SD.contiguous(), place = place_NK.contiguous(),
                   weight_NK = given_NK.defined() ? given_NK.contiguous() : given_NK;
  at::Tensor sum_ND = at::empty({tokens, columns}, y_SD.options());
  cpu::with_type(y_SD.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    std::vector<cpu::RoutedPart<T>> parts(count);
    for (std::int64_t n = 0; n < tokens; ++n) {
      for (std::int64_t k = 0; k < count; ++k)
        parts[k] = {y_SD.const_data_ptr<T>() + place.const_data_ptr<std::int64_t>()[n * count + k] * columns, nullptr,
                    weight_NK.defined() ? weight_NK.const_data_ptr<W>()[n * count + k] : W(1)};
      cpu::routed_kernels<T>().add_up({.parts = parts.data(),
                                       .count = count,
                                       .columns = columns,
                                       .to = sum_ND.mutable_data_ptr<T>() + n * columns});
    }
  });
  return sum_ND;
}

}  // namespace

Backend::Elementwise elementwise() {
  return {gated,      gated_backward, rotate_into,          dropout, /*multiply=*/nullptr,
          dequantize, clamped_gate,   clamped_gate_backward};
}
Backend::Routed routed() {
  Backend::Routed all = Routed::all();
  all.choose = choose, all.add_up = add_up;
  return all;
}

}  // namespace hone::ops::cpu_table
