// What a model is computed in.
#pragma once

#include "hone/config.h"

namespace hone {

// The type of weights and activations in a step; what is kept besides (masters, moments, sums) is fp32, in fp64 fp64.
enum class Precision { automatic, fp32, bf16, fp16, fp64 };
template <>
inline constexpr auto config::enum_names<Precision> = std::to_array<std::pair<Precision, std::string_view>>(
    {{Precision::automatic, "auto"},
     {Precision::fp32, "fp32"},
     {Precision::bf16, "bf16"},
     {Precision::fp16, "fp16"},
     {Precision::fp64, "fp64"}});

// Products of linear layers in fp8 while training, each factor scaled by its largest value: not, by one scale for a
// matrix, or by one for each row of what is summed over (torchao's float8 recipes of these names).
enum class Float8 { off, tensorwise, rowwise };
template <>
inline constexpr auto config::enum_names<Float8> = std::to_array<std::pair<Float8, std::string_view>>(
    {{Float8::off, "off"}, {Float8::tensorwise, "tensorwise"}, {Float8::rowwise, "rowwise"}});

// Whether what is trained is kept in fp32 besides, as it is too fine for the type that is computed in.
constexpr bool has_masters(Precision precision) { return precision == Precision::bf16 || precision == Precision::fp16; }

// auto = bf16 where the machine has bf16 dot products, else fp32.
HONE_API Precision resolve(Precision precision);

}  // namespace hone
