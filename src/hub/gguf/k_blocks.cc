// Blocks of 256 numbers in groups of 16 or 32. Each group has a scale, and some a shift, of a few bits, in units that
// the block keeps as fp16. Scales are searched for: candidates are tried, and the one with the least weighted error
// is taken. The order of every sum is part of what is computed.
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "hub/gguf/blocks.h"

namespace hone::gguf {
namespace {

using io::GgufType;
constexpr std::size_t kBlock = 256;
constexpr float kNothing = 1e-15f;  // a group whose numbers are all smaller is zeros

// To the nearest integer, ties to even, by what adding 1.5 * 2^23 leaves of the fraction.
int nearest(float value) {
  const float shifted = value + 12582912.0f;
  std::int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  return (bits & 0x007fffff) - 0x00400000;
}

float through_half(float value) { return static_cast<float>(c10::Half(value)); }
std::uint16_t half_bits(float value) { return c10::Half(value).x; }

using Values = std::span<const float>;
using Codes = std::span<std::uint8_t>;

// --- Groups with a scale and a shift: x = scale code - shift, code in [0, most], shift >= 0.

struct Search {
  float first, step;  // candidates for how many codes the range takes, from most + first on
  int steps;
  bool absolute;  // the error is |difference|, else its square
};
struct Shifted {
  float scale, shift;
};

float error_of(Values x, Values weights, Codes codes, float scale, float least, bool absolute) {
  float error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float difference = scale * static_cast<float>(codes[i]) + least - x[i];
    error += weights[i] * (absolute ? std::fabs(difference) : difference * difference);
  }
  return error;
}

void codes_by(Values x, float inverse, float least, int most, Codes codes) {
  for (std::size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(std::clamp(nearest(inverse * (x[i] - least)), 0, most));
}

// The scale and the least value with which these codes fit best, by weighted least squares.
std::optional<Shifted> fit_codes(Values x, Values weights, Codes codes, float weight_sum, float x_sum) {
  float sum_l = 0, sum_l2 = 0, sum_xl = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float l = static_cast<float>(codes[i]), w = weights[i];
    sum_l += w * l;
    sum_l2 += w * l * l;
    sum_xl += w * l * x[i];
  }
  const float determinant = weight_sum * sum_l2 - sum_l * sum_l;
  if (!(determinant > 0)) return std::nullopt;
  const float scale = (weight_sum * sum_xl - x_sum * sum_l) / determinant;
  const float least = (sum_l2 * x_sum - sum_l * sum_xl) / determinant;
  return least > 0 ? Shifted{sum_xl / sum_l2, 0} : Shifted{scale, least};
}

// `codes` become those of what is returned: a group whose scale is rounded to zero keeps them.
Shifted search_shifted(Values x, Values weights, int most, const Search& how, std::uint8_t* found) {
  float least = x[0], largest = x[0], weight_sum = weights[0], x_sum = weights[0] * x[0];
  for (std::size_t i = 1; i < x.size(); ++i) {
    least = std::min(least, x[i]), largest = std::max(largest, x[i]);
    weight_sum += weights[i];
    x_sum += weights[i] * x[i];
  }
  least = std::min(least, 0.0f);
  if (largest == least) return {0, -least};  // codes are zeros
  std::uint8_t room[32];
  const Codes codes(found, x.size()), tried(room, x.size());
  const float inverse = static_cast<float>(most) / (largest - least);
  Shifted best{1 / inverse, least};
  codes_by(x, inverse, least, most, codes);
  float best_error = error_of(x, weights, codes, best.scale, least, how.absolute);
  for (int step = 0; step <= how.steps; ++step) {
    // A better one found so far has moved the zero from which the next candidates count.
    const float codes_of_range = how.first + how.step * static_cast<float>(step) + static_cast<float>(most);
    codes_by(x, codes_of_range / (largest - best.shift), best.shift, most, tried);
    const std::optional<Shifted> fit = fit_codes(x, weights, tried, weight_sum, x_sum);
    if (!fit) continue;
    const float error = error_of(x, weights, tried, fit->scale, fit->shift, how.absolute);
    if (!(error < best_error)) continue;
    best_error = error, best = *fit;
    std::copy(tried.begin(), tried.end(), found);
  }
  return {best.scale, -best.shift};
}

template <std::size_t kGroups>
struct ShiftedGroups {
  float scale[kGroups], shift[kGroups];
  float most_scale() const { return std::max(0.0f, *std::max_element(scale, scale + kGroups)); }
  float most_shift() const { return std::max(0.0f, *std::max_element(shift, shift + kGroups)); }
};

// Codes of a group by the scale and the shift that its file has of it.
void final_codes(Values x, float scale, float shift, int most, std::uint8_t* codes) {
  for (std::size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(std::clamp(nearest((x[i] + shift) / scale), 0, most));
}

// Eight scales and eight shifts of 6 bits in 12 bytes: the first four of each whole, of the others the low four bits
// side by side and the high two above the first ones'.
void pack_scales(const std::uint8_t (&scales)[8], const std::uint8_t (&shifts)[8], std::uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<std::uint8_t>(scales[j] | (scales[j + 4] >> 4 << 6));
    packed[j + 4] = static_cast<std::uint8_t>(shifts[j] | (shifts[j + 4] >> 4 << 6));
    packed[j + 8] = static_cast<std::uint8_t>((scales[j + 4] & 0x0F) | (shifts[j + 4] & 0x0F) << 4);
  }
}

// Q4_K and Q5_K: eight groups of 32; d, dmin, scales, for Q5_K the fifth bits, then four bits of each.
void block_of_eight(Values x, int most, const Search& how, std::uint8_t* out) {
  ShiftedGroups<8> groups;
  float weights[32];
  std::uint8_t scales[8], shifts[8], codes[kBlock] = {};
  for (std::size_t j = 0; j < 8; ++j) {
    const Values group = x.subspan(32 * j, 32);
    float squares = 0;
    for (const float v : group) squares += v * v;
    const float typical = std::sqrt(squares / 32);
    for (std::size_t i = 0; i < 32; ++i) weights[i] = typical + std::fabs(group[i]);
    const Shifted found = search_shifted(group, weights, most, how, codes + 32 * j);
    groups.scale[j] = found.scale, groups.shift[j] = found.shift;
  }
  const float most_scale = groups.most_scale(), most_shift = groups.most_shift();
  const float to_scale = most_scale > 0 ? 63.0f / most_scale : 0, to_shift = most_shift > 0 ? 63.0f / most_shift : 0;
  for (int j = 0; j < 8; ++j) {
    scales[j] = std::min<std::uint8_t>(63, static_cast<std::uint8_t>(nearest(to_scale * groups.scale[j])));
    shifts[j] = std::min<std::uint8_t>(63, static_cast<std::uint8_t>(nearest(to_shift * groups.shift[j])));
  }
  const std::uint16_t units[2] = {half_bits(most_scale / 63.0f), half_bits(most_shift / 63.0f)};
  std::memcpy(out, units, 4);
  pack_scales(scales, shifts, out + 4);
  const float unit = through_half(most_scale / 63.0f), shift_unit = through_half(most_shift / 63.0f);
  for (std::size_t j = 0; j < 8; ++j)
    if (const float d = unit * static_cast<float>(scales[j]); d != 0)
      final_codes(x.subspan(32 * j, 32), d, shift_unit * static_cast<float>(shifts[j]), most, codes + 32 * j);
  std::uint8_t* low = out + 16;
  if (most > 15) {
    for (std::size_t i = 0; i < 32; ++i) {
      int bits = 0;
      for (std::size_t j = 0; j < 8; ++j) bits |= codes[32 * j + i] >> 4 << j;
      out[16 + i] = static_cast<std::uint8_t>(bits);
    }
    low += 32;
  }
  for (std::size_t pair = 0; pair < 4; ++pair)
    for (std::size_t i = 0; i < 32; ++i)
      *low++ = static_cast<std::uint8_t>((codes[64 * pair + i] & 0x0F) | (codes[64 * pair + 32 + i] & 0x0F) << 4);
}

// Two bits of 256 numbers: four that are 32 apart share a byte.
void pack_two_bits(const std::uint8_t* codes, std::uint8_t* out) {
  for (std::size_t half = 0; half < kBlock; half += 128)
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint8_t* c = codes + half + i;
      *out++ = static_cast<std::uint8_t>(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
    }
}

// Q2_K: sixteen groups of 16; scales and shifts of 4 bits, two bits of each number, d, dmin.
void block_of_two_bits(Values x, std::uint8_t* out) {
  constexpr Search kHow{-0.5f, 0.1f, 15, true};
  ShiftedGroups<16> groups;
  float weights[16];
  std::uint8_t codes[kBlock] = {};
  for (std::size_t j = 0; j < 16; ++j) {
    const Values group = x.subspan(16 * j, 16);
    for (std::size_t i = 0; i < 16; ++i) weights[i] = std::fabs(group[i]);
    const Shifted found = search_shifted(group, weights, 3, kHow, codes + 16 * j);
    groups.scale[j] = found.scale, groups.shift[j] = found.shift;
  }
  const float most_scale = groups.most_scale(), most_shift = groups.most_shift();
  for (std::size_t j = 0; j < 16; ++j) {
    const int scale = most_scale > 0 ? nearest(15.0f / most_scale * groups.scale[j]) : 0;
    const int shift = most_shift > 0 ? nearest(15.0f / most_shift * groups.shift[j]) : 0;
    out[j] = static_cast<std::uint8_t>(scale | shift << 4);
  }
  const float unit = through_half(most_scale > 0 ? most_scale / 15.0f : 0);
  const float shift_unit = through_half(most_shift > 0 ? most_shift / 15.0f : 0);
  for (std::size_t j = 0; j < 16; ++j)
    if (const float d = unit * static_cast<float>(out[j] & 0x0F); d != 0)
      final_codes(x.subspan(16 * j, 16), d, shift_unit * static_cast<float>(out[j] >> 4), 3, codes + 16 * j);
  pack_two_bits(codes, out + 16);
  const std::uint16_t units[2] = {half_bits(unit), half_bits(shift_unit)};
  std::memcpy(out + 80, units, 4);
}

// --- Groups with a scale alone: x = scale code, code in [-half, half).

float farthest_of(Values x) {
  float most = 0, found = 0;
  for (const float v : x)
    if (std::fabs(v) > most) most = std::fabs(v), found = v;
  return found;
}

int signed_code(float value, int half) { return std::clamp(nearest(value), -half, half - 1); }

// Weighted sums over a group whose codes are `code(i)`: of x l and of l l.
struct SquareSums {
  float lx = 0, l2 = 0;
  void add(float w, float x, int l) {
    lx += w * x * static_cast<float>(l);
    l2 += w * static_cast<float>(l) * static_cast<float>(l);
  }
};
SquareSums sums_by(Values x, float inverse, int half) {
  SquareSums sums;
  for (const float v : x) sums.add(v * v, v, signed_code(inverse * v, half));
  return sums;
}

// Q6_K's: the best of 19 scales around the one that the farthest number asks for; large numbers weigh more. `codes`,
// zeros before, become those of the best.
float search_scale(Values x, int half, std::uint8_t* codes) {
  const float far = farthest_of(x);
  if (std::fabs(far) < kNothing) return 0;
  float inverse = static_cast<float>(-half) / far;
  SquareSums sums = sums_by(x, inverse, half);
  float scale = sums.l2 != 0 ? sums.lx / sums.l2 : 0, best = scale * sums.lx;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const float tried = -(static_cast<float>(half) + 0.1f * static_cast<float>(step)) / far;
    sums = sums_by(x, tried, half);
    if (!(sums.l2 > 0 && sums.lx * sums.lx > best * sums.l2)) continue;
    scale = sums.lx / sums.l2, best = scale * sums.lx, inverse = tried;
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(signed_code(inverse * x[i], half) + half);
  return scale;
}

// Q3_K's: codes are moved one at a time while that betters the fit. `found`, zeros before, become them.
float improve_scale(Values x, int half, std::uint8_t* found) {
  const float far = farthest_of(x);
  if (std::fabs(far) < kNothing) return 0;
  const float inverse = static_cast<float>(-half) / far;
  int codes[16];
  SquareSums sums;
  for (std::size_t i = 0; i < x.size(); ++i)
    sums.add(x[i] * x[i], x[i], codes[i] = signed_code(inverse * x[i], half));
  for (int round = 0; round < 5; ++round) {
    bool changed = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float w = x[i] * x[i], l = static_cast<float>(codes[i]);
      SquareSums without{sums.lx - w * x[i] * l, sums.l2 - w * l * l};
      if (!(without.lx > 0)) continue;
      const int code = signed_code(x[i] * without.l2 / without.lx, half);
      if (code == codes[i]) continue;
      without.add(w, x[i], code);
      if (!(without.l2 > 0 && without.lx * without.lx * sums.l2 > sums.lx * sums.lx * without.l2)) continue;
      codes[i] = code, sums = without, changed = true;
    }
    if (!changed) break;
  }
  for (std::size_t i = 0; i < x.size(); ++i) found[i] = static_cast<std::uint8_t>(codes[i] + half);
  return sums.l2 > 0 ? sums.lx / sums.l2 : 0;
}

struct Scales {
  float of[16], farthest = 0;  // farthest from zero, with its sign
};
template <class Find>
Scales scales_of(Values x, int half, const Find& find, std::uint8_t* codes) {
  Scales scales;
  for (std::size_t j = 0; j < 16; ++j) scales.of[j] = find(x.subspan(16 * j, 16), half, codes + 16 * j);
  scales.farthest = farthest_of(scales.of);
  return scales;
}

void signed_codes(Values x, float scale, int half, std::uint8_t* codes) {
  for (std::size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(signed_code(x[i] / scale, half) + half);
}

// Q3_K: third bits, two bits of each number, scales of 6 bits, d.
void block_of_three_bits(Values x, std::uint8_t* out) {
  constexpr int kHalf = 4;
  std::memset(out, 0, 110);
  std::uint8_t codes[kBlock] = {};
  const Scales found = scales_of(x, kHalf, improve_scale, codes);
  if (found.farthest != 0) {
    const float inverse = -32.0f / found.farthest, unit = through_half(1 / inverse);
    std::uint8_t* packed = out + 96;
    for (std::size_t j = 0; j < 16; ++j) {
      const int scale = signed_code(inverse * found.of[j], 32);
      const int bits = scale + 32;
      packed[j % 8] = static_cast<std::uint8_t>(packed[j % 8] | (bits & 0x0F) << (j < 8 ? 0 : 4));
      packed[8 + j % 4] = static_cast<std::uint8_t>(packed[8 + j % 4] | bits >> 4 << 2 * (j / 4));
      if (const float d = unit * static_cast<float>(scale); d != 0)
        signed_codes(x.subspan(16 * j, 16), d, kHalf, codes + 16 * j);
    }
    const std::uint16_t bits = half_bits(1 / inverse);
    std::memcpy(out + 108, &bits, 2);
  }
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (codes[i] < kHalf) continue;
    out[i % 32] = static_cast<std::uint8_t>(out[i % 32] | 1 << i / 32);
    codes[i] = static_cast<std::uint8_t>(codes[i] - kHalf);
  }
  pack_two_bits(codes, out + 32);
}

// Q6_K: low four bits, high two, scales of 8 bits, d.
void block_of_six_bits(Values x, std::uint8_t* out) {
  constexpr int kHalf = 32;
  std::memset(out, 0, 210);
  std::uint8_t codes[kBlock] = {};
  const Scales found = scales_of(x, kHalf, search_scale, codes);
  if (std::fabs(found.farthest) < kNothing) return;
  const float inverse = -128.0f / found.farthest, unit = through_half(1 / inverse);
  for (std::size_t j = 0; j < 16; ++j) {
    const auto scale = static_cast<std::int8_t>(std::min(127, nearest(inverse * found.of[j])));
    out[192 + j] = static_cast<std::uint8_t>(scale);
    if (const float d = unit * static_cast<float>(scale); d != 0)
      signed_codes(x.subspan(16 * j, 16), d, kHalf, codes + 16 * j);
  }
  const std::uint16_t bits = half_bits(1 / inverse);
  std::memcpy(out + 208, &bits, 2);
  for (std::size_t half = 0; half < 2; ++half)
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint8_t* c = codes + 128 * half + i;
      out[64 * half + i] = static_cast<std::uint8_t>((c[0] & 0x0F) | (c[64] & 0x0F) << 4);
      out[64 * half + 32 + i] = static_cast<std::uint8_t>((c[32] & 0x0F) | (c[96] & 0x0F) << 4);
      out[128 + 32 * half + i] =
          static_cast<std::uint8_t>(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
    }
}

}  // namespace

bool is_k(GgufType type) { return io::block_values(type) == static_cast<std::int64_t>(kBlock); }

void to_k_blocks(GgufType type, std::span<const float> x, std::byte* made) {
  auto* out = reinterpret_cast<std::uint8_t*>(made);
  for (std::size_t at = 0; at < x.size(); at += kBlock, out += io::block_bytes(type)) {
    const Values block = x.subspan(at, kBlock);
    switch (type) {
      case GgufType::q2_k:
        block_of_two_bits(block, out);
        break;
      case GgufType::q3_k:
        block_of_three_bits(block, out);
        break;
      case GgufType::q4_k:
        block_of_eight(block, 15, {-1.0f, 0.1f, 20, false}, out);
        break;
      case GgufType::q5_k:
        block_of_eight(block, 31, {-0.5f, 0.1f, 15, false}, out);
        break;
      default:
        HONE_ASSERT(type == GgufType::q6_k);
        block_of_six_bits(block, out);
    }
  }
}

}  // namespace hone::gguf
