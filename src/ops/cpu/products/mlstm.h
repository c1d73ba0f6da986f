// Kernels of ops::mlstm: one head of one document, chunk by chunk, or one token after another.
//
// A chunk's tokens read what the memory holds before the chunk, as one product, and each other, as attention does; then
// the memory takes them all in, as a third product. Rooms are raw memory aligned to 64 bytes.
#pragma once

#include "ops/cpu/products/head_rows.h"

namespace hone::ops::cpu {

struct MlstmShape {
  std::int64_t tokens = 0, key_size = 0, value_size = 0;
  double eps = 0;
};

// Gates follow each other gate_stride apart: before e^x, and before the sigmoid.
template <class T>
struct MlstmRows {
  HeadRows<const T> q, k, v;
  const Wide<T>*input = nullptr, *forget = nullptr;
  std::int64_t gate_stride = 0;
};

// What the document begins with, and leaves behind: [key_size, value_size], [key_size] and one number. null: it begins
// with nothing, and nobody asks what it leaves.
template <class T>
struct MlstmState {
  Wide<T>*values = nullptr, *keys = nullptr, *m = nullptr;
};

template <class T>
struct MlstmResult {
  HeadRows<T> h;
  Wide<T>* divisor = nullptr;  // of each token, dense
};

template <class T>
struct MlstmOutput {
  HeadRows<const T> h, dh;
  const Wide<T>* divisor = nullptr;
};

template <class T>
struct MlstmGradientRows {
  HeadRows<T> q, k, v;
  Wide<T>*input = nullptr, *forget = nullptr;  // gate_stride apart, as the gates
};

template <class T>
struct MlstmForward {
  std::int64_t (*room)(const MlstmShape& shape);
  void (*run)(const MlstmShape& shape, const MlstmRows<T>& rows, const MlstmState<T>& state,
              const MlstmResult<T>& result, void* room);
};
HONE_DOT_KERNELS(MlstmForward, mlstm_forward)

// Of a document that began with nothing.
template <class T>
struct MlstmBackward {
  std::int64_t (*room)(const MlstmShape& shape);  // grows with the tokens: it has the memory before each chunk
  void (*run)(const MlstmShape& shape, const MlstmRows<T>& rows, const MlstmOutput<T>& output,
              const MlstmGradientRows<T>& gradients, void* room);
};
HONE_DOT_KERNELS(MlstmBackward, mlstm_backward)

}  // namespace hone::ops::cpu
