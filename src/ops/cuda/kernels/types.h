// What all kernels share: the type of their values and the wider one they compute in, and sums over a block.
//
// Kernels include nothing of CUDA's: NVRTC compiles them for a GPU, with HONE_VALUE as the type of values, and tests
// compile them for the CPU with HONE_EMULATED and what tests/cuda/emulated_gpu.h defines. A kernel is
// `HONE_KERNEL name(...)`; blocks have whole warps. Sums are made in an order that is the shape's alone, so that they
// have the same bits twice.
#pragma once

#ifndef HONE_EMULATED
// As many threads as a block may have at most: registers are given out so that they always fit.
#define HONE_KERNEL HONE_KERNEL_OF(512)
#define HONE_KERNEL_OF(threads) extern "C" __global__ void __launch_bounds__(threads)
// Alone on a multiprocessor: how many registers a thread begins with is known, and groups may pass them on.
#define HONE_KERNEL_ALONE(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
// With registers for two blocks on a multiprocessor.
#define HONE_KERNEL_TWICE(threads) extern "C" __global__ void __launch_bounds__(threads, 2)
#define HONE_DEVICE static __device__ __forceinline__
#define HONE_ELEMENT __device__ __forceinline__  // members of what src/optim/elements defines
// Room of the block, of as many bytes as the launch says.
#define HONE_SHARED_ROOM(type, name) extern __shared__ type name[]
// What lies in small arrays stays in registers where the loops over them are written out.
#define HONE_UNROLL _Pragma("unroll")
// A parameter of several values, read where it lies: without this, whoever reads by an index copies it.
#define HONE_LIST(type, count) const __grid_constant__ List<type, count>
// Every access to memory of tensors by packs; the emulated GPU refuses one that begins at no multiple of its size.
#define HONE_ACCESS(address, bytes)
#endif

using Int = long long;

// Numbers of 16 bits, as they lie in memory.
struct Bf16 {
  unsigned short bits;
};
struct Half {
  unsigned short bits;
};

template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};

// To fp32 at least, which is exact, and back, to the nearest, of two equally near ones to the even; NaN stays NaN.
HONE_DEVICE float widened(float x) { return x; }
HONE_DEVICE double widened(double x) { return x; }
HONE_DEVICE float widened(Bf16 x) {
  union {
    unsigned bits;
    float value;
  } both = {static_cast<unsigned>(x.bits) << 16};
  return both.value;
}
HONE_DEVICE void round_to(float& to, float x) { to = x; }
HONE_DEVICE void round_to(double& to, double x) { to = x; }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
HONE_DEVICE void round_to(Bf16& to, float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
#else
HONE_DEVICE void round_to(Bf16& to, float x) {
  union {
    float value;
    unsigned bits;
  } both = {x};
  to.bits = x != x ? 0x7fc0 : static_cast<unsigned short>((both.bits + 0x7fff + (both.bits >> 16 & 1)) >> 16);
}
#endif
#if defined(__CUDA_ARCH__)
HONE_DEVICE float widened(Half x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
HONE_DEVICE void round_to(Half& to, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
#else
HONE_DEVICE float widened(Half x) { return emulated::float_of_half(x.bits); }
HONE_DEVICE void round_to(Half& to, float x) { to.bits = emulated::half_of_float(x); }
#endif

// As a value of type T keeps it.
template <class T, class W>
HONE_DEVICE T rounded(W x) {
  T made;
  round_to(made, x);
  return made;
}

constexpr double kLog2OfE = 1.4426950408889634;

// Two values of 16 bits in a word, the first one below.
template <class T>
HONE_DEVICE unsigned both(T, float first, float second) {
  return rounded<T>(first).bits | static_cast<unsigned>(rounded<T>(second).bits) << 16;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
HONE_DEVICE unsigned both(Bf16, float first, float second) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
HONE_DEVICE unsigned both(Half, float first, float second) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
#endif

HONE_DEVICE float exp_of(float x) { return expf(x); }
HONE_DEVICE double exp_of(double x) { return exp(x); }
HONE_DEVICE float exp2_of(float x) { return exp2f(x); }
HONE_DEVICE double exp2_of(double x) { return exp2(x); }
// To some bits less, and nothing for less than the least normal number.
#if defined(__CUDA_ARCH__)
HONE_DEVICE float quick_exp2(float x) {
  float made;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(x));
  return made;
}
#else
HONE_DEVICE float quick_exp2(float x) { return exp2f(x); }
#endif
HONE_DEVICE float log_of(float x) { return logf(x); }
HONE_DEVICE double log_of(double x) { return log(x); }
HONE_DEVICE float tanh_of(float x) { return tanhf(x); }
HONE_DEVICE double tanh_of(double x) { return tanh(x); }
HONE_DEVICE float erf_of(float x) { return erff(x); }
HONE_DEVICE double erf_of(double x) { return erf(x); }
HONE_DEVICE float square_root(float x) { return sqrtf(x); }
HONE_DEVICE double square_root(double x) { return sqrt(x); }
HONE_DEVICE float infinity(float) {
  union {
    unsigned bits;
    float value;
  } both = {0x7f800000u};
  return both.value;
}
HONE_DEVICE double infinity(double) { return infinity(0.0f); }

// Activations, each by its place in hone::ops::Activation.
enum { kSilu, kGelu, kGeluTanh, kRelu };

// An activation's value and its slope.
template <class W>
struct Activated {
  W value, slope;
};

template <class W>
HONE_DEVICE Activated<W> silu(W x) {
  const W share = 1 / (1 + exp_of(-x));
  return {x * share, share * (1 + x * (1 - share))};
}
template <class W>
HONE_DEVICE Activated<W> gelu(W x) {
  const W below = (1 + erf_of(x * static_cast<W>(0.70710678118654752))) / 2;  // of a normal distribution
  const W density = exp_of(-x * x / 2) * static_cast<W>(0.39894228040143268);
  return {x * below, below + x * density};
}
template <class W>
HONE_DEVICE Activated<W> gelu_tanh(W x) {
  const W cubic = static_cast<W>(0.044715), root = static_cast<W>(0.79788456080286536);  // sqrt(2 / pi)
  const W t = tanh_of(root * (x + cubic * x * x * x));
  return {x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t * t) / 2 * root * (1 + 3 * cubic * x * x)};
}
// Not a number stays so; its slope is that of what is above 0, as LibTorch has it.
template <class W>
HONE_DEVICE Activated<W> relu(W x) { return {x <= 0 ? 0 : x, static_cast<W>(x <= 0 ? 0 : 1)}; }

template <class W>
HONE_DEVICE Activated<W> activated(int activation, W x) {
  if (activation == kSilu) return silu(x);
  if (activation == kGelu) return gelu(x);
  if (activation == kGeluTanh) return gelu_tanh(x);
  return relu(x);
}

// Two values that are turned together.
template <class T, class W>
HONE_DEVICE void rotate_pair(T& first, T& second, W cos, W sin) {
  const W x = widened(first), y = widened(second);
  first = rounded<T>(x * cos - y * sin);
  second = rounded<T>(y * cos + x * sin);
}

// Of act(gate) * up, from its own gradient. Where relu lets nothing through gate's is 0, whatever comes: 0 times
// infinity would not be.
template <class W>
struct GatedSlopes {
  W gate, up;
};
template <class W>
HONE_DEVICE GatedSlopes<W> gated_slopes(const Activated<W>& act, W up, W gradient) {
  return {act.slope == 0 ? 0 : gradient * up * act.slope, gradient * act.value};
}

// Of a kernel that is launched early, while the one before it still runs, where GPUs can (9.0 and later): what that one
// and those before it have written is there, and what they read may be overwritten, after wait_for_before() alone. Its
// own next one may begin when all its blocks have let it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
HONE_DEVICE void wait_for_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
HONE_DEVICE void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#elif !defined(__CUDA_ARCH__)
HONE_DEVICE void wait_for_before() { emulated::Machine::now().wait_for_before(); }
HONE_DEVICE void let_next_begin() {}
#else
HONE_DEVICE void wait_for_before() {}
HONE_DEVICE void let_next_begin() {}
#endif

// What one access of a thread reads or writes. Wide ones want memory at a multiple of their size.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};
template <class T>
struct Widest {
  static constexpr int kCount = 16 / sizeof(T);
};
template <int kCount, class T>
HONE_DEVICE Pack<T, kCount> load(const T* from, Int pack) {
  HONE_ACCESS(from, sizeof(T) * kCount);
  return reinterpret_cast<const Pack<T, kCount>*>(from)[pack];
}
template <int kCount, class T>
HONE_DEVICE void store(T* to, Int pack, const Pack<T, kCount>& values) {
  HONE_ACCESS(to, sizeof(T) * kCount);
  reinterpret_cast<Pack<T, kCount>*>(to)[pack] = values;
}
// 16 bytes that somebody reads once, later: they do not stay where what is read again is to find room.
#if defined(__CUDA_ARCH__)
HONE_DEVICE void store_for_later(unsigned* to, Int pack, const Pack<unsigned, 4>& words) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to + 4 * pack), "r"(words.at[0]), "r"(words.at[1]),
               "r"(words.at[2]), "r"(words.at[3])
               : "memory");
}
#else
HONE_DEVICE void store_for_later(unsigned* to, Int pack, const Pack<unsigned, 4>& words) { store<4>(to, pack, words); }
#endif

// Before wait_for_before(), of what has been there for long, but not always: from what all multiprocessors share. Their
// own caches may still hold what was there when somebody read it last.
#if defined(__CUDA_ARCH__)
HONE_DEVICE float load_early(const float* x) {
  float made;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(made) : "l"(x));
  return made;
}
HONE_DEVICE double load_early(const double* x) {
  double made;
  asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(made) : "l"(x));
  return made;
}
HONE_DEVICE Int load_early(const Int* x) {
  Int made;
  asm volatile("ld.global.cg.s64 %0, [%1];" : "=l"(made) : "l"(x));
  return made;
}
HONE_DEVICE Pack<unsigned, 4> load_early(const unsigned* x, Int pack) {
  Pack<unsigned, 4> made;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(made.at[0]), "=r"(made.at[1]), "=r"(made.at[2]), "=r"(made.at[3])
               : "l"(x + 4 * pack));
  return made;
}
#else
template <class T>
HONE_DEVICE T load_early(const T* x) { return *x; }
HONE_DEVICE Pack<unsigned, 4> load_early(const unsigned* x, Int pack) { return load<4>(x, pack); }
#endif

// A line of memory, for somebody to read it soon: as far as all multiprocessors share.
constexpr int kLineBytes = 128;
#if defined(__CUDA_ARCH__)
HONE_DEVICE void bring_nearer(const void* x) { asm volatile("prefetch.global.L2 [%0];" ::"l"(x)); }
#else
HONE_DEVICE void bring_nearer(const void*) {}
#endif

// Tensor cores: c += a b, of 16 x 16 and 16 x 8 values of 16 bits, two in a word. Of lane 4 g + t, a has rows g, g + 8,
// g, g + 8 at depths 2 t, 2 t, 2 t + 8, 2 t + 8 and the next ones; b column g at depths 2 t and 2 t + 8; c rows g, g,
// g + 8, g + 8 of columns 2 t, 2 t + 1, 2 t, 2 t + 1.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HONE_MULTIPLY(Type, name)                                                                         \
  HONE_DEVICE void multiply_add(Type, float(&c)[4], const unsigned(&a)[4], unsigned b0, unsigned b1) {    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name                                   \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                   \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                         \
  }
HONE_MULTIPLY(Bf16, "bf16")
HONE_MULTIPLY(Half, "f16")
#undef HONE_MULTIPLY
#elif defined(__CUDA_ARCH__)  // no kernel that is launched on such a GPU comes here
template <class T>
HONE_DEVICE void multiply_add(T, float (&)[4], const unsigned (&)[4], unsigned, unsigned) {}
#else
template <class T>
HONE_DEVICE void multiply_add(T, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  emulated::multiply_add(c, a, b0, b1, [](unsigned short bits) { return widened(T{bits}); });
}
#endif

// A block of 8 x 8 values of 16 bits, of which lane 4 g + t has columns 2 t and 2 t + 1 of row g, the other way round.
// Every thread of a warp comes here.
#if defined(__CUDA_ARCH__)
HONE_DEVICE unsigned turned_block(unsigned word) {
  unsigned made;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(made) : "r"(word));
  return made;
}
#else
HONE_DEVICE unsigned turned_block(unsigned word) { return emulated::move_matrix(word); }
#endif

// Several parameters of a kernel of one type: what its launch has as a std::array.
template <class T, int kCount>
struct List {
  T at[kCount];
};

constexpr int kWarp = 32, kMostWarps = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

HONE_DEVICE int bits_set(unsigned x) {
#if defined(__CUDA_ARCH__)
  return __popc(x);
#else
  return __builtin_popcount(x);
#endif
}

// What all lanes have, for the compiler to know that they do.
HONE_DEVICE int of_whole_warp(int x) { return __shfl_sync(kAllLanes, x, 0); }

struct Plus {};
struct Larger {};
template <class W>
HONE_DEVICE W joined(Plus, W a, W b) {
  return a + b;
}
template <class W>
HONE_DEVICE W joined(Larger, W a, W b) {
  return b > a ? b : a;  // not a number: left out
}

// All threads' values joined, for all of them. Every thread of the block comes here.
template <class Join, class W>
HONE_DEVICE W over_block(Join join, W x) {
  __shared__ W of_warps[kMostWarps];
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x = joined(join, x, __shfl_xor_sync(kAllLanes, x, lanes));
  const int warps = blockDim.x / kWarp;
  if (warps == 1) return x;
  __syncthreads();  // what was joined before has been read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = of_warps[0];
  for (int warp = 1; warp < warps; ++warp) x = joined(join, x, of_warps[warp]);
  return x;
}
template <class W>
HONE_DEVICE W block_sum(W x) {
  return over_block(Plus{}, x);
}

// Blocks that work on their own: where rows are so short that a warp is enough for one, a block of CUDA's is several of
// them, one for each y. Those behind the last have nothing to do, and no thread of theirs comes to a barrier.
HONE_DEVICE Int own_block() { return static_cast<Int>(blockIdx.x) * blockDim.y + threadIdx.y; }

// Of a norm's row that begins at `first`: its input, with the residual added, where there is one, and the sum kept, but
// where it is null.
template <int kCount, class Norm>
HONE_DEVICE auto load_sum(const Norm& a, Int first, Int pack) {
  auto x = load<kCount>(a.x + first, pack);
  if (!a.residual) return x;
  const auto residual = load<kCount>(a.residual + first, pack);
  for (int k = 0; k < kCount; ++k) round_to(x.at[k], widened(x.at[k]) + widened(residual.at[k]));
  if (a.sum) store<kCount>(a.sum + first, pack, x);
  return x;
}

// Sums that a block makes for each column, each thread those of its own packs: in the block's room, where neighbours in
// a warp lie side by side, or in the result's row of `out` itself.
template <int kCount, class W>
struct ColumnSums {
  W *room, *out;  // room: null, there is none
  Int packs;
};
template <int kCount, class W>
HONE_DEVICE W& column_sum(const ColumnSums<kCount, W>& sums, Int pack, int k) {
  return sums.room ? sums.room[k * sums.packs + pack] : sums.out[pack * kCount + k];
}
template <int kCount, class W>
HONE_DEVICE void begin_sums(const ColumnSums<kCount, W>& sums) {
  for (Int i = threadIdx.x; i < sums.packs; i += blockDim.x)
    for (int k = 0; k < kCount; ++k) column_sum(sums, i, k) = 0;
}
template <int kCount, class W>
HONE_DEVICE void end_sums(const ColumnSums<kCount, W>& sums) {
  if (!sums.room) return;
  for (Int i = threadIdx.x; i < sums.packs; i += blockDim.x)
    for (int k = 0; k < kCount; ++k) sums.out[i * kCount + k] = column_sum(sums, i, k);
}
