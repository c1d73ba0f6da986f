// What the machine could do at best, measured in milliseconds: what a step's rates are held against.
#pragma once

#include <c10/core/Device.h>

#include "hone/recipe.h"

namespace hone::training {

struct Ceilings {
  double products = 0;  // FLOP/s
  double memory = 0;    // bytes/s
};

// FLOP/s of large products, the best of ours and LibTorch's: what a recipe's products could reach.
double product_ceiling(Precision precision, at::Device device);

// Both; bytes are those that a copy beyond the caches reads and writes.
Ceilings ceilings(Precision precision, at::Device device);

}  // namespace hone::training
