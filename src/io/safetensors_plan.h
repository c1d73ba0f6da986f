// A safetensors file before its tensors: what comes where. A model is planned in shards with an index, as transformers
// divides it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hone::io {

struct TensorSpec {
  std::string name, dtype;  // dtype as in TensorInfo
  std::vector<std::int64_t> shape;
};
std::uint64_t tensor_bytes(const TensorSpec& spec);  // throws Error(checkpoint): unknown dtype, negative size, overflow
using TensorMetadata = std::map<std::string, std::string>;

class SafetensorsPlan {
 public:
  SafetensorsPlan(std::string name, std::vector<TensorSpec> tensors,
                  const TensorMetadata& metadata = {{"format", "pt"}});
  const std::string& name() const { return name_; }
  // In the file's order: as given, but larger element sizes first, so that every tensor is aligned.
  const std::vector<TensorSpec>& layout() const { return layout_; }
  const std::string& head() const { return head_; }  // all that comes before the tensors
  std::uint64_t offset(std::size_t tensor) const { return head_.size() + ends_[tensor] - size(tensor); }
  std::uint64_t size(std::size_t tensor) const { return ends_[tensor] - (tensor == 0 ? 0 : ends_[tensor - 1]); }
  std::uint64_t tensor_bytes() const { return ends_.empty() ? 0 : ends_.back(); }  // of all of them

 private:
  std::string name_, head_;
  std::vector<TensorSpec> layout_;
  std::vector<std::uint64_t> ends_;  // of each tensor, counted from the first one's begin
};

// Bytes of a tensor.
struct TensorPart {
  std::size_t tensor = 0;  // in the layout
  std::uint64_t begin = 0, size = 0;
};
// The tensors' bytes cut into `ranks` pieces of about the same size: what of them is the rank's.
std::vector<TensorPart> even_share(const SafetensorsPlan& plan, int rank, int ranks);

struct ModelSave {
  std::vector<TensorSpec> tensors;
  std::uint64_t max_shard_bytes = 50'000'000'000;  // one larger tensor gets a shard of its own
  TensorMetadata metadata = {{"format", "pt"}};
  std::string stem = "model";
};
// model.safetensors, or model-00001-of-0000n.safetensors … and model.safetensors.index.json.
struct ModelPlan {
  std::vector<SafetensorsPlan> files;
  std::string index_name, index;  // none: ""
};
ModelPlan plan_model(const ModelSave& save);

}  // namespace hone::io
