// A model's or an adapter's weights written anew from their files, tensor by tensor, without building the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "hone/quantization.h"
#include "io/folder_commit.h"

namespace hone::hub {

struct CopyWeights {
  std::optional<at::ScalarType> type;  // of numbers with a point, and of those that are packed; nothing: each as it is
  // What tensors are to be held as that are not yet. They are in memory, in few bits, until they are written.
  std::map<std::string, QuantizedAs> quantize = {};
  std::map<std::string, FakeQuantized> grids = {};  // the same of those that are put on a grid (hub/grid_files.h)
  bool in_full = false;  // what the folder holds in fewer bits becomes what it stands for
  std::set<std::string> leave_out = {};
  // Tensors that may be infinite, though no number may be missing: asked of those that are.
  std::function<bool(const std::string& name)> may_be_infinite = {};
  std::uint64_t max_shard_bytes = 5'000'000'000;
};
struct CopiedWeights {
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::set<std::string> held;  // what others are quantized as: "nf4"
  std::map<std::string, std::uint64_t> bytes_by_type;  // "BF16", of weights that are not quantized
};
// From model.safetensors or its shards, or adapter_model.safetensors, which stays one file. Error(checkpoint): a
// number that the type cannot hold, with its weight's name. Error(not_finite): the folder has it so.
CopiedWeights copy_weights(io::FolderCommit& commit, const std::filesystem::path& folder, const CopyWeights& how);

}  // namespace hone::hub
