// Attention of one new token per row, a launch for all parts and one that joins them (decode.h).
#ifndef HONE_EMULATED
#include "ops/cuda/kernels/decode.h"
#endif

template <int kSize, class T>
HONE_DEVICE void decode_caches(T, const Caches& in, const NewToken& token) {
  if constexpr (sizeof(T) == 2) {
    Decoding a;
    Results to;
    OwnPart own;
    if (!find_part(in, kTileHeads, place_of_block(), own, a, to)) return;
    ask_for_first<kSize>(a);
    take_new(in, token, own, a);
    decode_by_cores<kSize>(a, to);
  }
}
template <int kCount>
HONE_DEVICE void decode_plainly(const Caches& in, const NewToken& token) {
  Decoding a;
  Results to;
  OwnPart own;
  if (!find_part(in, kCount, place_of_block(), own, a, to)) return;
  take_new(in, token, own, a);
  decode_heads<kCount, kCount>(a, to);
}

// q, y: [rows, groups, shared, size]; k, v: entries of rows and groups, the key/value heads, that lie so far apart; the
// newest one of a row is entry held; largest, sum, parts: [rows, groups, shared, gridDim.x (, size)]. A block is a part
// of a row's entries (x) and those of its heads (y) that go together: as many as values in an access. new_k and the
// like: NewToken; [rows, groups, size].
#define HONE_DECODE(name, body)                                                                                        \
  HONE_KERNEL_OF(kDecodeWarps* kWarp)                                                                                  \
  name(const Value* q, Value* k, Value* v, Value* y, Wide* largest, Wide* sum, Wide* parts, const Int* held,           \
       Int window, Int row_apart, Int group_apart, Int entry_apart, int groups, int shared, int size, double scale,    \
       double soft_cap, const Value* new_k, const Value* new_v, const Wide* cos, const Wide* sin, const Int* angles,   \
       int wide) {                                                                                                     \
    let_next_begin();                                                                                                  \
    wait_for_before();                                                                                                 \
    const Caches in = {q, k, v, y, largest, sum, parts, held, window, row_apart, group_apart, entry_apart, groups,     \
                       shared, size, static_cast<Wide>(scale), static_cast<Wide>(soft_cap)};                           \
    const NewToken token = {new_k, new_v, cos, sin, angles};                                                           \
    static_cast<void>(wide); /* tensor cores take whole packs alone */                                                 \
    body;                                                                                                              \
  }
HONE_DECODE(decode, wide ? decode_plainly<Widest<Value>::kCount>(in, token) : decode_plainly<1>(in, token))
// The same by tensor cores: of 16 bits, up to so many values of a head, in whole packs; kTileHeads heads go together.
HONE_DECODE(decode_64, decode_caches<64>(Value{}, in, token))
HONE_DECODE(decode_128, decode_caches<128>(Value{}, in, token))

// A block per query head of a row; most: parts that there is room for.
HONE_KERNEL_OF(kMostSize)
join_parts(Value* y, const Wide* largest, const Wide* sum, const Wide* parts, const Int* held, Int window,
           int heads, int size, int most) {
  let_next_begin();
  wait_for_before();
  const auto count = static_cast<int>(parts_of(held[blockIdx.x / heads], window).count);
  join_head({y, largest, sum, parts, size}, blockIdx.x, most, count, static_cast<int>(threadIdx.x));
}
