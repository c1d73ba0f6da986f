// Which experts each token goes to, a warp for each token: the softmax of its logits, the largest of what that gives,
// and the gradient back to the logits. How evenly experts are used.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

constexpr int kRouterThreads = 256;

template <class W>
HONE_DEVICE W warp_sum(W x) {
  for (int away = kWarp / 2; away > 0; away /= 2) x += __shfl_xor_sync(kAllLanes, x, away);
  return x;
}

// Numbers that are not below 0, as integers in the same order; what is not a number is above them.
HONE_DEVICE unsigned long long ordered(float x) {
  union {
    float value;
    unsigned bits;
  } both = {x};
  return both.bits;
}
HONE_DEVICE unsigned long long ordered(double x) {
  union {
    double value;
    unsigned long long bits;
  } both = {x};
  return both.bits;
}

// Lane l has experts l, l + 32 and so on, kOwn of them.
template <int kOwn>
HONE_DEVICE void softmax_of(const Value* logits, int experts, Wide (&own)[kOwn]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Wide largest = -infinity(Wide()), sum = 0;
  HONE_UNROLL for (int i = 0; i < kOwn; ++i) {
    const int e = lane + i * kWarp;
    own[i] = e < experts ? widened(logits[e]) : -infinity(Wide());
    largest = joined(Larger{}, largest, own[i]);
  }
  for (int away = kWarp / 2; away > 0; away /= 2)
    largest = joined(Larger{}, largest, __shfl_xor_sync(kAllLanes, largest, away));
  HONE_UNROLL for (int i = 0; i < kOwn; ++i) {
    own[i] = lane + i * kWarp < experts ? exp_of(own[i] - largest) : 0;
    sum += own[i];
  }
  sum = warp_sum(sum);
  HONE_UNROLL for (int i = 0; i < kOwn; ++i) own[i] /= sum;
}

// One that is as large as any of those that were not taken; of several the first one. All lanes have it.
struct Likeliest {
  unsigned long long order;
  int expert;
};
template <int kOwn>
HONE_DEVICE Likeliest likeliest_of(const Wide (&own)[kOwn], const bool (&taken)[kOwn], int experts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Likeliest best = {0, experts};
  const auto take = [&](unsigned long long order, int expert) {
    const bool is = expert < experts && (best.expert == experts || order > best.order ||
                                         (order == best.order && expert < best.expert));
    if (is) best = {order, expert};
  };
  HONE_UNROLL for (int i = 0; i < kOwn; ++i)
    if (!taken[i]) take(ordered(own[i]), lane + i * kWarp);
  for (int away = kWarp / 2; away > 0; away /= 2) {
    const unsigned long long order = __shfl_xor_sync(kAllLanes, best.order, away);
    take(order, __shfl_xor_sync(kAllLanes, best.expert, away));
  }
  return best;
}

struct ChosenOf {
  Wide *probability, *weight;
  Int* expert;
};
template <int kOwn>
HONE_DEVICE void choose_of(const Value* logits, const ChosenOf& to, int experts, int per_token, int normalise) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Wide own[kOwn], weight = 0, sum = 0;
  bool taken[kOwn] = {};
  Int expert = 0;
  softmax_of(logits, experts, own);
  HONE_UNROLL for (int i = 0; i < kOwn; ++i)
    if (lane + i * kWarp < experts) to.probability[lane + i * kWarp] = own[i];
  for (int k = 0; k < per_token; ++k) {  // at most as many as there are lanes, each of which keeps one
    const int best = likeliest_of(own, taken, experts).expert;
    Wide value = 0;
    HONE_UNROLL for (int i = 0; i < kOwn; ++i)
      if (lane + i * kWarp == best) value = own[i], taken[i] = true;
    value = warp_sum(value);
    sum += value;
    if (lane == k) weight = value, expert = best;
  }
  if (lane >= per_token) return;
  to.weight[lane] = normalise ? weight / sum : weight;
  to.expert[lane] = expert;
}

template <int kOwn>
HONE_DEVICE void choose_back(const ChosenOf& made, const Wide* dweight, const Wide* dsum, Value* dlogits, int experts,
                             int per_token, int normalise) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Wide own[kOwn], slope[kOwn], mean = 0, sum = 0, dot = 0;
  HONE_UNROLL for (int i = 0; i < kOwn; ++i) {
    const int e = lane + i * kWarp;
    own[i] = e < experts ? made.probability[e] : 0;
    slope[i] = dsum && e < experts ? dsum[e] : 0;
  }
  for (int k = 0; normalise && dweight && k < per_token; ++k) {
    sum += made.probability[made.expert[k]];
    dot += dweight[k] * made.weight[k];
  }
  for (int k = 0; dweight && k < per_token; ++k) {
    const Int e = made.expert[k];
    const Wide d = normalise ? (dweight[k] - dot) / sum : dweight[k];
    HONE_UNROLL for (int i = 0; i < kOwn; ++i)
      if (lane + i * kWarp == e) slope[i] += d;
  }
  HONE_UNROLL for (int i = 0; i < kOwn; ++i) mean += own[i] * slope[i];
  mean = warp_sum(mean);
  HONE_UNROLL for (int i = 0; i < kOwn; ++i)
    if (lane + i * kWarp < experts) dlogits[lane + i * kWarp] = rounded<Value>(own[i] * (slope[i] - mean));
}

HONE_DEVICE Int own_token() { return (static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp; }

// Of logits [tokens, experts], at most 512 experts: probability, as they lie; weight and expert: [tokens, per_token].
HONE_KERNEL_OF(kRouterThreads)
choose_experts(const Value* logits, Wide* probability, Wide* weight, Int* expert, Int tokens, int experts,
               int per_token, int normalise) {
  const Int n = own_token();
  if (n >= tokens) return;
  const Value* from = logits + n * experts;
  const ChosenOf to = {probability + n * experts, weight + n * per_token, expert + n * per_token};
  if (experts <= kWarp)
    choose_of<1>(from, to, experts, per_token, normalise);
  else if (experts <= 4 * kWarp)
    choose_of<4>(from, to, experts, per_token, normalise);
  else
    choose_of<16>(from, to, experts, per_token, normalise);
}
// dweight: of the weights; dsum [experts]: of the sum of all tokens' probabilities; null: none.
HONE_KERNEL_OF(kRouterThreads)
choose_experts_backward(Wide* probability, Wide* weight, Int* expert, const Wide* dweight, const Wide* dsum,
                        Value* dlogits, Int tokens, int experts, int per_token, int normalise) {
  const Int n = own_token();
  if (n >= tokens) return;
  const ChosenOf made = {probability + n * experts, weight + n * per_token, expert + n * per_token};
  const Wide* of_weight = dweight ? dweight + n * per_token : nullptr;
  Value* to = dlogits + n * experts;
  if (experts <= kWarp)
    choose_back<1>(made, of_weight, dsum, to, experts, per_token, normalise);
  else if (experts <= 4 * kWarp)
    choose_back<4>(made, of_weight, dsum, to, experts, per_token, normalise);
  else
    choose_back<16>(made, of_weight, dsum, to, experts, per_token, normalise);
}

// Slots of expert e are [begin[e], begin[e + 1]). spread: the largest share relative to an even one and the entropy of
// the shares in nats, each times `weight`, and the weight. One warp.
HONE_KERNEL measure_spread(const Int* begin, double* spread, int experts, double weight) {
  const auto slots = static_cast<double>(begin[experts]);
  double largest = 0, entropy = 0;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kWarp) {
    const double share = static_cast<double>(begin[e + 1] - begin[e]) / slots;
    largest = joined(Larger{}, largest, share);
    if (share > 0) entropy -= share * log_of(share);
  }
  for (int away = kWarp / 2; away > 0; away /= 2)
    largest = joined(Larger{}, largest, __shfl_xor_sync(kAllLanes, largest, away));
  entropy = warp_sum(entropy);
  if (threadIdx.x != 0) return;
  spread[0] = largest * experts * weight;
  spread[1] = entropy * weight;
  spread[2] = weight;
}
