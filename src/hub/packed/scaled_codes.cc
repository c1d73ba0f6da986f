// Codes become numbers band by band: some rows of codes, a byte each, then each row by its scales.
#include "hub/packed/scaled_codes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <type_traits>

#include "hub/packed/code_numbers.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

using Place = SafetensorsSet::Place;

constexpr std::int64_t kWordBits = 32, kAwqCodes = 8;
constexpr std::array<std::int64_t, kAwqCodes> kAwqOutputs = {0, 2, 4, 6, 1, 3, 5, 7};  // in the order of a word's bits
constexpr std::int64_t kBandBytes = 1 << 18, kBandRows = 64, kTileInputs = 64;

std::int64_t parts_of(std::int64_t all, std::int64_t size) { return size == 0 ? 1 : (all + size - 1) / size; }

// [rows, 1] may be [rows], and [1, 1] a scalar.
bool is_same_shape(std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
  for (std::vector<std::int64_t>* shape : {&a, &b})
    while (!shape->empty() && shape->back() == 1) shape->pop_back();
  return a == b;
}

// The bits of the least size in fp32 that is beyond all numbers of T, or is rounded to such a one.
template <class T>
constexpr std::uint32_t kBeyond = std::is_same_v<T, at::Half>       ? std::bit_cast<std::uint32_t>(65520.0F)
                                  : std::is_same_v<T, at::BFloat16> ? 0x7f7f8000U
                                                                    : 0x7f800000U;

template <class T>
bool is_finite_in(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) < kBeyond<T>;
}

// A word's codes, the lowest bits' first.
void put_codes(std::uint32_t word, std::int64_t bits, std::int64_t count, std::uint8_t* into) {
  const std::uint32_t mask = (1U << bits) - 1;
  for (std::int64_t i = 0; i < count; ++i, word >>= bits) into[i] = static_cast<std::uint8_t>(word & mask);
}

std::string told_type(const std::string& dtype, const CodeScheme& scheme) {
  return dtype.starts_with("F8_") ? "FP8" : fmt::format("INT{}", scheme.bits);
}

std::vector<Place> all_parts(const CodeParts& parts) {
  std::vector<Place> all{parts.codes, parts.scales};
  for (const std::optional<Place>& part : {parts.zeros, parts.groups})
    if (part) all.push_back(*part);
  all.insert(all.end(), parts.others.begin(), parts.others.end());
  return all;
}

}  // namespace

// Rows of codes, a byte each.
struct ScaledCodes::Band {
  std::int64_t first = 0, rows = 0;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint32_t> words;
};

ScaledCodes::ScaledCodes(const std::string& name, const std::string& method, CodeOrder order, CodeScheme scheme,
                         CodeParts parts, const PackedConfig& config)
    : Packed(method, all_parts(parts)),
      order_(order),
      scheme_(std::move(scheme)),
      files_(std::move(parts)),
      zeros_less_one_(config.zeros_less_one) {
  exact_in_ = "F32", saved_in_ = config.saved_in;
  check_codes();
  grid_rows_ = parts_of(outputs_, scheme_.rows), grid_columns_ = parts_of(inputs_, scheme_.columns);
  check_scales();
  check_zeros();
  check_groups();
  std::uint64_t bytes = 0;
  for (const Place& part : parts_) bytes += part.tensor->bytes();
  std::vector<std::int64_t> shape{outputs_, inputs_};
  if (files_.codes.tensor->shape.size() == 3) shape.insert(shape.begin(), experts_);
  whole_ = {name, told_type(files_.codes.tensor->dtype, scheme_), shape, 0, bytes};
}

ScaledCodes::ScaledCodes(const ScaledCodes& whole, std::string name, std::int64_t first, std::int64_t count)
    : Packed(whole.method_, whole.parts_),
      order_(whole.order_),
      scheme_(whole.scheme_),
      files_(whole.files_),
      zeros_less_one_(whole.zeros_less_one_),
      experts_(whole.experts_),
      outputs_(whole.outputs_),
      inputs_(whole.inputs_),
      grid_rows_(whole.grid_rows_),
      grid_columns_(whole.grid_columns_),
      first_row_(first),
      numbers_(whole.numbers_) {
  exact_in_ = whole.exact_in_, saved_in_ = whole.saved_in_;
  const std::uint64_t all = static_cast<std::uint64_t>(experts_ * outputs_);
  whole_ = {std::move(name),
            whole.whole_.dtype,
            {count, inputs_},
            0,
            whole.whole_.bytes() * static_cast<std::uint64_t>(count) / all};
}

std::shared_ptr<const Packed> ScaledCodes::rows(std::string name, std::int64_t first, std::int64_t count) const {
  return std::shared_ptr<const Packed>(new ScaledCodes(*this, std::move(name), first, count));
}

void ScaledCodes::check_codes() {
  const TensorInfo& codes = *files_.codes.tensor;
  const std::vector<std::int64_t>& shape = codes.shape;
  const std::int64_t in_word = kWordBits / scheme_.bits;
  const bool bytes = order_ == CodeOrder::bytes;
  numbers_ = bytes ? numbers_of_type(codes.dtype)
                   : numbers_from(order_ == CodeOrder::row_words ? std::int64_t{1} << (scheme_.bits - 1) : 0);
  const std::string wanted = !bytes ? "I32" : scheme_.floating ? "F8_E4M3 or F8_E5M2" : "I8";
  if (numbers_.empty() || wanted.find(codes.dtype) == std::string::npos)
    throw unfit(files_.codes, fmt::format("got dtype {}, expected {}", codes.dtype, wanted));
  const bool fits = (shape.size() == 2 || (bytes && shape.size() == 3)) &&
                    std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size > 0; });
  if (!fits) throw unfit(files_.codes, fmt::format("got shape {}, expected a matrix", shape_text(shape)));
  experts_ = shape.size() == 3 ? shape[0] : 1;
  outputs_ = shape[shape.size() - 2], inputs_ = shape.back();
  if (order_ == CodeOrder::input_words) outputs_ = shape[1], inputs_ = shape[0] * in_word;
  if (order_ == CodeOrder::awq_words) outputs_ = shape[1] * kAwqCodes, inputs_ = shape[0];
  if (order_ != CodeOrder::row_words) return;
  const std::vector<std::int64_t> told = files_.shape.value_or(std::vector<std::int64_t>{});
  if (told.size() != 2 || told[0] != shape[0] || told[1] < 1 || told[1] > shape[1] * in_word ||
      parts_of(told[1], in_word) != shape[1])
    throw unfit(files_.codes, fmt::format("got shape {}, which does not hold {} codes of {} bits", shape_text(shape),
                                          shape_text(told), scheme_.bits));
  inputs_ = told[1];
}

std::vector<std::int64_t> ScaledCodes::grid_shape() const {
  if (order_ == CodeOrder::input_words || order_ == CodeOrder::awq_words) return {grid_columns_, outputs_};
  if (files_.codes.tensor->shape.size() == 3) return {experts_, grid_rows_, grid_columns_};
  return {grid_rows_, grid_columns_};
}

void ScaledCodes::check_scales() const {
  const std::vector<std::int64_t>& shape = files_.scales.tensor->shape;
  const std::vector<std::int64_t> expected = grid_shape();
  if (!is_same_shape(shape, expected))
    throw unfit(files_.scales,
                fmt::format("got shape {}, expected {} for {} of shape {}", shape_text(shape), shape_text(expected),
                            files_.codes.tensor->name, shape_text(files_.codes.tensor->shape)));
}

void ScaledCodes::check_zeros() const {
  if (!files_.zeros) return;
  std::vector<std::int64_t> expected = grid_shape();
  const std::int64_t in_word = kWordBits / scheme_.bits;
  if (order_ == CodeOrder::row_words) expected[0] = parts_of(expected[0], in_word);
  if (order_ == CodeOrder::input_words || order_ == CodeOrder::awq_words) expected[1] = parts_of(expected[1], in_word);
  const TensorInfo& zeros = *files_.zeros->tensor;
  const std::string wanted = order_ == CodeOrder::bytes ? "I8" : "I32";
  if (zeros.dtype != wanted || !is_same_shape(zeros.shape, expected))
    throw unfit(*files_.zeros, fmt::format("got {} of shape {}, expected {} of shape {}", zeros.dtype,
                                           shape_text(zeros.shape), wanted, shape_text(expected)));
}

void ScaledCodes::check_groups() const {
  if (!files_.groups) return;
  const TensorInfo& groups = *files_.groups->tensor;
  if (groups.dtype != "I32" || groups.shape != std::vector<std::int64_t>{inputs_})
    throw unfit(*files_.groups, fmt::format("got {} of shape {}, expected I32 of shape [{}]", groups.dtype,
                                            shape_text(groups.shape), inputs_));
}

std::vector<float> ScaledCodes::read_scales() const {
  std::vector<float> read = read_scale_numbers(files_.scales, scheme_.power_scales);
  if (order_ != CodeOrder::input_words && order_ != CodeOrder::awq_words) return read;
  std::vector<float> made(read.size());
  for (std::int64_t group = 0; group < grid_columns_; ++group)
    for (std::int64_t output = 0; output < outputs_; ++output)
      made[output * grid_columns_ + group] = read[group * outputs_ + output];
  return made;
}

std::vector<float> ScaledCodes::read_zeros() const {
  if (!files_.zeros) return {};
  if (order_ == CodeOrder::bytes) {
    std::vector<std::int8_t> zeros(files_.zeros->tensor->bytes());
    files_.zeros->file->read(*files_.zeros->tensor, std::as_writable_bytes(std::span(zeros)));
    return {zeros.begin(), zeros.end()};
  }
  const std::int64_t in_word = kWordBits / scheme_.bits, rows = grid_rows_, columns = grid_columns_;
  std::vector<float> made(rows * columns);
  std::vector<std::uint32_t> words = read_words(*files_.zeros);
  const std::uint32_t mask = (1U << scheme_.bits) - 1;
  if (zeros_less_one_)  // 1 of each code was taken from whole words, from where it is carried
    for (std::uint32_t& word : words) word += ~0U / mask;
  const std::int64_t words_of_group = parts_of(outputs_, in_word);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      std::int64_t within = row % in_word;
      if (order_ == CodeOrder::awq_words)
        within = std::find(kAwqOutputs.begin(), kAwqOutputs.end(), within) - kAwqOutputs.begin();
      const std::int64_t word =
          order_ == CodeOrder::row_words ? row / in_word * columns + column : column * words_of_group + row / in_word;
      const std::uint32_t code = (words[word] >> (within * scheme_.bits)) & mask;
      made[row * columns + column] = order_ == CodeOrder::row_words ? numbers_[code] : float(code);
    }
  return made;
}

ScaledCodes::Grid ScaledCodes::read_grid() const {
  Grid grid{read_scales(), read_zeros(), {}};
  if (!files_.groups) return grid;
  const std::vector<std::uint32_t> read = read_words(*files_.groups);
  grid.groups.assign(read.begin(), read.end());
  const auto never_set = [](std::int32_t group) { return group == -1; };
  if (std::all_of(grid.groups.begin(), grid.groups.end(), never_set)) grid.groups.clear();
  for (const std::int32_t group : grid.groups)
    if (group < 0 || group >= grid_columns_)
      throw unfit(*files_.groups, fmt::format("got group {}, expected 0 to {}", group, grid_columns_ - 1));
  bool all_in_turn = true;
  for (std::int64_t i = 0; i < std::ssize(grid.groups); ++i)
    all_in_turn &= grid.groups[i] == (scheme_.columns == 0 ? 0 : i / scheme_.columns);
  if (all_in_turn) grid.groups.clear();
  return grid;
}

std::vector<std::uint32_t> ScaledCodes::words_of_all() const {
  const bool by_inputs = order_ == CodeOrder::input_words || order_ == CodeOrder::awq_words;
  return by_inputs ? read_words(files_.codes) : std::vector<std::uint32_t>{};
}

void ScaledCodes::read_band(Band& band, const std::vector<std::uint32_t>& words) const {
  band.codes.resize(band.rows * inputs_);
  const std::int64_t in_word = kWordBits / scheme_.bits, of_row = parts_of(inputs_, in_word);
  switch (order_) {
    case CodeOrder::bytes:
      files_.codes.file->read(*files_.codes.tensor, std::as_writable_bytes(std::span(band.codes)),
                              static_cast<std::uint64_t>(band.first * inputs_));
      return;
    case CodeOrder::row_words:
      band.words.resize(band.rows * of_row);
      files_.codes.file->read(*files_.codes.tensor, std::as_writable_bytes(std::span(band.words)),
                              static_cast<std::uint64_t>(band.first * of_row) * sizeof(std::uint32_t));
      for (std::int64_t row = 0; row < band.rows; ++row)
        for (std::int64_t w = 0; w < of_row; ++w)
          put_codes(band.words[row * of_row + w], scheme_.bits, std::min(in_word, inputs_ - w * in_word),
                    band.codes.data() + row * inputs_ + w * in_word);
      return;
    case CodeOrder::input_words:
      return read_input_words(band, words);
    case CodeOrder::awq_words:
      return read_awq_words(band, words);
  }
}

// Some inputs of all rows at a time, so that lines of memory are written whole.
void ScaledCodes::read_input_words(Band& band, const std::vector<std::uint32_t>& words) const {
  const std::int64_t in_word = kWordBits / scheme_.bits, of_row = inputs_ / in_word, at_once = kTileInputs / in_word;
  for (std::int64_t begin = 0; begin < of_row; begin += at_once)
    for (std::int64_t row = 0; row < band.rows; ++row)
      for (std::int64_t w = begin; w < std::min(begin + at_once, of_row); ++w)
        put_codes(words[w * outputs_ + band.first + row], scheme_.bits, in_word,
                  band.codes.data() + row * inputs_ + w * in_word);
}

void ScaledCodes::read_awq_words(Band& band, const std::vector<std::uint32_t>& words) const {
  const std::int64_t first = band.first / kAwqCodes, count = parts_of(band.first + band.rows, kAwqCodes) - first;
  std::vector<std::uint8_t> tile(count * kAwqCodes * kTileInputs);  // of the words' outputs
  for (std::int64_t begin = 0; begin < inputs_; begin += kTileInputs) {
    const std::int64_t some = std::min(kTileInputs, inputs_ - begin);
    for (std::int64_t i = 0; i < some; ++i)
      for (std::int64_t w = 0; w < count; ++w) {
        std::array<std::uint8_t, kAwqCodes> codes;
        put_codes(words[(begin + i) * (outputs_ / kAwqCodes) + first + w], scheme_.bits, kAwqCodes, codes.data());
        for (std::int64_t k = 0; k < kAwqCodes; ++k)
          tile[(w * kAwqCodes + kAwqOutputs[k]) * kTileInputs + i] = codes[k];
      }
    for (std::int64_t row = 0; row < band.rows; ++row)
      std::copy_n(tile.data() + (band.first + row - first * kAwqCodes) * kTileInputs, some,
                  band.codes.data() + row * inputs_ + begin);
  }
}

template <class T>
bool ScaledCodes::write_row(const std::uint8_t* codes, std::int64_t row, const Grid& grid, T* into) const {
  const std::int64_t expert = row / outputs_, within = scheme_.rows == 0 ? 0 : row % outputs_ / scheme_.rows;
  const std::int64_t before = (expert * grid_rows_ + within) * grid_columns_;
  const float* scales = grid.scales.data() + before;
  const float* zeros = grid.zeros.empty() ? nullptr : grid.zeros.data() + before;
  const float* const numbers = numbers_.data();
  int infinite = 0;
  const auto some = [&](std::int64_t begin, std::int64_t end, std::int64_t column) {
    const float scale = scales[column], zero = zeros ? zeros[column] : 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const float number = (numbers[codes[i]] - zero) * scale;
      infinite |= !is_finite_in<T>(number);
      into[i] = static_cast<T>(number);
    }
  };
  if (!grid.groups.empty()) {
    for (std::int64_t i = 0; i < inputs_; ++i) some(i, i + 1, grid.groups[i]);
  } else {
    const std::int64_t size = scheme_.columns == 0 ? inputs_ : scheme_.columns;
    for (std::int64_t column = 0; column < grid_columns_; ++column)
      some(column * size, std::min((column + 1) * size, inputs_), column);
  }
  return infinite == 0;
}

template <class T>
void ScaledCodes::unpack(std::int64_t first_row, const at::Tensor& into) const {
  const Grid grid = read_grid();
  const std::vector<std::uint32_t> words = words_of_all();
  const std::int64_t rows = into.numel() / inputs_;
  const std::int64_t band_rows = std::clamp<std::int64_t>(kBandBytes / inputs_, 1, kBandRows);
  T* const made = reinterpret_cast<T*>(host::mutable_bytes(into).data());
  std::atomic<bool> finite{true};
  at::parallel_for(0, parts_of(rows, band_rows), 1, [&](std::int64_t begin, std::int64_t end) {
    Band band;
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t from = b * band_rows;
      band.first = first_row + from, band.rows = std::min(band_rows, rows - from);
      read_band(band, words);
      for (std::int64_t row = 0; row < band.rows; ++row)
        if (!write_row(band.codes.data() + row * inputs_, band.first + row, grid, made + (from + row) * inputs_))
          finite = false;
    }
  });
  if (!finite)
    throw unfit(files_.codes, fmt::format("with the scales of {} a number is infinite or not a number in {}",
                                          files_.scales.tensor->name, hf_name(into.scalar_type())));
}

at::Tensor ScaledCodes::read_some(std::int64_t first, std::int64_t last, at::ScalarType type) const {
  std::vector<std::int64_t> shape = whole_.shape;
  shape[0] = last - first;
  const at::Tensor made = at::empty(shape, type);
  if (made.numel() == 0) return made;
  const std::int64_t first_row = first_row_ + first * (shape.size() == 3 ? outputs_ : 1);
  type == at::kFloat      ? unpack<float>(first_row, made)
  : type == at::kDouble   ? unpack<double>(first_row, made)
  : type == at::kBFloat16 ? unpack<at::BFloat16>(first_row, made)
                          : unpack<at::Half>(first_row, made);
  return made;
}

}  // namespace hone::hub
