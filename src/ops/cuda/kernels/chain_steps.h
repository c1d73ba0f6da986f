// The steps of a chain (chain.cu) as the host writes them (ops/cuda/chain.cc), how blocks share them, and the words
// through which they give one another values; once for each type of values.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/types.h"

constexpr int kWidest = Widest<Value>::kCount;
constexpr int kChainWarps = 8, kComputing = kChainWarps * kWarp;
// A slot of a warp's ring: two rows' pieces, of 4 KB each, and gates: of each piece, and of who has read both.
constexpr int kPieces = 2, kPieceValues = 2048, kPiecePacks = kPieceValues / 8, kSlotValues = kPieces * kPieceValues;
constexpr int kReadGate = kPieces, kSlotGates = kPieces + 1, kGateBytes = 8;
constexpr int kMostOnTheirWay = 1;  // pieces of a warp
constexpr int kStepWeights = 3;
constexpr int kNormPacks = 4;  // of a thread: a norm's rows are so long at most

enum { kProductsStep, kGatedStep, kDecodeStep };
enum { kNoResidual, kGivenResidual, kKeptResidual };  // kept: the sum of the last norm's rows

struct alignas(16) ChainStep {
  int kind;
  unsigned char rest[156];
};
// x [in], or what words from x_word on give, or the norm of that and a residual, times up to three weights; or gate and
// up. groups: of two rows of weights. to: null, nobody reads them but this chain.
struct ProductsStep {
  int kind, in, split, groups, x_word, y_word, activation, residual_from;
  int outs[kStepWeights];
  const Value *weights[kStepWeights], *biases[kStepWeights];
  Value* to[kStepWeights];
  const Value *x, *residual, *norm;
  Value* sum;
  double eps;
};
// decode.h's Caches of one row, by parts in two directions; of the new token's heads where their words begin. parts: of
// each head, of each part of the room's entries: largest, sum and `size` values, from parts_at on.
struct DecodeStep {
  int kind, across, down, q_word, k_word, v_word, y_word, groups, shared, size, least;
  Value *k, *v, *y;
  const Int* held;
  Int parts_at, window, group_apart;
  const Wide *cos, *sin;
  const Int* angles;
  const Value* sinks;
  Wide scale, soft_cap;
};
template <class Step>
HONE_DEVICE const Step& step_as(const ChainStep& step) {
  static_assert(sizeof(Step) <= sizeof(ChainStep));
  return *reinterpret_cast<const Step*>(&step);
}
HONE_DEVICE const ProductsStep& products_of(const ChainStep& step) { return step_as<ProductsStep>(step); }
HONE_DEVICE const DecodeStep& decode_of(const ChainStep& step) { return step_as<DecodeStep>(step); }

struct Chain {
  const ChainStep* given;
  int count;
  Value* words;
  Int apart;
  unsigned long long* parts;
  int* turns;
  int depth, kept_values;
};

HONE_DEVICE int own_lane() { return static_cast<int>(threadIdx.x) % kWarp; }
HONE_DEVICE int own_warp() { return static_cast<int>(threadIdx.x) / kWarp; }
// For the warps that compute.
HONE_DEVICE void wait_for_computing() { wait_for_some<kComputing>(); }

// What a block shares: rings, their gates, the steps, what a norm kept, and rows or what a decoding step needs.
struct ChainRoom {
  Value* ring;
  unsigned gates;
  ChainStep* steps;
  Value *kept, *rows;
};
HONE_DEVICE ChainRoom room_of_chain(const Chain& chain) {
  using Packed = Pack<Value, kWidest>;
  HONE_SHARED_ROOM(Packed, room);
  Value* const ring = room[0].at;
  char* const gates = reinterpret_cast<char*>(ring + kChainWarps * chain.depth * kSlotValues);
  auto* const steps = reinterpret_cast<ChainStep*>(gates + kChainWarps * chain.depth * kSlotGates * kGateBytes);
  auto* const kept = reinterpret_cast<Value*>(steps + chain.count);
  return {ring, shared_address(gates), steps, kept, kept + chain.kept_values};
}

// What no value of 16 bits is that was rounded: rounding gives another NaN.
constexpr unsigned kNoWord = 0xffff;
using PackedWords = Pack<unsigned, 4>;
HONE_DEVICE bool are_there(const PackedWords& x) {
  bool all = true;
  HONE_UNROLL for (int i = 0; i < 4; ++i) all = all && (x.at[i] & kNoWord) != kNoWord && x.at[i] >> 16 != kNoWord;
  return all;
}
HONE_DEVICE unsigned short word_of(Value x) {
  union {
    Value value;
    unsigned short bits;
  } both = {x};
  return both.bits == kNoWord ? 0x7fff : both.bits;
}
HONE_DEVICE Pack<Value, kWidest> values_of(const PackedWords& words) {
  union {
    PackedWords words;
    Pack<Value, kWidest> values;
  } both = {words};
  return both.values;
}
// Words go past what a multiprocessor keeps for itself.
#if defined(__CUDA_ARCH__)
HONE_DEVICE void store_word(Value* to, Value x) {
  asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(to), "h"(word_of(x)) : "memory");
}
HONE_DEVICE PackedWords load_words(const Value* from) {
  PackedWords x;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "l"(from)
               : "memory");
  return x;
}
HONE_DEVICE void store_part(unsigned long long* to, unsigned long long x) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(x) : "memory");
}
HONE_DEVICE unsigned long long load_part(const unsigned long long* from) {
  unsigned long long x;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(from) : "memory");
  return x;
}
HONE_DEVICE void let_others_go_on() {}
#else
HONE_DEVICE void store_word(Value* to, Value x) { *reinterpret_cast<unsigned short*>(to) = word_of(x); }
HONE_DEVICE PackedWords load_words(const Value* from) { return load<4>(reinterpret_cast<const unsigned*>(from), 0); }
HONE_DEVICE void store_part(unsigned long long* to, unsigned long long x) { *to = x; }
HONE_DEVICE unsigned long long load_part(const unsigned long long* from) { return *from; }
HONE_DEVICE void let_others_go_on() { emulated::Machine::now().wait_for_grid(); }
#endif

// A thread's packs `at`, kComputing on and so on, below `packs`; awaited: until all words are there.
template <int kAtOnce>
HONE_DEVICE void take_words(const Value* from, int at, int packs, bool awaited, PackedWords (&x)[kAtOnce]) {
  HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
    if (const int pack = at + i * kComputing; pack < packs) x[i] = load_words(from + pack * kWidest);
  for (bool all = !awaited; !all;) {
    all = true;
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      if (const int pack = at + i * kComputing; pack < packs && !are_there(x[i])) {
        x[i] = load_words(from + pack * kWidest);
        all = false;
      }
    if (!all) let_others_go_on();
  }
}

// A block's groups of a step.
struct Share {
  int begin, end;
};
HONE_DEVICE Share share_of(int groups) {
  const auto of = static_cast<unsigned>(groups);
  return {static_cast<int>(of * blockIdx.x / gridDim.x), static_cast<int>(of * (blockIdx.x + 1) / gridDim.x)};
}

// The weight that a group of a step is of; `group` becomes its number there, `word` where the weight's results begin.
HONE_DEVICE int weight_of(const ProductsStep& step, int& group, int& word) {
  int i = 0;
  for (; i + 1 < kStepWeights && group >= (step.outs[i] + 1) / 2; ++i)
    group -= (step.outs[i] + 1) / 2, word += step.outs[i];
  return i;
}
HONE_DEVICE void rows_of(const ProductsStep& step, int group, const Value*& first, const Value*& second) {
  if (step.kind == kGatedStep) {
    const Int at = static_cast<Int>(group) * step.in;
    first = step.weights[0] + at, second = step.weights[1] + at;
    return;
  }
  int word = 0;
  const int of = weight_of(step, group, word);
  first = step.weights[of] + static_cast<Int>(2 * group) * step.in;
  second = 2 * group + 1 < step.outs[of] ? first + step.in : first;
}
HONE_DEVICE Value with_bias(const Value* bias, int out, Wide sum) {
  return rounded<Value>(bias ? sum + widened(bias[out]) : sum);
}

// rms_norm.cu adds up a row's squares by so many warps.
HONE_DEVICE int norm_parts(int packs) {
  int threads = kWarp;
  while (threads < kComputing && threads < packs) threads *= 2;
  return threads / kWarp;
}

// The lines of memory that the block's words of a step lie in, before they are written and asked for: so much is read
// meanwhile that they are no longer where all multiprocessors find them soon.
HONE_DEVICE void bring_words_nearer(const ProductsStep& step, const Share& share, const Value* words) {
  constexpr int kLineValues = kLineBytes / static_cast<int>(sizeof(Value));
  const int of_group = step.kind == kGatedStep ? 1 : 2, end = share.end * of_group;
  const int at = share.begin * of_group + static_cast<int>(threadIdx.x) * kLineValues;
  if (at < end) bring_nearer(words + step.y_word + at);
  if (at < end && at + kLineValues >= end) bring_nearer(words + step.y_word + end - 1);
}

// Gates, steps, and the other set of words for the next launch. Every thread of the block comes here.
HONE_DEVICE void begin_chain(const Chain& chain, const ChainRoom& room, int turn) {
  const int threads = static_cast<int>(blockDim.x), all_gates = kChainWarps * chain.depth * kSlotGates;
  for (int gate = threadIdx.x; gate < all_gates; gate += threads) make_gate(room.gates + gate * kGateBytes, 1);
  constexpr int kStepPacks = sizeof(ChainStep) / 16;
  for (int i = threadIdx.x; i < chain.count * kStepPacks; i += threads)
    store<4>(reinterpret_cast<int*>(room.steps), i, load<4>(reinterpret_cast<const int*>(chain.given), i));
  Value* const other = chain.words + (turn % 2 == 0 ? chain.apart : 0);
  constexpr unsigned kNone = kNoWord << 16 | kNoWord;
  for (Int i = blockIdx.x * static_cast<Int>(threads) + threadIdx.x; i < chain.apart / kWidest;
       i += static_cast<Int>(gridDim.x) * threads)
    store<4>(reinterpret_cast<unsigned*>(other), i, {{kNone, kNone, kNone, kNone}});
  show_gates();
  __syncthreads();
}
