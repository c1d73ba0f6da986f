// Dense and LayerNorm of a folder of the sentence-transformers package: modules with weights of their own.
#pragma once

#include <filesystem>
#include <string>

#include "hub/sentence_folder.h"

namespace hone::hub {

struct VectorModuleKind {
  bool norms = false;      // LayerNorm, and else Dense
  bool of_tokens = false;  // it reads vectors of tokens, and else those of texts
};

// Adds the folder's module `path`. Throws Error(checkpoint) for what hone has not.
void add_vector_module(const std::filesystem::path& folder, const std::string& path, VectorModuleKind kind,
                       SentenceFolder& made);

}  // namespace hone::hub
