// Kernels of ops::selective_scan over some channels of a document, from its begin to its end.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// Pointers are to the document's first token and the first of the channels; `all_channels` lie between two tokens' or
// two states' values.
template <class T>
struct ScanArgs {
  const T* x = nullptr;                                        // [tokens, channels]
  const Wide<T>*step = nullptr, *b = nullptr, *c = nullptr;    // as x; [tokens, states], dense
  const Wide<T>*rate = nullptr, *skip = nullptr;               // [states, channels]; [channels]
  std::int64_t tokens = 0, channels = 0, all_channels = 0, states = 0;
};

// What is added to, but for x, step, b and c. b and c: the parts of these channels.
template <class T>
struct ScanGradients {
  T* x = nullptr;
  Wide<T>*step = nullptr, *b = nullptr, *c = nullptr, *rate = nullptr, *skip = nullptr;
};

// Rooms are raw memory, aligned to 64 bytes.
template <class T>
struct ScanKernels {
  std::int64_t (*room)(const ScanArgs<T>& args);
  // state: what the document begins with, and leaves behind, [states, channels]; null: it begins with nothing, and
  // nobody asks what it leaves.
  void (*forward)(const ScanArgs<T>& args, Wide<T>* state, T* y, void* room);
  std::int64_t (*backward_room)(const ScanArgs<T>& args);  // grows with the tokens: it has states between stretches
  void (*backward)(const ScanArgs<T>& args, const T* dy, const ScanGradients<T>& to, void* room);
};
HONE_KERNELS(ScanKernels, scan_kernels)

}  // namespace hone::ops::cpu
