// What LoRA's factors begin with.
#pragma once

#include <cstdint>
#include <string>

#include "nn/lora.h"

namespace hone::nn {

// A start by its name, as PEFT's init_lora_weights has it: "default", "pissa", "pissa_niter_4".
struct LoraStart {
  enum class Kind { standard, gaussian, orthogonal, pissa, olora } kind = Kind::standard;
  std::int64_t iterations = 0;  // of PiSSA; 0: exact
  // Whether the factors begin as a part of the weight, which has to have as large a rank, and goes on without it.
  bool takes_from_weight() const { return kind == Kind::pissa || kind == Kind::olora; }
  // Whether each module has factors that belong together: A cannot be another's.
  bool needs_own_a() const { return takes_from_weight() || kind == Kind::orthogonal; }
};
LoraStart lora_start(const std::string& name);  // Error(config): there is no such start
// Error(config): the weight, called `module`, cannot have such a start with this rank.
void check_start(const LoraStart& start, const Weight& weight, std::int64_t rank, const std::string& module);

// Fills the adapter's weights, in fp32 (fp64 for an fp64 weight), as a function of seed and name. As PEFT does: A is
// drawn evenly from +-1 / sqrt(inputs), or for `gaussian` normally with a deviation of 1 / rank; B is zero. Of a table
// A is zero and B normal. PiSSA: the largest singular values, shared evenly by both. OLoRA (Büyükakyüz, 2024,
// arXiv:2406.01775): the first columns and rows of the weight's Q and R. `orthogonal`: normal factors, a tenth as
// large, of orthogonal subspaces, so that their product is zero and neither is. DoRA's magnitudes are the norms that
// the changed weight has then. An A that another adapter owns is left alone.
// REQUIRES: check_start().
void fill_start(Lora& adapter, const Weight& weight, const LoraStart& start, std::uint64_t seed,
                const std::string& name);

}  // namespace hone::nn
