// Kernels of ops::gated_delta: one head of queries and keys of one document, with the heads of values that it serves,
// chunk by chunk, or one token after another.
//
// A token writes what its value is above what the memory has for its key, which depends on what the chunk's tokens
// before it wrote: a triangle of equations, solved with what the memory held before the chunk. Then the chunk's tokens
// read the memory and each other, as attention does, and the memory takes in what they wrote. Rooms are raw memory
// aligned to 64 bytes.
#pragma once

#include "ops/cpu/products/head_rows.h"

namespace hone::ops::cpu {

struct DeltaShape {
  std::int64_t tokens = 0, key_size = 0, value_size = 0;
  std::int64_t group = 1;  // heads of values
};

// Heads of the group lie `value_head` apart; their decays and steps side by side, a token's gate_stride behind the last
// one's.
template <class T>
struct DeltaRows {
  HeadRows<const T> q, k, v;
  std::int64_t value_head = 0;
  const Wide<T>*decay = nullptr, *step = nullptr;
  std::int64_t gate_stride = 0;
};

template <class T>
struct DeltaGradientRows {
  HeadRows<T> q, k, v;
  std::int64_t value_head = 0;
  Wide<T>*decay = nullptr, *step = nullptr;  // gate_stride apart, as the gates
};

template <class T>
struct DeltaForward {
  std::int64_t (*room)(const DeltaShape& shape);
  // memory: what the document begins with, and leaves behind, [group, key_size, value_size]; null: it begins with
  // nothing, and nobody asks what it leaves. y: as v.
  void (*run)(const DeltaShape& shape, const DeltaRows<T>& rows, Wide<T>* memory, HeadRows<T> y, std::int64_t y_head,
              void* room);
};
HONE_DOT_KERNELS(DeltaForward, delta_forward)

// Of a document that began with nothing.
template <class T>
struct DeltaBackward {
  std::int64_t (*room)(const DeltaShape& shape);  // grows with the tokens: it has the memories before each chunk
  void (*run)(const DeltaShape& shape, const DeltaRows<T>& rows, HeadRows<const T> dy, std::int64_t dy_head,
              const DeltaGradientRows<T>& gradients, void* room);
};
HONE_DOT_KERNELS(DeltaBackward, delta_backward)

}  // namespace hone::ops::cpu
