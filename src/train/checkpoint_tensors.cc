// What each rank writes of a checkpoint's tensors.
#include "train/checkpoint_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::training {
namespace {

std::vector<io::TensorSpec> specs_of(const std::vector<SavedTensor>& tensors) {
  std::vector<io::TensorSpec> specs;
  for (const SavedTensor& tensor : tensors) specs.push_back(spec_of(tensor));
  return specs;
}

// In the plan's order; tensors of one element after another are this rank's.
std::vector<io::TensorPart> parts_of(const io::SafetensorsPlan& plan, const std::vector<SavedTensor>& tensors,
                                     const World& world) {
  std::vector<io::TensorPart> parts;
  for (const io::TensorPart& part : io::even_share(plan, world.rank(), world.size()))
    if (tensors[part.tensor].everywhere) parts.push_back(part);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = c10::elementSize(tensors[i].type);
    const Slice& slice = tensors[i].slice;
    if (!tensors[i].everywhere && slice.part.numel() > 0)
      parts.push_back(
          {i, static_cast<std::uint64_t>(slice.begin) * size, static_cast<std::uint64_t>(slice.part.numel()) * size});
  }
  std::sort(parts.begin(), parts.end(),
            [](const io::TensorPart& a, const io::TensorPart& b) { return a.tensor < b.tensor; });
  return parts;
}

std::vector<SavedTensor> in_order_of(const io::SafetensorsPlan& plan, const std::vector<SavedTensor>& tensors) {
  std::map<std::string, const SavedTensor*> by_name;
  for (const SavedTensor& tensor : tensors) by_name[tensor.slice.name] = &tensor;
  std::vector<SavedTensor> ordered;
  for (const io::TensorSpec& spec : plan.layout()) ordered.push_back(*by_name.at(spec.name));
  return ordered;
}

}  // namespace

io::TensorSpec spec_of(const SavedTensor& tensor) {
  return {tensor.slice.name, safetensors_name(tensor.type), tensor.slice.shape};
}

TensorFile::TensorFile(std::string name, const std::vector<SavedTensor>& tensors, const World& world)
    : TensorFile(name, io::SafetensorsPlan(name.substr(name.find('/') + 1), specs_of(tensors)), tensors, world) {}

TensorFile::TensorFile(std::string name, io::SafetensorsPlan plan, const std::vector<SavedTensor>& tensors,
                       const World& world)
    : name_(std::move(name)),
      plan_(std::move(plan)),
      tensors_(in_order_of(plan_, tensors)),
      parts_(parts_of(plan_, tensors_, world)) {}

void TensorFile::copy_tensors() {
  for (SavedTensor& tensor : tensors_) {
    Tensor& part = tensor.slice.part;
    if (part.defined()) part = part.detach().to(tensor.type, false, /*copy=*/true).contiguous();
  }
}

// In pieces, so that what is cast on its way needs little memory.
std::vector<io::WrittenChunk> TensorFile::write(const Folder& checkpoint) const {
  if (parts_.empty()) return {};
  io::SafetensorsWriter writer(folder_in(checkpoint), plan_);
  for (const io::TensorPart& part : parts_) {
    const SavedTensor& tensor = tensors_[part.tensor];
    const std::uint64_t size = c10::elementSize(tensor.type);
    const Tensor flat = tensor.slice.part.detach().reshape({-1});
    for (std::uint64_t at = part.begin, end = part.begin + part.size; at < end;) {
      const std::uint64_t count = std::min(end - at, io::kHashChunk - at % io::kHashChunk);
      const Tensor piece = flat.narrow(0, static_cast<std::int64_t>(at / size) - tensor.slice.begin,
                                       static_cast<std::int64_t>(count / size));
      const Tensor plain = host::read(piece.to(tensor.type));
      writer.write(part.tensor, at, host::bytes(plain));
      at += count;
    }
  }
  return writer.finish();
}

void TensorFile::check(const Folder& checkpoint, const std::vector<io::WrittenChunk>& others) const {
  if (others.empty()) return;
  const Folder folder = folder_in(checkpoint);
  io::check_written(folder, plan_, others.front());
  if (others.size() > 1) io::check_written(folder, plan_, others.back());
}

Folder TensorFile::folder_in(const Folder& checkpoint) const {
  const std::size_t slash = name_.find('/');
  return slash == name_.npos ? checkpoint : checkpoint.open_folder(name_.substr(0, slash));
}

}  // namespace hone::training
