// An embedding model as a server asks it.
#pragma once

#include "cli/embedder.h"
#include "serve/embeddings.h"

namespace hone::cli {

// REQUIRES: embedder outlives it. texts: of a forward pass; queue: requests that may wait.
serve::Embeds served_vectors(const Embedder& embedder, serve::FrontOptions front, std::int64_t texts,
                             std::int64_t queue);

}  // namespace hone::cli
