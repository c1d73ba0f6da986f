// What LoRA's factors begin with.
#pragma once

#include <cstdint>
#include <string>

#include "nn/lora.h"

namespace hone::nn {

// "pissa", "pissa_niter_4": the number of iterations, 0 for an exact one; nothing: it is another start.
// Throws Error(config) for a name that is none.
struct LoraStart {
  enum class Kind { standard, gaussian, pissa } kind = Kind::standard;
  std::int64_t iterations = 0;
};
LoraStart lora_start(const std::string& name);  // Error(config): there is no such start

// Fills the adapter's weights, in fp32 (fp64 for an fp64 weight), as a function of seed and name. As PEFT does: A is
// drawn evenly from +-1 / sqrt(inputs), or for `gaussian` normally with a deviation of 1 / rank; B is zero. Of a table
// A is zero and B normal. PiSSA: the largest singular values, shared evenly by both. DoRA's magnitudes are the norms
// that the changed weight has then. An A that another adapter owns is left alone.
void fill_start(Lora& adapter, const Weight& weight, const LoraStart& start, std::uint64_t seed,
                const std::string& name);

}  // namespace hone::nn
