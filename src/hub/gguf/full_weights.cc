// Where weights are read from.
#include "hub/gguf/full_weights.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <map>

#include "hub/model_tensors.h"
#include "hub/quantized_files.h"
#include "hub/tensor_names.h"
#include "hub/tied_head.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::gguf {
namespace {

constexpr std::int64_t kReadBytes = 1 << 20;  // at least, of a thread

at::ScalarType of_three(const std::string& dtype) {
  return dtype == "BF16" ? at::kBFloat16 : dtype == "F16" ? at::kHalf : at::kFloat;
}

class InFolder final : public FullWeights {
 public:
  InFolder(const std::filesystem::path& folder, Model& model)
      : folder_(folder),
        tensors_(folder, model.pictures() != nullptr),
        quantized_(tensors_.all()),
        names_(model, quantized_.weights(), std::nullopt, tensors_.spare()) {
    hub::check_names(names_, model, folder);
    hub::check_tied_head(model, tensors_.all());
    model.each_weight([&](const std::string& name, const Weight& weight) { shapes_[name] = weight.shape(); });
  }

  at::Tensor read(const std::string& name) const override {
    const auto& [own, place] = *names_.of(name);
    const std::vector<std::int64_t>& shape = shapes_.at(name);
    if (quantized_.as(own)) return ops::dequantize(*quantized_.read(own, shape), at::kFloat);
    if (const hub::Packed* packed = tensors_.packed(own)) return packed->read(at::kFloat);
    const auto type = from_safetensors_name(place.tensor->dtype);
    if (place.tensor->shape != shape || !type || !c10::isFloatingType(*type))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: got {} of shape {}, expected F32, BF16, F16 or F64 of shape {}",
                              place.file->path().string(), own, place.tensor->dtype, shape_text(place.tensor->shape),
                              shape_text(shape)));
    at::Tensor made = at::empty(shape, *type);
    const std::span<std::byte> into = host::mutable_bytes(made);
    at::parallel_for(0, std::ssize(into), kReadBytes, [&](std::int64_t from, std::int64_t to) {
      place.file->read(*place.tensor, into.subspan(from, to - from), from);
    });
    return made;
  }

  at::ScalarType stored() const override {
    std::map<std::string, std::uint64_t> bytes;
    for (const auto& [name, place] : quantized_.weights())
      if (!quantized_.as(name)) bytes[tensors_.saved_in(name)] += place.tensor->bytes();
    std::string most = "F32";
    for (const auto& [dtype, count] : bytes)
      if (count > bytes[most]) most = dtype;
    return of_three(most);
  }

  std::string where() const override { return folder_.string(); }

 private:
  std::filesystem::path folder_;
  hub::ModelTensors tensors_;
  hub::QuantizedFiles quantized_;
  hub::TensorNames names_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

class InMemory final : public FullWeights {
 public:
  explicit InMemory(const Model& model) {
    model.each_weight([&](const std::string& name, const Weight& weight) {
      weights_[name] = &weight;
      bytes_[weight.use().scalar_type()] += weight.numel();
    });
  }
  at::Tensor read(const std::string& name) const override { return weights_.at(name)->whole(); }
  std::string where() const override { return "the model"; }
  at::ScalarType stored() const override {
    const auto most = std::max_element(bytes_.begin(), bytes_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == bytes_.end() || most->first == at::kDouble ? at::kFloat : most->first;
  }

 private:
  std::map<std::string, const Weight*> weights_;
  std::map<at::ScalarType, std::int64_t> bytes_;
};

}  // namespace

std::unique_ptr<FullWeights> weights_in(const std::filesystem::path& folder, Model& model) {
  return std::make_unique<InFolder>(folder, model);
}

std::unique_ptr<FullWeights> weights_of(const Model& model) { return std::make_unique<InMemory>(model); }

}  // namespace hone::gguf
