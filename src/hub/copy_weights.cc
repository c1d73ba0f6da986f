// Copying weights from file to file.
#include "hub/copy_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/signals.h"
#include "hone/safetensors.h"
#include "hub/adapter_config.h"
#include "hub/cast.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

// A file's tensors by name, and what each becomes.
class Copier {
 public:
  explicit Copier(const CopyWeights& how) : how_(how) {}

  void add(const Safetensors& file, const TensorInfo& tensor) {
    const auto type = from_safetensors_name(tensor.dtype);
    const bool cast = how_.type && type && c10::isFloatingType(*type);
    specs.push_back({tensor.name, cast ? safetensors_name(*how_.type) : tensor.dtype, tensor.shape});
    places_[tensor.name] = {&file, &tensor};
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    copied.parameters += count;
    const std::uint64_t bytes = io::tensor_bytes(specs.back());
    copied.bytes += bytes, copied.bytes_by_type[specs.back().dtype] += bytes;
  }

  std::span<const std::byte> bytes_of(const io::TensorSpec& spec) {
    StopSignal::check("copying weights");
    const auto [file, tensor] = places_.at(spec.name);
    if (spec.dtype == tensor->dtype) {
      raw_.resize(tensor->bytes());
      file->read(*tensor, raw_);
      return raw_;
    }
    Tensor whole = at::empty(tensor->shape, *from_safetensors_name(tensor->dtype));
    file->read(*tensor, host::mutable_bytes(whole));
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
  const CopyWeights& how_;
  std::map<std::string, Place> places_;
  std::vector<std::byte> raw_;
  Tensor held_;
};

}  // namespace

CopiedWeights copy_weights(io::FolderCommit& commit, const std::filesystem::path& folder, const CopyWeights& how) {
  Copier copier(how);
  const auto bytes_of = [&](const io::TensorSpec& spec) { return copier.bytes_of(spec); };
  if (is_adapter_folder(folder)) {
    const Safetensors file(folder / kAdapterModel);
    for (const TensorInfo& tensor : file.tensors()) copier.add(file, tensor);
    commit.add_safetensors(kAdapterModel, copier.specs, {{"format", "pt"}}, bytes_of);
    return copier.copied;
  }
  const SafetensorsSet files(folder);
  for (const auto& [name, place] : files.tensors()) copier.add(*place.file, *place.tensor);
  io::ModelSave save;
  save.tensors = copier.specs;
  save.max_shard_bytes = how.max_shard_bytes;
  commit.add_model(save, bytes_of);
  return copier.copied;
}

}  // namespace hone::hub
