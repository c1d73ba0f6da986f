// Headers of safetensors files: an accepted file is one whose every tensor can be read.
#include "hone/safetensors.h"

#include <vector>

#include "fuzz/fuzz.h"

HONE_FUZZ(safetensors) {
  const hone::Safetensors file(hone::fuzz::file_of("x.safetensors", input));
  std::uint64_t sum = 0;
  for (const hone::TensorInfo& tensor : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes());
    file.read(tensor, bytes);
    hone::fuzz::require(file.find(tensor.name) == &tensor, "a tensor is found by its name");
    sum += bytes.size();
  }
  hone::fuzz::require(sum < input.size(), "the tensors lie in the file");
}
