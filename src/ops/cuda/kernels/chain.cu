// What one token goes through from layer to layer, in one launch: the kernels of skinny.cu and decode.cu, a step each,
// by blocks that stay, one on each multiprocessor. A step has the bits of the launches that it stands for.
//
// Half of a block's warps compute; each has one of the other half, which copies ahead for it what it will read, step
// after step, whatever the blocks wait for: weights, and older entries of the cache. At most one piece of 4 KB is on
// its way at a time for a warp (design note 0024 says why).
//
// Blocks give one another values through words of memory, which all hold kNoWord before: who reads one until it is
// another needs nothing else to wait for. There are two sets of them; a launch uses one and clears the other.
#ifndef HONE_EMULATED
#include "ops/cuda/kernels/decode.h"
//
#include "ops/cuda/kernels/chain_steps.h"
#endif

// A warp's ring: what it reads, and where it is.
struct Ring {
  Value* room;
  unsigned gates;  // for each slot those of its two pieces and the one of who has read it
  int depth, slot, odd;
};
HONE_DEVICE Ring ring_of(const ChainRoom& room, int warp, int depth) {
  return {room.ring + warp * depth * kSlotValues, room.gates + warp * depth * kSlotGates * kGateBytes, depth, 0, 0};
}
HONE_DEVICE unsigned gate_of(const Ring& ring, int which) {
  return ring.gates + (ring.slot * kSlotGates + which) * kGateBytes;
}
HONE_DEVICE void go_on(Ring& ring) {
  if (++ring.slot < ring.depth) return;
  ring.slot = 0, ring.odd ^= 1;
}
HONE_DEVICE const Value* arrived(const Ring& ring) {
  HONE_UNROLL for (int piece = 0; piece < kPieces; ++piece) pass(gate_of(ring, piece), ring.odd);
  return ring.room + ring.slot * kSlotValues;
}
// Every lane has read it.
HONE_DEVICE void give_back(Ring& ring) {
  __syncwarp();
  if (own_lane() == 0) arrive(gate_of(ring, kReadGate));
  go_on(ring);
}

#include "ops/cuda/kernels/chain_decode-inl.h"

// The pieces that are copied ahead for a warp.
struct Asking {
  Ring ring, last;  // last: the slot of the oldest piece that may still be on its way
  int piece, on_their_way;
};
HONE_DEVICE void ask(Asking& asking, const Value* first, const Value* second, int values) {
  Ring& ring = asking.ring;
  pass(gate_of(ring, kReadGate), ring.odd ^ 1);
  HONE_UNROLL for (int piece = 0; piece < kPieces; ++piece) {
    if (asking.on_their_way == kMostOnTheirWay) {
      pass(gate_of(asking.last, asking.piece), asking.last.odd);
      if (++asking.piece == kPieces) asking.piece = 0, go_on(asking.last);
    } else {
      ++asking.on_their_way;
    }
    const unsigned gate = gate_of(ring, piece), bytes = static_cast<unsigned>(values) * sizeof(Value);
    expect_bytes(gate, bytes);
    copy_in_bulk(gate, ring.room + ring.slot * kSlotValues + piece * kPieceValues, piece == 0 ? first : second, bytes);
  }
  go_on(ring);
}

// Of a step of products: of each of the warp's groups two rows, slot after slot.
HONE_DEVICE void ask_for_rows(Asking& asking, const ProductsStep& step, int warp) {
  const Share share = share_of(step.groups);
  for (int group = share.begin + warp; group < share.end; group += kChainWarps) {
    const Value *first, *second;
    rows_of(step, group, first, second);
    for (int at = 0; at < step.in; at += kPieceValues)
      ask(asking, first + at, second + at, step.in - at < kPieceValues ? step.in - at : kPieceValues);
  }
}
// Of the older entries, those of each tile of the warp.
template <int kSize>
HONE_DEVICE void ask_for_entries(Asking& asking, const DecodeStep& step, Known& known, int warp) {
  if (warp >= CoreBlock<kSize>::kWarps) return;
  const Caches in = caches_of(step, nullptr);
  know_entries(step, known);
  for (int task = blockIdx.x; task < step.across * step.down; task += static_cast<int>(gridDim.x)) {
    DecodePart part;
    if (!part_of(step, in, known, task, part)) continue;
    for (Int first = part.a.begin + warp * kTileEntries; first < part.a.older; first += tiles_apart<kSize>()) {
      const Int count = part.a.older - first < kTileEntries ? part.a.older - first : kTileEntries;
      ask(asking, part.a.k + first * in.size, part.a.v + first * in.size, static_cast<int>(count) * in.size);
    }
  }
}
template <int kSize>
HONE_DEVICE void copy_ahead_for(int warp, const ChainRoom& room, const Chain& chain) {
  if (own_lane() > 0) return;
  const Ring ring = ring_of(room, warp, chain.depth);
  Asking asking = {ring, ring, 0, 0};
  Known known;
  for (int at = 0; at < chain.count; ++at) {
    const ChainStep& step = room.steps[at];
    if (step.kind == kDecodeStep)
      ask_for_entries<kSize>(asking, decode_of(step), known, warp);
    else
      ask_for_rows(asking, products_of(step), warp);
  }
}

// x of a step for all warps: each thread has packs of it, as far apart as there are threads.
HONE_DEVICE void take_rows(const ProductsStep& step, const Value* from, const ChainRoom& room) {
  constexpr int kAtOnce = 4;
  const int packs = step.in / kWidest;
  for (int at = threadIdx.x; at < packs; at += kAtOnce * kComputing) {
    PackedWords given[kAtOnce];
    take_words(from, at, packs, step.x == nullptr, given);
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      if (const int pack = at + i * kComputing; pack < packs) store<kWidest>(room.rows, pack, values_of(given[i]));
  }
}

HONE_DEVICE Pack<Value, kWidest> with_residual(const ProductsStep& step, const ChainRoom& room, int pack,
                                               Pack<Value, kWidest> x) {
  if (step.residual_from == kNoResidual) return x;
  const Value* const from = step.residual_from == kKeptResidual ? room.kept : step.residual;
  const Pack<Value, kWidest> residual = load<kWidest>(from, pack);
  HONE_UNROLL for (int c = 0; c < kWidest; ++c) round_to(x.at[c], widened(x.at[c]) + widened(residual.at[c]));
  return x;
}
// The norm of x and of what is added to it, which is kept. Its weights are asked for before x is there.
HONE_DEVICE void take_norm(const ProductsStep& step, const Value* from, const ChainRoom& room) {
  __shared__ Wide of_warps[kChainWarps];
  const int packs = step.in / kWidest, own = threadIdx.x;
  PackedWords given[kNormPacks];
  Pack<Value, kWidest> x[kNormPacks], weight[kNormPacks];
  HONE_UNROLL for (int i = 0; i < kNormPacks; ++i)
    if (own + i * kComputing < packs) weight[i] = load<kWidest>(step.norm, own + i * kComputing);
  take_words(from, own, packs, step.x == nullptr, given);
  Wide squares = 0;
  HONE_UNROLL for (int i = 0; i < kNormPacks; ++i) {
    const int pack = own + i * kComputing;
    if (pack >= packs) break;
    x[i] = with_residual(step, room, pack, values_of(given[i]));
    HONE_UNROLL for (int c = 0; c < kWidest; ++c) squares += widened(x[i].at[c]) * widened(x[i].at[c]);
    store<kWidest>(room.kept, pack, x[i]);
    if (step.sum && blockIdx.x == 0) store<kWidest>(step.sum, pack, x[i]);
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) squares += __shfl_xor_sync(kAllLanes, squares, lanes);
  if (own_lane() == 0) of_warps[own_warp()] = squares;
  wait_for_computing();
  Wide sum = of_warps[0];
  for (int part = 1; part < norm_parts(packs); ++part) sum += of_warps[part];
  const Wide inv_rms = 1 / square_root(sum / step.in + static_cast<Wide>(step.eps));
  HONE_UNROLL for (int i = 0; i < kNormPacks; ++i) {
    const int pack = own + i * kComputing;
    if (pack >= packs) break;
    HONE_UNROLL for (int c = 0; c < kWidest; ++c) {
      const Value y = rounded<Value>(widened(x[i].at[c]) * inv_rms);
      x[i].at[c] = rounded<Value>(widened(y) * widened(weight[i].at[c]));
    }
    store<kWidest>(room.rows, pack, x[i]);
  }
}

// Products of kCount neighbours of a lane's packs, from `at` on, with both rows of the slot.
template <int kCount>
HONE_DEVICE void add_packs(const Value* slot, const Value* rows, int at, int packs, Wide (&sums)[kPieces]) {
  Pack<Value, kWidest> x[kCount], w[kPieces][kCount];
  HONE_UNROLL for (int i = 0; i < kCount; ++i) {
    const int pack = at + i * kWarp + own_lane(), in_slot = pack % kPiecePacks;
    const bool there = pack < packs;
    x[i] = there ? load<kWidest>(rows, pack) : Pack<Value, kWidest>{};
    HONE_UNROLL for (int o = 0; o < kPieces; ++o)
      w[o][i] = there ? load<kWidest>(slot + o * kPieceValues, in_slot) : Pack<Value, kWidest>{};
  }
  HONE_UNROLL for (int i = 0; i < kCount; ++i)
    HONE_UNROLL for (int c = 0; c < kWidest; ++c)
      HONE_UNROLL for (int o = 0; o < kPieces; ++o) sums[o] += widened(w[o][i].at[c]) * widened(x[i].at[c]);
}

// Both sums over lanes, each joined as __shfl_xor_sync of 16, 8 and so on does: the first one for the lower half of
// the lanes, the second one for the others.
HONE_DEVICE Wide sum_of_half(const Wide (&sums)[kPieces]) {
  const bool low = own_lane() < kWarp / 2;
  Wide sum = (low ? sums[0] : sums[1]) + __shfl_xor_sync(kAllLanes, low ? sums[1] : sums[0], kWarp / 2);
  for (int lanes = kWarp / 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  return sum;
}

// A group's two sums, as sum_of_half() has them: those of the parts that the launch gives to warps, in their order.
HONE_DEVICE Wide sums_of_group(const ProductsStep& step, const Value* rows, Ring& ring) {
  constexpr int kAtOnce = 4, kSlotSteps = kPiecePacks / kWarp;
  const int packs = step.in / kWidest, steps = (packs + kWarp - 1) / kWarp;
  const Value* slot = nullptr;
  Wide sum = 0;
  for (int part = 0, at = 0; part < step.split; ++part) {
    const int end = steps * (part + 1) / step.split;
    Wide sums[kPieces] = {};
    while (at < end) {
      if (at % kSlotSteps == 0) {
        if (at > 0) give_back(ring);
        slot = arrived(ring);
      }
      const int stop = (at / kSlotSteps + 1) * kSlotSteps;
      if (at + kAtOnce <= (stop < end ? stop : end)) {
        add_packs<kAtOnce>(slot, rows, at * kWarp, packs, sums);
        at += kAtOnce;
      } else {
        add_packs<1>(slot, rows, at * kWarp, packs, sums);
        ++at;
      }
    }
    const Wide of_part = sum_of_half(sums);
    sum = part == 0 ? of_part : sum + of_part;
  }
  give_back(ring);
  return sum;
}

// By the lanes that begin a half.
HONE_DEVICE void write_group(const ProductsStep& step, int group, Wide sum, Value* words) {
  const int which = own_lane() / (kWarp / 2);
  const bool writes = own_lane() % (kWarp / 2) == 0;
  if (step.kind == kGatedStep) {
    const Value own = with_bias(step.biases[which], group, sum);
    const Wide up = __shfl_xor_sync(kAllLanes, widened(own), kWarp / 2);  // of the lower half
    if (!writes || which > 0) return;
    const Value y = rounded<Value>(activated<Wide>(step.activation, widened(own)).value * up);
    store_word(words + step.y_word + group, y);
    if (step.to[0]) step.to[0][group] = y;
    return;
  }
  int first = step.y_word;
  const int of = weight_of(step, group, first), out = 2 * group + which;
  if (!writes || out >= step.outs[of]) return;
  const Value y = with_bias(step.biases[of], out, sum);
  store_word(words + first + out, y);
  if (step.to[of]) step.to[of][out] = y;
}

HONE_DEVICE void run_products(const ProductsStep& step, Value* words, const ChainRoom& room, Ring& ring) {
  const Share share = share_of(step.groups);
  bring_words_nearer(step, share, words);
  const Value* const from = step.x ? step.x : words + step.x_word;
  step.norm ? take_norm(step, from, room) : take_rows(step, from, room);
  wait_for_computing();
  for (int group = share.begin + own_warp(); group < share.end; group += kChainWarps)
    write_group(step, group, sums_of_group(step, room.rows, ring), words);
  wait_for_computing();  // rows have been read
}

constexpr int kToCopy = 56, kToCompute = 200;  // registers of a thread, of 128 on average

template <int kSize, class T>
HONE_DEVICE void run_chain(T, const Chain& chain) {
  if constexpr (sizeof(T) == 2) {
    const ChainRoom room = room_of_chain(chain);
    const int turn = chain.turns[blockIdx.x], warp = own_warp();
    begin_chain(chain, room, turn);
    if (warp >= kChainWarps) {
      keep_registers<kToCopy>();
      return copy_ahead_for<kSize>(warp - kChainWarps, room, chain);
    }
    take_registers<kToCompute>();
    Value* const words = chain.words + (turn % 2 == 0 ? 0 : chain.apart);
    Ring ring = ring_of(room, warp, chain.depth);
    Known known;
    for (int at = 0; at < chain.count; ++at) {
      const ChainStep& step = room.steps[at];
      if (step.kind == kDecodeStep)
        run_decode<kSize>(decode_of(step), {words, chain.parts, turn + 1}, room, known, ring);
      else
        run_products(products_of(step), words, room, ring);
    }
    if (threadIdx.x == 0) chain.turns[blockIdx.x] = turn + 1;
  }
}

// A grid of as many blocks as can be there at once. given: steps, count of them; words: two sets, `apart` from one
// another, of kNoWord before the first launch; parts: of decoding steps, 0 at first; turns: launches before this one,
// of each block; depth: slots of a ring; kept_values: that there is room for.
#define HONE_CHAIN(name, size)                                                                              \
  HONE_KERNEL_ALONE(2 * kComputing)                                                                         \
  name(const void* given, int count, Value* words, Int apart, unsigned long long* parts, int* turns,        \
       int depth, int kept_values) {                                                                        \
    const auto* const steps = static_cast<const ChainStep*>(given);                                         \
    run_chain<size>(Value{}, Chain{steps, count, words, apart, parts, turns, depth, kept_values});          \
  }
// For heads of up to 64 values, or 128.
HONE_CHAIN(chain_64, 64)
HONE_CHAIN(chain_128, 128)
