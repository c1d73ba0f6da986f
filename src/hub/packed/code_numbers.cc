// Numbers with a point in eight bits as Open Compute Project's 8-bit Floating Point Specification 1.0 has them.
#include "hub/packed/code_numbers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "hub/packed/packed.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

constexpr int kCodes = 256, kPowerBias = 127, kNoPower = 255;

struct EightBits {
  int exponent_bits, bias;
  bool has_infinity;  // else only the largest code of a sign is no number
};
constexpr EightBits kE4M3{4, 7, false}, kE5M2{5, 15, true};

float number_of(std::uint8_t code, const EightBits& format) {
  const int fraction_bits = 7 - format.exponent_bits;
  const int fraction = code & ((1 << fraction_bits) - 1), exponent = (code & 127) >> fraction_bits;
  const bool highest = exponent == (1 << format.exponent_bits) - 1;
  const bool none = format.has_infinity ? highest && fraction > 0 : (code & 127) == 127;
  double size = exponent == 0 ? std::ldexp(fraction, 1 - format.bias - fraction_bits)
                              : std::ldexp((1 << fraction_bits) + fraction, exponent - format.bias - fraction_bits);
  if (format.has_infinity && highest) size = std::numeric_limits<double>::infinity();
  if (none) size = std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>(code & 128 ? -size : size);
}

template <class Number>
std::vector<float> all_numbers(Number&& number) {
  std::vector<float> made(kCodes);
  for (int code = 0; code < kCodes; ++code)
    made[static_cast<std::size_t>(code)] = number(static_cast<std::uint8_t>(code));
  return made;
}

std::vector<float> powers_of_two(const SafetensorsSet::Place& place) {
  std::vector<std::uint8_t> codes(place.tensor->bytes());
  place.file->read(*place.tensor, std::as_writable_bytes(std::span(codes)));
  std::vector<float> made(codes.size());
  std::transform(codes.begin(), codes.end(), made.begin(), [](std::uint8_t code) {
    return code == kNoPower ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, code - kPowerBias);
  });
  return made;
}

}  // namespace

std::vector<float> numbers_of_type(const std::string& dtype) {
  if (dtype == "I8")
    return all_numbers([](std::uint8_t code) { return static_cast<float>(std::bit_cast<std::int8_t>(code)); });
  if (dtype == "F8_E4M3") return all_numbers([](std::uint8_t code) { return number_of(code, kE4M3); });
  if (dtype == "F8_E5M2") return all_numbers([](std::uint8_t code) { return number_of(code, kE5M2); });
  return {};
}

std::vector<float> numbers_from(std::int64_t less) {
  return all_numbers([&](std::uint8_t code) { return static_cast<float>(code - less); });
}

std::vector<float> read_scale_numbers(const SafetensorsSet::Place& place, bool powers) {
  const std::string& dtype = place.tensor->dtype;
  const auto type = from_safetensors_name(dtype);
  std::vector<float> made;
  if (powers && (dtype == "F8_E8M0" || dtype == "U8")) {
    made = powers_of_two(place);
  } else if (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) {
    at::Tensor read = at::empty(place.tensor->shape, *type);
    place.file->read(*place.tensor, host::mutable_bytes(read));
    read = read.to(at::kFloat).contiguous();
    const std::span<const float> values = host::values<float>(read);
    made.assign(values.begin(), values.end());
  } else {
    throw unfit(place, fmt::format("got dtype {}, expected scales in F32, BF16{}", dtype,
                                   powers ? ", F16, F8_E8M0 or U8" : " or F16"));
  }
  if (!std::all_of(made.begin(), made.end(), [](float scale) { return std::isfinite(scale); }))
    throw unfit(place, "a scale is infinite or not a number");
  return made;
}

std::vector<std::uint32_t> read_words(const SafetensorsSet::Place& place) {
  if (place.tensor->dtype != "I32") throw unfit(place, fmt::format("got dtype {}, expected I32", place.tensor->dtype));
  std::vector<std::uint32_t> words(place.tensor->bytes() / sizeof(std::uint32_t));
  place.file->read(*place.tensor, std::as_writable_bytes(std::span(words)));
  return words;
}

}  // namespace hone::hub
