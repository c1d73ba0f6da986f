// hone export --gguf: a model as one file for llama.cpp and what is built on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "cli/export_source.h"
#include "hub/gguf/file_type.h"

namespace hone::cli {

struct GgufHow {
  std::filesystem::path out;
  const gguf::FileType* type = nullptr;
  bool replace = false, merge = false;
  std::string name;  // of the model, as general.name has it: "org/name" or "name"
};
struct WrittenGguf {
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::int64_t> tensors;  // how many of each type: "Q4_K"
  bool chat = false;                            // it has a chat template
};

// As --gguf has it, in any case. Error(usage): there is no such type.
const gguf::FileType& gguf_type(const std::string& name);
// Before the work that ends there: Error(usage or checkpoint) where the file cannot be made.
void require_free_gguf(const GgufHow& how);
// The file appears whole or not at all; one that is there is moved to <file>.old-k, with how.replace and if hone wrote
// it. Error(usage): an adapter, and it is not to be merged, or the other way round.
WrittenGguf write_gguf(const ExportSource& source, const GgufHow& how, const CardFlags& flags);

}  // namespace hone::cli
