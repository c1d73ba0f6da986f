// Keys and values of new tokens into the rows of a cache.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kMostRuns = 128;

// Heads one after another to where they lie `apart`.
template <int kCount>
HONE_DEVICE void store_token(const Value* from, Value* to, Int apart, int groups, int size) {
  const int packs = size / kCount;
  for (int i = threadIdx.x; i < groups * packs; i += blockDim.x)
    store<kCount>(to + i / packs * apart, i % packs, load<kCount>(from, i));
}

// An entry of a cache: a token's heads of both.
struct Entry {
  Value *k, *v;
  Int group_apart;
  int groups, size;
};
HONE_DEVICE void store_both(const Value* k, const Value* v, const Entry& to, int wide) {
  constexpr int kWide = Widest<Value>::kCount;
  if (wide) {
    store_token<kWide>(k, to.k, to.group_apart, to.groups, to.size);
    store_token<kWide>(v, to.v, to.group_apart, to.groups, to.size);
  } else {
    store_token<1>(k, to.k, to.group_apart, to.groups, to.size);
    store_token<1>(v, to.v, to.group_apart, to.groups, to.size);
  }
}

// Of each run of tokens (y) that many, which begin at `firsts`, to the entries of a row that begin at `places`: a block
// per token (x). k_apart, v_apart: between tokens.
HONE_KERNEL store_entries(const Value* k, const Value* v, Value* k_cache, Value* v_cache,
                          HONE_LIST(int, kMostRuns) firsts, HONE_LIST(int, kMostRuns) counts,
                          HONE_LIST(int, kMostRuns) rows, HONE_LIST(int, kMostRuns) places, Int k_apart, Int v_apart,
                          Int row_apart, Int group_apart, Int entry_apart, int groups, int size, int wide) {
  const int run = blockIdx.y, number = blockIdx.x;
  if (number >= counts.at[run]) return;
  const Int token = firsts.at[run] + number,
            entry = rows.at[run] * row_apart + (places.at[run] + number) * entry_apart;
  store_both(k + token * k_apart, v + token * v_apart, {k_cache + entry, v_cache + entry, group_apart, groups, size},
             wide);
}

// One token per row (a block): to the entry that `held` says.
HONE_KERNEL store_one_each(const Value* k, const Value* v, Value* k_cache, Value* v_cache, const Int* held,
                           Int k_apart, Int v_apart, Int row_apart, Int group_apart, Int entry_apart, int groups,
                           int size, int wide) {
  let_next_begin();
  wait_for_before();
  const Int row = blockIdx.x, entry = row * row_apart + held[row] * entry_apart;
  store_both(k + row * k_apart, v + row * v_apart, {k_cache + entry, v_cache + entry, group_apart, groups, size}, wide);
}
