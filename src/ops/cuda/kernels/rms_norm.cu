// RMSNorm, with the residual that it is read from: a block makes rows one after another.

// sum = x + residual, rounded (residual may be null: then x is the sum, and nothing is written); inv_rms of each row;
// normed = sum * inv_rms, rounded, * weight.
template <class T>
__device__ void forward(const T* x, const T* residual, const T* weight, double eps, i64 rows, i64 columns, T* sum,
                        T* normed, typename Wide<T>::type* inv_rms) {
  typedef typename Wide<T>::type W;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const i64 at = row * columns;
    const T* in = residual ? sum : x;
    W squares = 0;
    for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
      if (residual) narrow(wide(x[at + c]) + wide(residual[at + c]), sum[at + c]);
      const W value = wide(in[at + c]);
      squares += value * value;
    }
    const W inverse = 1 / sqrt(sum_of_block(squares) / static_cast<W>(columns) + static_cast<W>(eps));
    if (threadIdx.x == 0) inv_rms[row] = inverse;
    for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
      T rounded;
      narrow(wide(in[at + c]) * inverse, rounded);
      narrow(wide(rounded) * wide(weight[c]), normed[at + c]);
    }
  }
}

// dx = (g - y mean(g y)) inv_rms + extra with g = dy weight, y = sum inv_rms; a block's rows give one row of weights.
// Each thread has its own columns of weights, which it sums over the rows in their order.
template <class T>
__device__ void backward(const T* dy, const T* extra, const T* weight, const T* sum,
                         const typename Wide<T>::type* inv_rms, i64 rows, i64 columns, T* dx,
                         typename Wide<T>::type* weights) {
  typedef typename Wide<T>::type W;
  W* own = weights + blockIdx.x * columns;
  for (i64 c = threadIdx.x; c < columns; c += blockDim.x) own[c] = 0;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const i64 at = row * columns;
    const W inverse = inv_rms[row];
    W products = 0;
    for (i64 c = threadIdx.x; c < columns; c += blockDim.x)
      products += wide(dy[at + c]) * wide(weight[c]) * (wide(sum[at + c]) * inverse);
    const W mean = sum_of_block(products) / static_cast<W>(columns);
    for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
      const W gradient = wide(dy[at + c]), y = wide(sum[at + c]) * inverse;
      T rounded;
      narrow(y, rounded);
      own[c] += gradient * wide(rounded);
      W made = (gradient * wide(weight[c]) - y * mean) * inverse;
      if (extra) made += wide(extra[at + c]);
      narrow(made, dx[at + c]);
    }
  }
}

#define RMS_NORM(T)                                                                                                 \
  extern "C" __global__ void rms_norm_##T(const T* x, const T* residual, const T* weight, double eps, i64 rows,     \
                                          i64 columns, T* sum, T* normed, Wide<T>::type* inv_rms) {                 \
    forward<T>(x, residual, weight, eps, rows, columns, sum, normed, inv_rms);                                      \
  }                                                                                                                 \
  extern "C" __global__ void rms_norm_backward_##T(const T* dy, const T* extra, const T* weight, const T* sum,      \
                                                   const Wide<T>::type* inv_rms, i64 rows, i64 columns, T* dx,      \
                                                   Wide<T>::type* weights) {                                        \
    backward<T>(dy, extra, weight, sum, inv_rms, rows, columns, dx, weights);                                       \
  }
FOR_EACH_TYPE(RMS_NORM)
