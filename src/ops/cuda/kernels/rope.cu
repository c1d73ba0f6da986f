// Rotation of pairs (i, i + K/2) of heads by tables of cos and sin, [P, K/2]; rows says which row belongs to a token.
// Values of a token lie side by side, tokens x_stride and y_stride apart. y may be x. sign -1: the opposite rotation.

template <class T>
__device__ void rotate(const T* x, i64 x_stride, T* y, i64 y_stride, const typename Wide<T>::type* cosines,
                       const typename Wide<T>::type* sines, const i64* rows, i64 tokens, i64 heads, i64 half,
                       int sign) {
  typedef typename Wide<T>::type W;
  const i64 pairs = heads * half;
  for (i64 i = blockIdx.x * i64(blockDim.x) + threadIdx.x; i < tokens * pairs; i += i64(gridDim.x) * blockDim.x) {
    const i64 token = i / pairs, pair = i % pairs, head = pair / half, k = pair % half;
    const i64 first = head * 2 * half + k, angle = rows[token] * half + k;
    const W c = cosines[angle], s = sines[angle] * sign;
    const W low = wide(x[token * x_stride + first]), high = wide(x[token * x_stride + first + half]);
    narrow(low * c - high * s, y[token * y_stride + first]);
    narrow(high * c + low * s, y[token * y_stride + first + half]);
  }
}

#define ROPE(T)                                                                                                     \
  extern "C" __global__ void rope_##T(const T* x, i64 x_stride, T* y, i64 y_stride, const Wide<T>::type* cosines,   \
                                      const Wide<T>::type* sines, const i64* rows, i64 tokens, i64 heads, i64 half, \
                                      int sign) {                                                                   \
    rotate<T>(x, x_stride, y, y_stride, cosines, sines, rows, tokens, heads, half, sign);                           \
  }
FOR_EACH_TYPE(ROPE)
