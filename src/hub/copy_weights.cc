// Copying weights from file to file.
#include "hub/copy_weights.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include "base/signals.h"
#include "hone/safetensors.h"
#include "hub/adapter_config.h"
#include "hub/cast.h"
#include "hub/grid_files.h"
#include "hub/memory.h"
#include "hub/packed/find_packed.h"
#include "hub/quantized_files.h"
#include "nn/finite_tensor.h"
#include "ops/finite.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

// A file's tensors by name, and what each becomes.
class Copier {
 public:
  Copier(const CopyWeights& how, std::string folder) : how_(how), folder_(std::move(folder)) {}

  // `meaning`: it says what a quantized weight's codes mean; kept as it is.
  void add(const Safetensors& file, const TensorInfo& tensor, bool meaning = false) {
    const auto type = from_safetensors_name(tensor.dtype);
    const bool cast = !meaning && how_.type && type && c10::isFloatingType(*type);
    places_[tensor.name] = {&file, &tensor};
    add({tensor.name, cast ? safetensors_name(*how_.type) : tensor.dtype, tensor.shape}, meaning);
    if (meaning) unchecked_.insert(tensor.name);
    if (!meaning) copied.parameters += c10::multiply_integers(tensor.shape);
  }

  void add_quantized(const Safetensors& file, const TensorInfo& tensor, QuantizedAs as) {
    const Tensor whole = matrix(file, tensor);
    copied.held.insert(name_of(as.type));
    const auto made = during("quantizing " + where(file, tensor), [&] { return ops::quantize(whole, as); });
    add_made(tensor, quantized_tensors(tensor.name, *made, hf_name(whole.scalar_type())));
  }

  void add_on_grid(const Safetensors& file, const TensorInfo& tensor, const FakeQuantized& grids) {
    const Tensor whole = matrix(file, tensor);
    copied.held.insert(name_of(grids));
    add_made(tensor, grid_tensors(tensor.name, ops::on_grid(whole, grids.weight, grids.group_size)));
  }

  // What it stands for, made when it is written.
  void add_in_full(const QuantizedFiles& files, const std::string& name, at::ScalarType type) {
    const auto shape = files.shape(name).value_or(files.weights().at(name).tensor->shape);
    add({name, safetensors_name(type), shape}, /*meaning=*/false);
    full_[name] = [&files, name, shape, type] { return ops::dequantize(*files.read(name, shape), type); };
    copied.parameters += c10::multiply_integers(shape);
  }

  void add_in_full(const Packed& packed, std::optional<at::ScalarType> wanted) {
    const TensorInfo& tensor = *packed.whole().tensor;
    const at::ScalarType type = wanted.value_or(from_safetensors_name(packed.saved_in()).value());
    add({tensor.name, safetensors_name(type), tensor.shape}, /*meaning=*/false);
    full_[tensor.name] = [&packed, &tensor, type] {
      const std::string where = fmt::format("{}: {}", packed.whole().file->path().string(), tensor.name);
      const auto exact = from_safetensors_name(packed.exact_in());
      return cast_weight(packed.read(type == at::kHalf ? exact.value() : type), type, where);
    };
    copied.parameters += c10::multiply_integers(tensor.shape);
  }

  void add_held(const Packed& packed) {
    for (const SafetensorsSet::Place& part : packed.parts()) {
      add(*part.file, *part.tensor, /*meaning=*/true);
      unchecked_.erase(part.tensor->name);
    }
    copied.held.insert(packed.method());
    copied.parameters += c10::multiply_integers(packed.whole().tensor->shape);
  }

  void add_held(const Safetensors& file, const TensorInfo& tensor, QuantizedAs as, std::int64_t parameters) {
    add(file, tensor, /*meaning=*/true);
    copied.held.insert(name_of(as.type));
    copied.parameters += parameters;
  }

  std::span<const std::byte> bytes_of(const io::TensorSpec& spec) {
    StopSignal::check("copying weights");
    if (const auto full = full_.find(spec.name); full != full_.end()) {
      held_ = full->second();
      check(held_, spec.name);
      return host::bytes(held_);
    }
    if (const auto made = made_.find(spec.name); made != made_.end()) {
      held_ = std::move(made->second);
      made_.erase(made);
      return host::bytes(held_);
    }
    const auto [file, tensor] = places_.at(spec.name);
    if (spec.dtype == tensor->dtype) {
      raw_.resize(tensor->bytes());
      file->read(*tensor, raw_);
      check_raw(*tensor);
      return raw_;
    }
    Tensor whole = at::empty(tensor->shape, *from_safetensors_name(tensor->dtype));
    file->read(*tensor, host::mutable_bytes(whole));
    check(whole, spec.name);
    held_ = cast_weight(whole, *how_.type, fmt::format("{}: {}", file->path().string(), spec.name));
    return host::bytes(held_);
  }

  std::vector<io::TensorSpec> specs;
  CopiedWeights copied;

 private:
  struct Place {
    const Safetensors* file;
    const TensorInfo* tensor;
  };
  static std::string where(const Safetensors& file, const TensorInfo& tensor) {
    return fmt::format("{}: {}", file.path().string(), tensor.name);
  }
  void check(const Tensor& whole, const std::string& name) const {
    if (ops::all_finite(whole)) return;
    const bool allowed = how_.may_be_infinite && how_.may_be_infinite(name);
    if (!allowed || host::number(at::isnan(whole).sum()) > 0) nn::check_finite(whole, name, folder_);
  }
  // What lies in raw_. Codes are not looked at, nor what goes with those of bitsandbytes (QuantizedFiles does).
  void check_raw(const TensorInfo& tensor) {
    const auto type = from_safetensors_name(tensor.dtype);
    if (!type || unchecked_.contains(tensor.name) || raw_.empty()) return;
    if (*type == at::kFloat || *type == at::kDouble || *type == at::kHalf || *type == at::kBFloat16)
      check(at::from_blob(raw_.data(), tensor.shape, *type), tensor.name);
  }
  // In the type that is asked for, to be quantized.
  Tensor matrix(const Safetensors& file, const TensorInfo& tensor) const {
    StopSignal::check("quantizing weights");
    const auto stored = from_safetensors_name(tensor.dtype);
    if (!stored || !c10::isFloatingType(*stored) || tensor.shape.size() != 2)
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: got {} of shape {}, expected a matrix in F32, BF16, F16 or F64",
                              where(file, tensor), tensor.dtype, shape_text(tensor.shape)));
    Tensor whole = at::empty(tensor.shape, *stored);
    file.read(tensor, host::mutable_bytes(whole));
    check(whole, tensor.name);
    return how_.type ? cast_weight(whole, *how_.type, where(file, tensor)) : whole;
  }
  void add_made(const TensorInfo& tensor, const std::map<std::string, Tensor>& parts) {
    for (const auto& [name, part] : parts) {
      const bool float8 = part.scalar_type() == at::kFloat8_e4m3fn;
      add({name, float8 ? "F8_E4M3" : safetensors_name(part.scalar_type()), part.sizes().vec()}, /*meaning=*/true);
      made_[name] = part.contiguous();
    }
    copied.parameters += c10::multiply_integers(tensor.shape);
  }
  void add(io::TensorSpec spec, bool meaning) {
    const std::uint64_t bytes = io::tensor_bytes(spec);
    copied.bytes += bytes;
    if (!meaning) copied.bytes_by_type[spec.dtype] += bytes;
    specs.push_back(std::move(spec));
  }
  const CopyWeights& how_;
  const std::string folder_;
  std::set<std::string> unchecked_;
  std::map<std::string, Place> places_;
  std::map<std::string, Tensor> made_;                  // given away once
  std::map<std::string, std::function<Tensor()>> full_;
  std::vector<std::byte> raw_;
  Tensor held_;
};

// Where a type is asked for they become of it, too. Returns the other tensors.
Places add_packed(Copier& copier, const PackedWeights& packed, const CopyWeights& how, Places places) {
  const bool in_full = how.in_full || how.type;
  for (const auto& weight : packed.weights) {
    in_full ? copier.add_in_full(*weight, how.type) : copier.add_held(*weight);
    for (const SafetensorsSet::Place& part : weight->parts()) places.erase(part.tensor->name);
  }
  for (const std::string& name : packed.passed_over) {
    const SafetensorsSet::Place place = places.at(name);
    if (!in_full) copier.add(*place.file, *place.tensor, /*meaning=*/true);
    places.erase(name);
  }
  return places;
}

void add_all(Copier& copier, const Places& places, const QuantizedFiles& quantized, const CopyWeights& how,
             at::ScalarType full) {
  for (const auto& [name, place] : places) {
    const auto as = quantized.as(name);
    const bool meaning = !quantized.weights().contains(name);
    if (how.in_full && meaning) continue;
    if (how.in_full && as)
      copier.add_in_full(quantized, name, how.type.value_or(full));
    else if (as)
      copier.add_held(*place.file, *place.tensor, *as,
                      c10::multiply_integers(quantized.shape(name).value_or(place.tensor->shape)));
    else if (const auto wanted = how.quantize.find(name); wanted != how.quantize.end())
      copier.add_quantized(*place.file, *place.tensor, wanted->second);
    else if (const auto grid = how.grids.find(name); grid != how.grids.end())
      copier.add_on_grid(*place.file, *place.tensor, grid->second);
    else
      copier.add(*place.file, *place.tensor, meaning);
  }
}

}  // namespace

CopiedWeights copy_weights(io::FolderCommit& commit, const std::filesystem::path& folder, const CopyWeights& how) {
  Copier copier(how, folder.string());
  const auto bytes_of = [&](const io::TensorSpec& spec) { return copier.bytes_of(spec); };
  if (is_adapter_folder(folder)) {
    const Safetensors file(folder / kAdapterModel);
    for (const TensorInfo& tensor : file.tensors()) copier.add(file, tensor);
    commit.add_safetensors(kAdapterModel, copier.specs, {{"format", "pt"}}, bytes_of);
    return copier.copied;
  }
  const SafetensorsSet files(folder);
  const PackedWeights packed = find_packed(files.tensors(), folder);
  Places places = add_packed(copier, packed, how, files.tensors());
  for (const std::string& name : how.leave_out) places.erase(name);
  const QuantizedFiles quantized(places);
  add_all(copier, places, quantized, how, type_of(stored_precision(folder)));
  io::ModelSave save;
  save.tensors = copier.specs;
  save.max_shard_bytes = how.max_shard_bytes;
  commit.add_model(save, bytes_of);
  return copier.copied;
}

}  // namespace hone::hub
