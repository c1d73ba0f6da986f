// What a GGUF file is asked to be, and which type each of its tensors gets for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf.h"

namespace hone::gguf {

// By llama.cpp's names. A mixture gives the tensors that lose most by few bits more of them.
struct FileType {
  std::string_view name;                  // "Q4_K_M"
  std::uint32_t number;                   // general.file_type
  io::GgufType type;                      // of most tensors
  enum class Mix { none, small, medium, large } mix;  // _S, _M, _L
  bool is_mixture() const;  // as llama-quantize makes it of a file in full; the others as the converter writes them
};
std::vector<std::string> file_type_names();             // as options say them: "q4_k_m"
const FileType* find_file_type(std::string_view name);  // in any case; nullptr: there is no such type

// What the types of tensors depend on.
struct TypeFacts {
  std::string arch;  // "llama"
  std::int64_t layers = 0, experts = 0, heads = 0, kv_heads = 0;
  io::GgufType full = io::GgufType::f32;  // of what a mixture leaves in full: the type that the weights are stored in
};
// Sets each tensor's type. REQUIRES: a layer's tensors are together, layers in order.
void choose_types(std::vector<io::GgufTensor>& tensors, const FileType& file, const TypeFacts& facts);

}  // namespace hone::gguf
