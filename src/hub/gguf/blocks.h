// Numbers in ggml's blocks: a few bits each, with scales that a block shares. The bytes are those that ggml's own
// quantizers make without an importance matrix, so that what they make of a file is what hone makes of the model.
#pragma once

#include <cstddef>
#include <span>

#include "io/gguf.h"

namespace hone::gguf {

// `made`: room for io::gguf_bytes() of them. REQUIRES: whole blocks; each number finite. Any thread may call it.
void to_blocks(io::GgufType type, std::span<const float> x, std::span<std::byte> made);

// For blocks of 256 (k_blocks.cc).
bool is_k(io::GgufType type);
void to_k_blocks(io::GgufType type, std::span<const float> x, std::byte* made);

}  // namespace hone::gguf
