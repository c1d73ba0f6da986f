// Launches of few rows' kernels, one after another, as one launch (kernels/chain.cu): what a token goes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/cuda/program.h"

namespace hone::ops::cuda_table {

// A launch, with its arguments as the driver lays them out: each at the next multiple of its alignment.
struct Launched {
  std::string_view source, name;
  std::int64_t x = 1, y = 1;  // its grid
  std::vector<std::byte> arguments;
};

// What a GPU has for one.
struct ChainLimits {
  std::int64_t blocks;  // that are there at once, one on each multiprocessor
  std::int64_t room;    // bytes of each
};

struct Chain {
  Kernel kernel;
  Grid grid;
  int count = 0;                 // launches that it stands for
  int step_count = 0;            // of the kernel's
  std::vector<std::byte> steps;  // what the kernel reads: to be copied to the device and kept
  std::int64_t words = 0;        // of 16 bits, through which blocks give one another values; there are two sets of them
  std::int64_t parts = 0;        // the same, of 64 bits, once
  int depth = 0, kept_values = 0;
};

// Whether a launch can be a step: of one row, in whole accesses, of 16 bits.
bool can_be_step(const Launched& launch);

// Of as many of the launches as fit, from the first on; nothing where that is not worth it. REQUIRES: all of them can
// be steps, of one type of values of 16 bits.
std::optional<Chain> chain_of(const std::vector<Launched>& launches, const ChainLimits& limits);

}  // namespace hone::ops::cuda_table
