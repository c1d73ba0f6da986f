// Kernels of ops::ssd: a few heads of one document that share what is written and read by, chunk by chunk, or one token
// after another.
//
// In a chunk tokens read each other as attention does, what came before as one product with the state, and the state
// takes the chunk in as a third. Rooms are raw memory aligned to 64 bytes.
#pragma once

#include "ops/cpu/products/head_rows.h"

namespace hone::ops::cpu {

struct SsdShape {
  std::int64_t tokens = 0, key_size = 0, value_size = 0;  // of B and C; of x
  std::int64_t heads = 1;
};

// Heads of x lie `x_head` apart; their decays and steps side by side, a token's gate_stride behind the last one's.
template <class T>
struct SsdRows {
  HeadRows<const T> c, b, x;
  std::int64_t x_head = 0;
  const Wide<T>*decay = nullptr, *step = nullptr;
  std::int64_t gate_stride = 0;
  const Wide<T>* skip = nullptr;  // of each head
};

// dc and db: the parts of these heads.
template <class T>
struct SsdGradientRows {
  HeadRows<Wide<T>> c, b;
  HeadRows<T> x;
  std::int64_t x_head = 0;
  Wide<T>*decay = nullptr, *step = nullptr, *skip = nullptr;  // gate_stride apart, as the gates; skip: of each token
};

template <class T>
struct SsdForward {
  std::int64_t (*room)(const SsdShape& shape);
  // state: what the document begins with, and leaves behind, [heads, key_size, value_size]; null: it begins with
  // nothing, and nobody asks what it leaves. y: as x.
  void (*run)(const SsdShape& shape, const SsdRows<T>& rows, Wide<T>* state, HeadRows<T> y, std::int64_t y_head,
              void* room);
};
HONE_DOT_KERNELS(SsdForward, ssd_forward)

// Of a document that began with nothing.
template <class T>
struct SsdBackward {
  std::int64_t (*room)(const SsdShape& shape);  // grows with the tokens: it has the states before each chunk
  void (*run)(const SsdShape& shape, const SsdRows<T>& rows, HeadRows<const T> dy, std::int64_t dy_head,
              const SsdGradientRows<T>& gradients, void* room);
};
HONE_DOT_KERNELS(SsdBackward, ssd_backward)

}  // namespace hone::ops::cpu
