// A router's choice for one token after another, on plain memory: what ops/router.h means.
//
// Letters: E experts, K experts of a token.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel.h"
#include "ops/primitives.h"

namespace hone::ops {

// The places of the `count` largest of `values`, from the largest on; of equal ones the first. A value that is no
// number is larger than none.
template <class W>
void find_largest(const W* values, std::int64_t all, std::int64_t count, std::int64_t* places) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < all; ++i) {
    if (found == count && !(values[i] > values[places[count - 1]])) continue;
    std::int64_t at = found < count ? found++ : count - 1;
    for (; at > 0 && values[i] > values[places[at - 1]]; --at) places[at] = places[at - 1];
    places[at] = i;
  }
}

// Of equally likely experts the lower one. probability: room for E, which are left there; weight, expert: room for K.
template <class T>
void choose_for_one(const T* logits, std::int64_t experts, const ChoiceOptions& options, cpu::Wide<T>* probability,
                    cpu::Wide<T>* weight, std::int64_t* expert);

}  // namespace hone::ops
