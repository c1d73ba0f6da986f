// Attention of one new token per row against the row's cache, as flash-decoding has it: blocks share a row's entries in
// parts, which a second kernel joins in their order.
//
// An entry is read once for all the query heads that share it, by a few neighbours in a warp, each of which has some
// packs of its key and of its value. Exponents are of 2: what is missing of e is in the scale.
//
// The kernel before this one makes the new token alone. All else may have been there long before, if the launch says so
// (`settled`, of ops/primitives.h): it is then asked for while that kernel still runs. The newest entry, which a block
// turns and stores itself, is read from the block's room.
#ifndef HONE_EMULATED
#include "ops/cuda/kernels/decode.h"
#endif

// Blocks that have no part end at once; the first part of each row waits for what is before.
template <int kSize, class T>
HONE_DEVICE void decode_caches(T, const Caches& in, const NewToken& token) {
  if constexpr (sizeof(T) == 2) {
    Decoding a;
    Results to;
    OwnPart own;
    if (!find_own_part(in, kTileHeads, own, a, to)) return;
    CoreTile<kSize> tile;
    load_tile(tile, a, first_of_warp(a));
    const Turns& turns = load_turns(in, token, own);
    wait_for_before();
    take_new(in, token, own, turns, a);
    decode_by_cores(a, tile, to);
  }
}
template <int kCount>
HONE_DEVICE void decode_plainly(const Caches& in, const NewToken& token) {
  Decoding a;
  Results to;
  OwnPart own;
  if (!find_own_part(in, kCount, own, a, to)) return;
  const Turns& turns = load_turns(in, token, own);
  wait_for_before();
  take_new(in, token, own, turns, a);
  decode_heads<kCount, kCount>(a, to);
}

// q, y: [rows, groups, shared, size]; k, v: entries of rows and groups, the key/value heads, that lie so far apart; the
// newest one of a row is entry held; largest, sum, parts: [rows, groups, shared, gridDim.x (, size)]. A block is a part
// of a row's entries (x) and those of its heads (y) that go together: as many as values in an access. new_k and the
// like: NewToken; [rows, groups, size]. least: parts_of()'s. settled: of the rest, only the newest entries may still be
// on their way.
#define HONE_DECODE(name, warps, body)                                                                                 \
  HONE_KERNEL_OF(warps* kWarp)                                                                                         \
  name(const Value* q, Value* k, Value* v, Value* y, Wide* largest, Wide* sum, Wide* parts, const Int* held,           \
       Int window, Int row_apart, Int group_apart, Int entry_apart, int groups, int shared, int size, int least,       \
       double scale, double soft_cap, const Value* new_k, const Value* new_v, const Wide* cos, const Wide* sin,        \
       const Int* angles, const Value* sinks, int settled, int wide) {                                                 \
    let_next_begin();                                                                                                  \
    if (!settled) wait_for_before();                                                                                   \
    const Caches in = {q, k, v, y, largest, sum, parts, held, window, row_apart, group_apart, entry_apart, groups,     \
                       shared, size, least, static_cast<Wide>(scale), static_cast<Wide>(soft_cap), sinks};             \
    const NewToken token = {new_k, new_v, cos, sin, angles};                                                           \
    static_cast<void>(wide); /* tensor cores take whole packs alone */                                                 \
    body;                                                                                                              \
  }
HONE_DECODE(decode, kDecodeWarps,
            wide ? decode_plainly<Widest<Value>::kCount>(in, token) : decode_plainly<1>(in, token))
// The same by tensor cores: of 16 bits, up to so many values of a head, in whole packs; kTileHeads heads go together.
HONE_DECODE(decode_64, CoreBlock<64>::kWarps, decode_caches<64>(Value{}, in, token))
HONE_DECODE(decode_128, CoreBlock<128>::kWarps, decode_caches<128>(Value{}, in, token))

// A block per query head of a row; most: parts that there is room for.
HONE_KERNEL_OF(kMostSize)
join_parts(Value* y, const Wide* largest, const Wide* sum, const Wide* parts, const Int* held, Int window,
           const Value* sinks, int heads, int size, int least, int most, int settled) {
  let_next_begin();
  if (!settled) wait_for_before();
  const Int head = blockIdx.x, at = head * most;
  const int count = static_cast<int>(parts_of(load_early(held + head / heads), window, least).count),
            column = threadIdx.x;
  wait_for_before();  // also where there is nothing to join: who comes next trusts that all before it has ended
  if (count == 1 || column >= size) return;
  const OneValue all = join<16>({largest + at, sum + at, parts + at * size, count, size}, column);
  y[head * size + column] = value_of(all, sink_of(sinks, head % heads));
}
