// Quantized weights from files, and into them.
#include "hub/quantized_files.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "io/json.h"
#include "ops/finite.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

constexpr std::string_view kWeightSuffix = ".weight", kState = ".quant_state.bitsandbytes__", kScales = ".SCB",
                           kFormat = ".weight_format";
constexpr std::array<std::string_view, 4> kFourBitParts = {".absmax", ".quant_map", ".nested_absmax",
                                                           ".nested_quant_map"};
constexpr std::int64_t kLongestBlock = 4096, kLongestSide = std::int64_t{1} << 31;

std::string module_of(const std::string& weight) {
  return weight.ends_with(kWeightSuffix) ? weight.substr(0, weight.size() - kWeightSuffix.size()) : weight;
}

std::string state_name(const std::string& weight, QuantType type) {
  return weight + std::string(kState) + (type == QuantType::nf4 ? "nf4" : "fp4");
}

// Of a tensor that says what another one means, the other's name.
std::optional<std::string> meant_by(const std::string& name) {
  if (const auto at = name.find(kState); at != std::string::npos) return name.substr(0, at);
  for (const std::string_view part : kFourBitParts)
    if (name.ends_with(part)) return name.substr(0, name.size() - part.size());
  for (const std::string_view part : {kScales, kFormat})
    if (name.ends_with(part)) return name.substr(0, name.size() - part.size()) + std::string(kWeightSuffix);
  return std::nullopt;
}

Error damaged(const SafetensorsSet::Place& place, const std::string& fact) {
  return Error(ErrorKind::checkpoint, fmt::format("{}: {}: {}", place.file->path().string(), place.tensor->name, fact));
}

std::string json_text(const SafetensorsSet::Place& place) {
  constexpr std::uint64_t kMost = 65536;
  if (place.tensor->bytes() > kMost) throw damaged(place, "more than 64 KB of JSON");
  std::string text(place.tensor->bytes(), '\0');
  place.file->read(*place.tensor, std::as_writable_bytes(std::span(text)));
  return text;
}

// What a weight's state says.
struct State {
  std::int64_t block = 64, scale_block = 256;
  bool nested = false;
  float offset = 0;
  std::vector<std::int64_t> shape;
};

State state_of(const SafetensorsSet::Place& place) {
  const std::string what = place.file->path().string() + ": " + place.tensor->name;
  const nlohmann::json json = io::parse_json(json_text(place), what, io::kConfigJson);
  try {
    State state;
    state.block = json.at("blocksize").get<std::int64_t>();
    state.shape = json.at("shape").get<std::vector<std::int64_t>>();
    const bool fits = std::all_of(state.shape.begin(), state.shape.end(),
                                  [](std::int64_t size) { return size > 0 && size < kLongestSide; });
    if (state.shape.size() != 2 || !fits) throw damaged(place, "shape " + shape_text(state.shape));
    state.nested = json.contains("nested_blocksize");
    if (state.nested) {
      state.scale_block = json.at("nested_blocksize").get<std::int64_t>();
      state.offset = json.at("nested_offset").get<float>();
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw damaged(place, error.what());
  }
}

void check(const State& state, const SafetensorsSet::Place& place, const std::vector<std::int64_t>& shape) {
  if (state.shape != shape)
    throw damaged(place, fmt::format("got shape {}, expected {}", shape_text(state.shape), shape_text(shape)));
  if (state.block < 2 || state.block > kLongestBlock || !std::has_single_bit(static_cast<std::uint64_t>(state.block)))
    throw damaged(place, fmt::format("blocks of {}; expected a power of two up to {}", state.block, kLongestBlock));
  if (state.nested && state.scale_block != ops::kScaleBlock)
    throw damaged(place, fmt::format("scales in blocks of {}; expected {}", state.scale_block, ops::kScaleBlock));
}

}  // namespace

QuantizedFiles::QuantizedFiles(const Places& all) : tensors_(all) {
  for (const auto& [name, place] : all) {
    for (const QuantType type : {QuantType::nf4, QuantType::fp4})
      if (all.contains(state_name(name, type))) held_[name] = {type, all.contains(name + ".nested_absmax")};
    if (place.tensor->dtype == "I8" && all.contains(module_of(name) + std::string(kScales)))
      held_[name] = {QuantType::int8};
  }
  for (const auto& [name, place] : all) {
    if (held_.contains(name)) continue;
    if (place.tensor->dtype == "I8" && all.contains(module_of(name) + std::string(kFormat)))
      throw damaged(place, "in eight bits, and SCB is missing, without which they mean nothing");
    if (place.tensor->dtype == "U8" && all.contains(name + ".absmax"))
      throw damaged(place, "in four bits, and quant_state is missing, without which they mean nothing");
  }
  for (const auto& [name, place] : all) {
    const std::optional<std::string> other = meant_by(name);
    if (!other || !held_.contains(*other)) weights_.emplace(name, place);
  }
}

std::optional<QuantizedAs> QuantizedFiles::as(const std::string& tensor) const {
  const auto found = held_.find(tensor);
  return found == held_.end() ? std::nullopt : std::optional(found->second);
}

at::Tensor QuantizedFiles::part(const std::string& name, at::ScalarType type, std::int64_t count) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: missing, without which quantized weights mean nothing",
                                                   tensors_.begin()->second.file->path().string(), name));
  const auto& [file, tensor] = found->second;
  const std::int64_t numel = c10::multiply_integers(tensor->shape);
  if (from_safetensors_name(tensor->dtype) != type || numel != count)
    throw damaged(found->second, fmt::format("got {} numbers in {}, expected {} in {}", numel, tensor->dtype, count,
                                             safetensors_name(type)));
  at::Tensor made = at::empty({count}, type);
  file->read(*tensor, host::mutable_bytes(made));
  return made;
}

at::Tensor QuantizedFiles::finite_part(const std::string& name, std::int64_t count) const {
  at::Tensor made = part(name, at::kFloat, count);
  if (!ops::all_finite(made)) throw damaged(tensors_.at(name), "a number is infinite or not a number");
  return made;
}

std::shared_ptr<ops::Quantized> QuantizedFiles::read_int8(const std::string& tensor,
                                                          const std::vector<std::int64_t>& shape) const {
  const SafetensorsSet::Place& place = weights_.at(tensor);
  if (place.tensor->shape != shape)
    throw damaged(place, fmt::format("got shape {}, expected {}", shape_text(place.tensor->shape), shape_text(shape)));
  auto made = std::make_shared<ops::Quantized>(ops::Quantized{.as = {QuantType::int8}, .shape = shape});
  made->codes = part(tensor, at::kChar, made->numel()).view(shape);
  made->scales = finite_part(module_of(tensor) + std::string(kScales), shape[0]);
  const std::string format = module_of(tensor) + std::string(kFormat);
  if (tensors_.contains(format) && host::values<std::uint8_t>(part(format, at::kByte, 1))[0] != 0)
    throw damaged(place, "int8 in another order than by rows, as old versions of bitsandbytes saved it");
  return made;
}

// Codes may lie in the file as numbers of another type (bnb_4bit_quant_storage): it is their bytes that count.
std::shared_ptr<ops::Quantized> QuantizedFiles::read_four_bits(const std::string& tensor,
                                                               const std::vector<std::int64_t>& shape) const {
  const QuantizedAs as = held_.at(tensor);
  const SafetensorsSet::Place &place = weights_.at(tensor), &told = tensors_.at(state_name(tensor, as.type));
  const State state = state_of(told);
  check(state, told, shape);
  auto made = std::make_shared<ops::Quantized>(ops::Quantized{.as = as, .shape = shape, .block = state.block});
  made->as.double_quant = state.nested;
  const std::int64_t bytes = (made->numel() + 1) / 2, blocks = (made->numel() + state.block - 1) / state.block;
  if (static_cast<std::int64_t>(place.tensor->bytes()) != bytes)
    throw damaged(place, fmt::format("got {} bytes, expected {} of {} in four bits", place.tensor->bytes(), bytes,
                                     shape_text(shape)));
  made->codes = at::empty({bytes}, at::kByte);
  place.file->read(*place.tensor, host::mutable_bytes(made->codes));
  made->table = finite_part(tensor + ".quant_map", 16);
  const auto within = [](float value) { return std::abs(value) <= 1; };
  const std::span<const float> table = host::values<float>(made->table);
  if (!std::all_of(table.begin(), table.end(), within))
    throw damaged(place, "its quant_map has numbers that are not from -1 to 1");
  if (!state.nested) {
    made->scales = finite_part(tensor + ".absmax", blocks);
    return made;
  }
  made->scale_codes = part(tensor + ".absmax", at::kByte, blocks);
  made->scales = finite_part(tensor + ".nested_absmax", (blocks + ops::kScaleBlock - 1) / ops::kScaleBlock);
  made->scale_table = finite_part(tensor + ".nested_quant_map", 256);
  made->scale_offset = state.offset;
  if (!std::isfinite(state.offset)) throw damaged(told, "nested_offset is not a finite number of 32 bits");
  return made;
}

std::shared_ptr<const ops::Quantized> QuantizedFiles::read(const std::string& tensor,
                                                           const std::vector<std::int64_t>& shape) const {
  HONE_ASSERT(held_.contains(tensor));
  if (shape.size() != 2) throw damaged(weights_.at(tensor), "quantized, which hone knows of matrices alone");
  return held_.at(tensor).type == QuantType::int8 ? read_int8(tensor, shape) : read_four_bits(tensor, shape);
}

std::optional<std::vector<std::int64_t>> QuantizedFiles::shape(const std::string& tensor) const {
  const auto held = held_.find(tensor);
  if (held == held_.end() || held->second.type == QuantType::int8) return std::nullopt;
  return state_of(tensors_.at(state_name(tensor, held->second.type))).shape;
}

std::string name_of(QuantType type) {
  for (const auto& [own, name] : config::enum_names<QuantType>)
    if (own == type) return std::string(name);
  return "";
}

bool holds_quantized(const std::filesystem::path& folder) {
  const SafetensorsSet files(folder);
  return QuantizedFiles(files.tensors()).any();
}

namespace {

std::string state_text(const std::vector<std::int64_t>& shape, QuantizedAs as, float offset, const std::string& dtype) {
  nlohmann::ordered_json json = {{"quant_type", as.type == QuantType::nf4 ? "nf4" : "fp4"},
                                 {"blocksize", ops::kQuantBlock},
                                 {"dtype", dtype},
                                 {"shape", shape}};
  if (as.double_quant)
    json["nested_blocksize"] = ops::kScaleBlock, json["nested_dtype"] = "float32",
    json["nested_offset"] = static_cast<double>(offset);
  return json.dump();
}

}  // namespace

std::map<std::string, at::Tensor> quantized_tensors(const std::string& name, const ops::Quantized& q,
                                                    const std::string& dtype) {
  const std::string module = module_of(name);
  if (q.as.type == QuantType::int8)
    return {{name, q.codes},
            {module + std::string(kScales), q.scales},
            {module + std::string(kFormat), at::zeros({}, at::kByte)}};  // 0: by rows
  HONE_ASSERT(q.block == ops::kQuantBlock);
  const std::string state = state_text(q.shape, q.as, q.scale_offset, dtype);
  const std::vector<std::uint8_t> letters(state.begin(), state.end());
  std::map<std::string, at::Tensor> made{
      {name, q.codes.unsqueeze(1)},
      {name + ".quant_map", q.table},
      {name + ".absmax", q.as.double_quant ? q.scale_codes : q.scales},
      {state_name(name, q.as.type), host::tensor_of(letters, {std::ssize(letters)})}};
  if (q.as.double_quant) made[name + ".nested_absmax"] = q.scales, made[name + ".nested_quant_map"] = q.scale_table;
  return made;
}

}  // namespace hone::hub
