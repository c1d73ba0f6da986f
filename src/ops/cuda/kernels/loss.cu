// Softmax cross-entropy of rows of logits, their gradient in the logits' place, and statistics: one block per row.
//
// The logarithm of a row's sum of exp comes out of one pass: every thread keeps the largest logit that it has seen, and
// its sums relative to that.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

// Of logits x: the largest, the sum of exp(x - reference), that of exp(x - reference) (x - reference), and that of x.
// Not a number is not the largest, but makes the sums so.
struct Seen {
  Wide largest, exps, products, total;
};

// What exponents are relative to: a row of infinities has its sums relative to 0.
HONE_DEVICE Wide reference_of(Wide largest) {
  return largest == infinity(largest) || largest == -infinity(largest) ? 0 : largest;
}

// The sums relative to what the new largest asks for.
HONE_DEVICE void move_to(Seen& seen, Wide largest) {
  const Wide by = reference_of(seen.largest) - reference_of(largest), factor = exp_of(by);
  seen.largest = largest;
  if (seen.exps == 0) return;  // nothing yet, or only logits of -infinity
  seen.products = (seen.products + by * seen.exps) * factor;
  seen.exps *= factor;
}

template <int kCount>
HONE_DEVICE Seen seen_of(const Value* logits, Int vocab) {
  const Wide least = -infinity(Wide());
  Seen seen = {least, 0, 0, 0};
  for (Int i = threadIdx.x; i < vocab / kCount; i += blockDim.x) {
    const Pack<Value, kCount> pack = load<kCount>(logits, i);
    Wide largest = seen.largest;
    for (int k = 0; k < kCount; ++k) largest = joined(Larger{}, largest, static_cast<Wide>(widened(pack.at[k])));
    if (largest > seen.largest) move_to(seen, largest);
    const Wide reference = reference_of(seen.largest);
    for (int k = 0; k < kCount; ++k) {
      const Wide x = widened(pack.at[k]), e = exp_of(x - reference);
      seen.exps += e;
      seen.products += e * (x - reference);  // of -infinity: not a number, as the entropy by its formula is
      seen.total += x;
    }
  }
  return seen;
}

struct Row {
  Value* logits;
  Int vocab, label;
  Wide weight, smoothing, z_loss;
};

template <int kCount>
HONE_DEVICE void write_gradient(const Row& a, Wide weight, Wide lse) {
  const Wide scale = 1 + 2 * a.z_loss * lse, uniform = a.smoothing / a.vocab;
  for (Int i = threadIdx.x; i < a.vocab / kCount; i += blockDim.x) {
    Pack<Value, kCount> pack = load<kCount>(a.logits, i);
    for (int k = 0; k < kCount; ++k) {
      Wide d = exp_of(widened(pack.at[k]) - lse) * scale - uniform;
      if (i * kCount + k == a.label) d -= 1 - a.smoothing;
      pack.at[k] = rounded<Value>(a.weight == 0 ? 0 : d * weight);
    }
    store<kCount>(a.logits, i, pack);
  }
}

// loss: null for none; statistics: null, or the row's four.
template <int kCount>
HONE_DEVICE void loss_row(const Row& a, Wide* loss, Wide* statistics, bool by_probability, bool gradient) {
  const Wide at_label = widened(a.logits[a.label]);
  Seen seen = seen_of<kCount>(a.logits, a.vocab);
  move_to(seen, over_block(Larger{}, seen.largest));
  const Wide exps = block_sum(seen.exps), relative = log_of(exps), lse = relative + reference_of(seen.largest);
  const Wide weight = by_probability && a.weight != 0 ? a.weight * exp_of(at_label - lse) : a.weight;
  Wide mean = 0;
  if (a.smoothing != 0 || statistics) mean = block_sum(seen.total) / a.vocab;
  if (statistics) {
    const Wide products = block_sum(seen.products);
    if (threadIdx.x == 0) {
      statistics[0] = relative - products / exps;
      statistics[1] = mean;
      statistics[2] = at_label >= seen.largest && lse == lse;
      statistics[3] = lse;
    }
  }
  if (threadIdx.x == 0) {
    Wide made = (1 - a.smoothing) * (lse - at_label) + a.z_loss * lse * lse;
    if (a.smoothing != 0) made += a.smoothing * (lse - mean);
    *loss = a.weight == 0 ? 0 : made * weight;
  }
  if (!gradient) return;
  __syncthreads();  // every thread has read the label's logit
  write_gradient<kCount>(a, weight, lse);
}

// Rows lie vocab values apart. A label outside of the vocabulary ends the kernel with an error, unless its weight is 0.
HONE_KERNEL loss(Value* logits, const Int* labels, const Wide* weights, Wide* losses, Wide* statistics, Int vocab,
                 double smoothing, double z_loss, int by_probability, int gradient, int wide) {
  const Int row = blockIdx.x;
  Row all = {logits + row * vocab,         vocab,
             labels[row],                  weights[row],
             static_cast<Wide>(smoothing), static_cast<Wide>(z_loss)};
  if (all.label < 0 || all.label >= vocab) {
    if (all.weight != 0) __trap();
    all.label = 0;
  }
  Wide* of_row = statistics ? statistics + row * 4 : nullptr;
  wide ? loss_row<Widest<Value>::kCount>(all, losses + row, of_row, by_probability, gradient)
       : loss_row<1>(all, losses + row, of_row, by_probability, gradient);
}
