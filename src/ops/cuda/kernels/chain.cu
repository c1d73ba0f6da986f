// What one token goes through from layer to layer, in one launch: the kernels of skinny.cu and decode.cu, a step each,
// by blocks that stay, one on each multiprocessor, and wait for one another between steps.
//
// What a launch costs at its end and its begin, memory does not see: each warp asks for the weights that it needs in
// the steps to come, as far ahead as its room reaches, whatever the blocks wait for meanwhile. A step has the bits of
// the kernel that it stands for.
#ifndef HONE_EMULATED
#include "ops/cuda/kernels/decode.h"
//
#include "ops/cuda/kernels/skinny.h"
#endif

// The last warp only waits for other blocks: it never has copies on their way, which a wait might hold up.
constexpr int kChainThreads = 256 + kWarp;
HONE_DEVICE bool is_first_of_last_warp() { return threadIdx.x == blockDim.x - kWarp; }

// How far all blocks are. `arrived` counts blocks, from launch to launch: a launch begins at a multiple of theirs.
#if defined(__CUDA_ARCH__)
HONE_DEVICE Int arrived_now(const Int* arrived) {
  Int now;
  asm volatile("ld.acquire.gpu.global.s64 %0, [%1];" : "=l"(now) : "l"(arrived) : "memory");
  return now;
}
// By one thread of the block, behind a barrier of all.
HONE_DEVICE void arrive(Int* arrived) {
  asm volatile("red.release.gpu.global.add.u64 [%0], 1;" ::"l"(arrived) : "memory");
}
// By all threads of the block.
HONE_DEVICE void wait_for_blocks(const Int* arrived, Int target) {
  if (is_first_of_last_warp())
    while (arrived_now(arrived) < target) {
    }
  __syncthreads();
}
#else
HONE_DEVICE Int arrived_now(const Int* arrived) { return *arrived; }
HONE_DEVICE void arrive(Int* arrived) { ++*arrived; }
HONE_DEVICE void wait_for_blocks(const Int* arrived, Int target) {
  emulated::Machine::now().wait_for_grid();
  if (*arrived < target) __trap();
}
#endif

// A step: what the launch that it stands for would have had, its grid and its arguments as they lie in memory; the
// block that has its first part.
enum { kProductsStep, kGatedStep, kDecodeStep, kJoinStep };
struct alignas(16) ChainStep {
  int kind, first_block, across, down;
  unsigned char arguments[192];
};
struct ProductsArguments {
  const Value* x;
  List<const Value*, kMostWeights> weights, biases;
  List<Value*, kMostWeights> to;
  List<Int, kMostWeights> outs;
  Int in;
  int rows, split;
  const Value *residual, *norm;
  Value* sum;
  double eps;
  int wide;
};
struct GatedArguments {
  const Value *x, *gate, *gate_bias, *up, *up_bias;
  Value* y;
  Int outs, in;
  int rows, activation;
  const Value *residual, *norm;
  Value* sum;
  double eps;
  int wide;
};
struct DecodeArguments {
  const Value* q;
  Value *k, *v, *y;
  Wide *largest, *sum, *parts;
  const Int* held;
  Int window, row_apart, group_apart, entry_apart;
  int groups, shared, size;
  double scale, soft_cap;
  const Value *new_k, *new_v;
  const Wide *cos, *sin;
  const Int* angles;
  int wide;
};
struct JoinArguments {
  Value* y;
  const Wide *largest, *sum, *parts;
  const Int* held;
  Int window;
  int heads, size, most;
};
template <class Arguments>
HONE_DEVICE const Arguments& arguments_of(const ChainStep& step) {
  static_assert(sizeof(Arguments) <= sizeof(step.arguments));
  return *reinterpret_cast<const Arguments*>(step.arguments);
}

HONE_DEVICE ProductGroups<1> groups_of(const ProductsArguments& a) {
  return {{a.weights, a.biases, a.to, a.outs}};
}
HONE_DEVICE GatedGroups<1> groups_of(const GatedArguments& a) {
  return {{a.gate, a.gate_bias, a.outs}, {a.up, a.up_bias, a.outs}, a.y, a.activation};
}
// Where a block is among those that share a step.
HONE_DEVICE int place_in(const ChainStep& step) {
  const int place = static_cast<int>(blockIdx.x) - step.first_block;
  return place < 0 ? place + static_cast<int>(gridDim.x) : place;
}
template <class Arguments>
HONE_DEVICE WarpShare share_in(const ChainStep& step, const Arguments& a, int split) {
  return share_of(static_cast<int>(a.in) / kWidest, split, place_in(step), groups_of(a).count());
}

// What a warp asks for next, from step to step.
template <int kSteps>
struct ChainAsking {
  static constexpr int kWeights = Together<1>::kWeights;
  const ChainStep* steps;
  int count;
  int at = 0;  // the step whose weights are asked for
  FewRows few = {};
  WarpShare share = {};
  Int group = 0;
  int first = 0, slot = 0;
  const Value* weights[kWeights] = {};

  // From step `at` on, to the first one of whose groups the warp has any.
  HONE_ELEMENT void find_step() {
    for (; at < count; ++at) {
      const ChainStep& step = steps[at];
      if (step.kind == kProductsStep) {
        const auto& a = arguments_of<ProductsArguments>(step);
        few.in = a.in, share = share_in(step, a, a.split);
      } else if (step.kind == kGatedStep) {
        const auto& a = arguments_of<GatedArguments>(step);
        few.in = a.in, share = share_in(step, a, 1);
      } else {
        continue;
      }
      group = share.first;
      if (group < share.groups) return find_group();
    }
  }
  HONE_ELEMENT void find_group() {
    const ChainStep& step = steps[at];
    first = share.begin;
    if (step.kind == kProductsStep)
      groups_of(arguments_of<ProductsArguments>(step)).find(group, few.in, weights);
    else
      groups_of(arguments_of<GatedArguments>(step)).find(group, few.in, weights);
  }
  HONE_ELEMENT void ask() {
    const bool any = at < count;
    if (any) ask_for_step<kWidest, kSteps>(few, weights, slot, first, share.end);
    commit_copies();  // of nothing behind the end, so that the number of those on their way is always the same
    slot = slot + 1 < kSteps ? slot + 1 : 0;
    if (!any) return;
    first += kWarp * Together<1>::kPacks;
    if (!is_behind(share, first)) return;
    group += share.apart;
    if (group < share.groups) return find_group();
    ++at;
    find_step();
  }
};

// The rows and the room for them, where a step makes their norm or copies them.
HONE_DEVICE FewNorm norm_of(const ProductsArguments& a) {
  return {a.x, a.residual, a.norm, a.sum, static_cast<Wide>(a.eps)};
}
HONE_DEVICE FewNorm norm_of(const GatedArguments& a) {
  return {a.x, a.residual, a.norm, a.sum, static_cast<Wide>(a.eps)};
}
template <class Arguments>
HONE_DEVICE void prepare_products(const Arguments& a, Value* room) {
  const FewNorm norm = norm_of(a);
  if (norm.weight) ask_for_norm<kWidest>(FewRows{a.x, a.in, 1, 1}, norm, room);
  commit_copies();
}
template <int kSteps, class Arguments>
HONE_DEVICE void run_products(const ChainStep& step, const Arguments& a, int split, Value* room, int& slot,
                              ChainAsking<kSteps>& asking) {
  FewRows few = {a.x, a.in, 1, split};
  const FewNorm norm = norm_of(a);
  if (norm.weight) {
    few.x = normed_rows<kWidest, 0>(few, norm, room);
  } else {
    load_rows<kWidest>(few, {a.x, nullptr, nullptr, nullptr, 0}, room);
    __syncthreads();
    few.x = room;
  }
  multiply_groups<kWidest, 1, kSteps>(few, groups_of(a), share_in(step, a, split), slot, asking);
}

HONE_DEVICE Caches caches_of(const DecodeArguments& a) {
  return {a.q,          a.k,           a.v,           a.y,      a.largest, a.sum,  a.parts,
          a.held,       a.window,      a.row_apart,   a.group_apart, a.entry_apart,
          a.groups,     a.shared,      a.size,        static_cast<Wide>(a.scale), static_cast<Wide>(a.soft_cap)};
}
// Of a block's first part, before there are queries.
template <int kSize>
HONE_DEVICE void prepare_decode(const ChainStep& step, const DecodeArguments& a) {
  const int task = place_in(step);
  Decoding part;
  Results to;
  OwnPart own;
  if (task < step.across * step.down &&
      find_part(caches_of(a), kTileHeads, {task % step.across, step.across, task / step.across}, own, part, to))
    ask_for_first<kSize>(part);
}
template <int kSize>
HONE_DEVICE void run_decode(const ChainStep& step, const DecodeArguments& a) {
  const Caches in = caches_of(a);
  for (int task = place_in(step); task < step.across * step.down; task += static_cast<int>(gridDim.x)) {
    Decoding part;
    Results to;
    OwnPart own;
    if (!find_part(in, kTileHeads, {task % step.across, step.across, task / step.across}, own, part, to)) continue;
    take_new(in, {a.new_k, a.new_v, a.cos, a.sin, a.angles}, own, part);
    decode_by_cores<kSize>(part, to);
    __syncthreads();  // what the block shares has been read
  }
}
HONE_DEVICE int parts_in(const JoinArguments& a) { return static_cast<int>(parts_of(a.held[0], a.window).count); }
HONE_DEVICE void run_join(const ChainStep& step, const JoinArguments& a) {
  for (int head = place_in(step); head < a.heads; head += static_cast<int>(gridDim.x))
    join_head({a.y, a.largest, a.sum, a.parts, a.size}, head, a.most, parts_in(a), static_cast<int>(threadIdx.x));
}

// The block's room: each warp's weights, rows_bytes for rows, then the steps.
template <int kSize, int kSteps>
HONE_DEVICE void run_chain(const ChainStep* given, int count, int rows_bytes, Int* arrived) {
  Value* const room = room_of_rows<kSteps>();
  auto* const steps = reinterpret_cast<ChainStep*>(reinterpret_cast<char*>(room) + rows_bytes);
  constexpr int kPacks = sizeof(ChainStep) / sizeof(int) / 4;
  for (int i = threadIdx.x; i < count * kPacks; i += kChainThreads)
    store<4>(reinterpret_cast<int*>(steps), i, load<4>(reinterpret_cast<const int*>(given), i));
  const Int blocks = gridDim.x;
  Int target = arrived_now(arrived) / blocks * blocks;  // nobody passes before this block has come
  __syncthreads();
  ChainAsking<kSteps> asking = {steps, count};
  asking.find_step();
  for (int step = 0; step < kSteps - 1; ++step) asking.ask();
  int slot = 0;
  for (int at = 0; at < count; ++at) {
    const ChainStep& step = steps[at];
    if (step.kind == kJoinStep && parts_in(arguments_of<JoinArguments>(step)) == 1) continue;
    if (at > 0) {
      __syncthreads();  // the block has written what it makes, and read what it shares
      if (is_first_of_last_warp()) arrive(arrived);
    }
    if (step.kind == kProductsStep) prepare_products(arguments_of<ProductsArguments>(step), room);
    if (step.kind == kGatedStep) prepare_products(arguments_of<GatedArguments>(step), room);
    if (step.kind == kDecodeStep) prepare_decode<kSize>(step, arguments_of<DecodeArguments>(step));
    if (at > 0) wait_for_blocks(arrived, target += blocks);
    if (step.kind == kProductsStep) {
      const auto& a = arguments_of<ProductsArguments>(step);
      run_products(step, a, a.split, room, slot, asking);
    } else if (step.kind == kGatedStep) {
      run_products(step, arguments_of<GatedArguments>(step), 1, room, slot, asking);
    } else if (step.kind == kDecodeStep) {
      run_decode<kSize>(step, arguments_of<DecodeArguments>(step));
    } else {
      run_join(step, arguments_of<JoinArguments>(step));
    }
  }
}

// A grid of as many blocks as can be there at once. steps: count of them; arrived: 0 before the first launch. For heads
// of up to 64 values, or 128.
#define HONE_CHAIN(name, size, steps)                                              \
  HONE_KERNEL_OF(kChainThreads)                                                    \
  name(const void* given, int count, int rows_bytes, Int* arrived) {               \
    if constexpr (sizeof(Value) == 2)                                              \
      run_chain<size, steps>(static_cast<const ChainStep*>(given), count, rows_bytes, arrived); \
  }
HONE_CHAIN(chain_64, 64, 5)
HONE_CHAIN(chain_128, 128, 4)
