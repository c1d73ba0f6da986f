// The loss of tokens from their logits, and its gradient in place of them: a block has a token.
//
// With p the softmax and s the smoothing: loss = (1 - s)(lse - logit of the label) + s (lse - mean logit) + z lse^2,
// times the token's weight. statistics (may be null), 4 of each token: the entropy of p, the mean logit, 1 where no
// logit is above the label's, lse.

template <class T>
__device__ void lose(T* logits, i64 columns, const i64* labels, const typename Wide<T>::type* weights, int gradient,
                     double smoothing, double z_loss, typename Wide<T>::type* losses,
                     typename Wide<T>::type* statistics) {
  typedef typename Wide<T>::type W;
  T* own = logits + blockIdx.x * columns;
  const W s = static_cast<W>(smoothing), z = static_cast<W>(z_loss), weight = weights[blockIdx.x];
  const i64 label = labels[blockIdx.x];
  W most = -static_cast<W>(INFINITY), sum = 0;
  for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
    const W x = wide(own[c]);
    most = Most::of(most, x);
    sum += x;
  }
  most = of_block<Most>(most);
  const W mean = sum_of_block(sum) / static_cast<W>(columns), of_label = wide(own[label]);
  const W shift = isinf(most) ? W(0) : most;  // an infinite one makes the sum what it is to be
  W powers = 0;
  for (i64 c = threadIdx.x; c < columns; c += blockDim.x) powers += exp(wide(own[c]) - shift);
  const W lse = log(sum_of_block(powers)) + shift;
  if (statistics) {
    W entropy = 0;
    for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
      const W log_p = wide(own[c]) - lse;
      entropy -= exp(log_p) * log_p;
    }
    entropy = sum_of_block(entropy);
    if (threadIdx.x == 0) {
      W* to = statistics + blockIdx.x * 4;
      to[0] = entropy, to[1] = mean, to[2] = of_label >= most ? W(1) : W(0), to[3] = lse;
    }
  }
  if (threadIdx.x == 0) {
    W loss = (1 - s) * (lse - of_label) + z * lse * lse;
    if (smoothing != 0) loss += s * (lse - mean);
    losses[blockIdx.x] = weight == 0 ? W(0) : loss * weight;
  }
  if (!gradient) return;
  const W scale = 1 + 2 * z * lse;
  for (i64 c = threadIdx.x; c < columns; c += blockDim.x) {
    W d = exp(wide(own[c]) - lse) * scale - s / static_cast<W>(columns);
    if (c == label) d -= 1 - s;
    narrow(weight == 0 ? W(0) : d * weight, own[c]);
  }
}

#define CROSS_ENTROPY(T)                                                                                            \
  extern "C" __global__ void cross_entropy_##T(T* logits, i64 columns, const i64* labels,                           \
                                               const Wide<T>::type* weights, int gradient, double smoothing,        \
                                               double z_loss, Wide<T>::type* losses, Wide<T>::type* statistics) {   \
    lose<T>(logits, columns, labels, weights, gradient, smoothing, z_loss, losses, statistics);                     \
  }
FOR_EACH_TYPE(CROSS_ENTROPY)
