// Numbers of four bits, made whole band by band: rows of an expert are read, and become columns.
#include "hub/mxfp4.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

constexpr std::string_view kBlocks = "_blocks", kPowers = "_scales";
constexpr const char* kMxfp4 = "MXFP4";
constexpr std::int64_t kGroup = 32, kGroupBytes = 16;  // that have one scale
constexpr std::int64_t kBand = 64;                     // rows at a time: what is written is whole lines of memory
constexpr int kBias = 127, kLargest = 252;             // with 2^126, 6 is beyond bf16 and fp32; 255 is no number
constexpr std::array<double, 16> kValues = {0., .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6};

template <class T>
using Tables = std::array<std::array<T, 16>, kLargest + 1>;  // of each scale

template <class T>
Tables<T> make_tables() {
  Tables<T> made;
  for (int scale = 0; scale <= kLargest; ++scale)
    for (std::size_t code = 0; code < kValues.size(); ++code)
      made[scale][code] = static_cast<T>(static_cast<float>(std::ldexp(kValues[code], scale - kBias)));
  return made;
}

// Some rows of an expert.
struct Band {
  std::vector<std::uint8_t> blocks, scales;
  std::int64_t rows = 0, groups = 0;
};

// The rows as columns of a matrix with `outputs` of them, of which `into` is the first one's beginning.
template <class T>
void transpose_band(const Band& band, T* into, std::int64_t outputs) {
  static const Tables<T> tables = make_tables<T>();
  std::array<T, kGroup * kBand> tile;
  for (std::int64_t g = 0; g < band.groups; ++g) {
    for (std::int64_t r = 0; r < band.rows; ++r) {
      const std::int64_t group = r * band.groups + g;
      const std::array<T, 16>& numbers = tables[band.scales[group]];
      const std::uint8_t* codes = band.blocks.data() + group * kGroupBytes;
      for (std::int64_t b = 0; b < kGroupBytes; ++b) {
        tile[2 * b * kBand + r] = numbers[codes[b] & 15];
        tile[(2 * b + 1) * kBand + r] = numbers[codes[b] >> 4];
      }
    }
    for (std::int64_t column = 0; column < kGroup; ++column)
      std::copy_n(tile.data() + column * kBand, band.rows, into + (g * kGroup + column) * outputs);
  }
}

void check_halves(const SafetensorsSet::Place& blocks, const SafetensorsSet::Place& scales) {
  for (const SafetensorsSet::Place& place : {blocks, scales})
    if (place.tensor->dtype != "U8") throw unfit(place, fmt::format("got dtype {}, expected U8", place.tensor->dtype));
  std::vector<std::int64_t> shape = blocks.tensor->shape;
  const bool fits = shape.size() == 4 && shape[3] == kGroupBytes &&
                    std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size > 0; });
  if (!fits)
    throw unfit(blocks, fmt::format("got shape {}, expected [experts, rows, columns / {}, {}]", shape_text(shape),
                                    kGroup, kGroupBytes));
  shape.pop_back();
  if (scales.tensor->shape != shape)
    throw unfit(scales,
                fmt::format("got shape {}, expected {}, one for each {} bytes of {}", shape_text(scales.tensor->shape),
                            shape_text(shape), kGroupBytes, blocks.tensor->name));
}

}  // namespace

Mxfp4::Mxfp4(const std::string& name, const SafetensorsSet::Place& blocks, const SafetensorsSet::Place& scales)
    : Packed("mxfp4", {blocks, scales}) {
  check_halves(blocks, scales);
  const std::vector<std::int64_t>& shape = scales.tensor->shape;
  whole_ = {name, kMxfp4, {shape[0], shape[2] * kGroup, shape[1]}, 0, blocks.tensor->bytes() + scales.tensor->bytes()};
  exact_in_ = saved_in_ = "BF16";
}

template <class T>
void Mxfp4::unpack(std::int64_t first_expert, const at::Tensor& into) const {
  const std::int64_t inputs = whole_.shape[1], outputs = whole_.shape[2], groups = inputs / kGroup;
  const std::int64_t bands = (outputs + kBand - 1) / kBand;
  const SafetensorsSet::Place &blocks = parts_[0], &scales = parts_[1];
  T* const made = host::mutable_values<T>(into).data();
  at::parallel_for(0, into.size(0) * bands, 1, [&](std::int64_t begin, std::int64_t end) {
    Band band;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t expert = i / bands, row = i % bands * kBand;
      const std::int64_t before = ((first_expert + expert) * outputs + row) * groups;  // groups of 32
      band.rows = std::min(kBand, outputs - row), band.groups = groups;
      band.blocks.resize(band.rows * groups * kGroupBytes), band.scales.resize(band.rows * groups);
      blocks.file->read(*blocks.tensor, std::as_writable_bytes(std::span(band.blocks)), before * kGroupBytes);
      scales.file->read(*scales.tensor, std::as_writable_bytes(std::span(band.scales)), before);
      if (const std::uint8_t most = *std::max_element(band.scales.begin(), band.scales.end()); most > kLargest)
        throw unfit(scales, fmt::format("got a scale of {}, expected at most {}, with which all numbers are finite",
                                         most, kLargest));
      transpose_band(band, made + expert * inputs * outputs + row, outputs);
    }
  });
}

at::Tensor Mxfp4::read_some(std::int64_t first, std::int64_t last, at::ScalarType type) const {
  const bool wide = type == at::kFloat || type == at::kDouble;
  const at::Tensor made = at::empty({last - first, whole_.shape[1], whole_.shape[2]}, wide ? type : at::kBFloat16);
  type == at::kFloat    ? unpack<float>(first, made)
  : type == at::kDouble ? unpack<double>(first, made)
                        : unpack<at::BFloat16>(first, made);
  const at::Tensor rounded = made.to(type);
  if (type == at::kHalf && host::number(at::isfinite(rounded).all()) == 0)
    throw unfit(parts_[0], fmt::format("with the scales of {} a number is infinite in {}", parts_[1].tensor->name,
                                       hf_name(type)));
  return rounded;
}

std::vector<std::shared_ptr<const Packed>> find_mxfp4(const Places& tensors) {
  std::vector<std::shared_ptr<const Packed>> found;
  for (const auto& [half, place] : tensors) {
    const bool blocks = half.ends_with(kBlocks);
    if (!blocks && !half.ends_with(kPowers)) continue;
    const std::string name = half.substr(0, half.size() - kBlocks.size());
    const auto other = tensors.find(name + std::string(blocks ? kPowers : kBlocks));
    if (other == tensors.end()) {
      if (place.tensor->dtype != "U8") continue;  // something else of such a name
      throw unfit(place, fmt::format("{} is missing, without which it means nothing",
                                     name + std::string(blocks ? kPowers : kBlocks)));
    }
    if (tensors.contains(name)) throw unfit(place, fmt::format("{} is there twice: by itself, too", name));
    if (blocks) found.push_back(std::make_shared<const Mxfp4>(name, place, other->second));
  }
  return found;
}

}  // namespace hone::hub
