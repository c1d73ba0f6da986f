// act(gate) * up and its gradients, element by element. kind: ops::Activation's number.

enum { kSilu, kGelu, kGeluTanh, kRelu };

// The activation and its slope.
template <class W>
__device__ inline void activate(W x, int kind, W& value, W& slope) {
  if (kind == kSilu) {
    const W s = 1 / (1 + exp(-x));
    value = x * s;
    slope = s * (1 + x * (1 - s));
  } else if (kind == kGelu) {
    const W share = W(0.5) * (1 + erf(x * W(0.70710678118654752440)));
    value = x * share;
    slope = share + x * exp(W(-0.5) * x * x) * W(0.39894228040143267794);
  } else if (kind == kGeluTanh) {
    const W root = W(0.79788456080286535588), cube = W(0.044715);
    const W t = tanh(root * (x + cube * x * x * x));
    value = W(0.5) * x * (1 + t);
    slope = W(0.5) * (1 + t) + W(0.5) * x * (1 - t * t) * root * (1 + 3 * cube * x * x);
  } else {
    value = x <= 0 ? W(0) : x;  // what is not a number stays so
    slope = x <= 0 ? W(0) : W(1);
  }
}

template <class T>
__device__ void forward(const T* gate, const T* up, int kind, i64 count, T* y) {
  typedef typename Wide<T>::type W;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count; i += i64(gridDim.x) * blockDim.x) {
    W value, slope;
    activate<W>(wide(gate[i]), kind, value, slope);
    narrow(value * wide(up[i]), y[i]);
  }
}

// dup may be dy.
template <class T>
__device__ void backward(const T* dy, const T* gate, const T* up, int kind, i64 count, T* dgate, T* dup) {
  typedef typename Wide<T>::type W;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < count; i += i64(gridDim.x) * blockDim.x) {
    W value, slope;
    activate<W>(wide(gate[i]), kind, value, slope);
    const W gradient = wide(dy[i]);
    narrow(gradient * wide(up[i]) * slope, dgate[i]);
    narrow(gradient * value, dup[i]);
  }
}

#define GATED(T)                                                                                                    \
  extern "C" __global__ void gated_##T(const T* gate, const T* up, int kind, i64 count, T* y) {                     \
    forward<T>(gate, up, kind, count, y);                                                                           \
  }                                                                                                                 \
  extern "C" __global__ void gated_backward_##T(const T* dy, const T* gate, const T* up, int kind, i64 count,       \
                                                T* dgate, T* dup) {                                                 \
    backward<T>(dy, gate, up, kind, count, dgate, dup);                                                             \
  }
FOR_EACH_TYPE(GATED)
