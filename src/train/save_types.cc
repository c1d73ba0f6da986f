// The type of each weight in a checkpoint.
#include "train/save_types.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hub/memory.h"
#include "hub/model_tensors.h"
#include "hub/quantized_files.h"
#include "tensor/dtype.h"

namespace hone::training {
namespace {

std::string name_of(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : type == at::kDouble ? "fp64" : "fp32";
}

}  // namespace

SourceTypes source_types(const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  SourceTypes types;
  std::map<std::string, std::uint64_t> bytes;
  const hub::ModelTensors tensors(folder);
  const hub::QuantizedFiles quantized(tensors.all());
  for (const auto& [name, place] : quantized.weights()) {
    if (quantized.as(name)) continue;
    types[name] = tensors.saved_in(name);
    bytes[types[name]] += place.tensor->bytes();
  }
  std::string most = "F32";
  for (const auto& [dtype, count] : bytes)
    if (count > bytes[most]) most = dtype;
  std::erase_if(types, [&](const auto& entry) { return entry.second == most; });
  types["*"] = most;
  return types;
}

SaveTypes::SaveTypes(SaveDtype wanted, Precision run, SourceTypes source)
    : wanted_(wanted), run_(run), source_(std::move(source)) {}

at::ScalarType SaveTypes::of(const std::string& weight) const {
  if (wanted_ == SaveDtype::fp32) return at::kFloat;
  if (wanted_ == SaveDtype::bf16) return at::kBFloat16;
  if (wanted_ == SaveDtype::run || source_.empty()) return hub::type_of(run_);
  const auto found = source_.find(weight);
  const std::string& dtype = found == source_.end() ? source_.at("*") : found->second;
  if (dtype == "BF16") return at::kBFloat16;
  // fp16 has too small a range for weights that go on changing; what was fp64 is fp32 in an fp32 or bf16 run.
  return dtype == "F64" && run_ == Precision::fp64 ? at::kDouble : at::kFloat;
}

std::string SaveTypes::text() const {
  const std::string start = "checkpoints are saved in " + name_of(most());
  if (wanted_ == SaveDtype::fp32 || wanted_ == SaveDtype::bf16) return start + ", as trainer.save.dtype says";
  if (wanted_ == SaveDtype::run || source_.empty()) return start + ", as the run computes";
  if (source_.at("*") == "F16") return start + ": fp16, as the model came, may be too narrow for what is learnt";
  if (source_.at("*") == "F64" && most() != at::kDouble)
    return start + ": the model came in fp64, of which the run keeps fp32";
  std::int64_t others = 0;
  for (const auto& [name, dtype] : source_) others += of(name) != most();
  const std::string more = others > 0 ? fmt::format(" ({} in other types)", counted(others, "weight")) : "";
  return start + more + ", as the model came";
}

}  // namespace hone::training
