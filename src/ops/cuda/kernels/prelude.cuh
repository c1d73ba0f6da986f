// What all kernels share. NVRTC compiles it before each of them without any other header; so does g++ where tests run
// kernels on a CPU (tests/cuda/emulated_gpu.h).
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;
#if defined(__CUDACC_RTC__)
#define INFINITY __int_as_float(0x7f800000)
#endif

struct bf16 {
  u16 bits;
};

// The type that is computed in.
template <class T>
struct Wide {
  typedef float type;
};
template <>
struct Wide<double> {
  typedef double type;
};

__device__ inline float wide(float x) { return x; }
__device__ inline double wide(double x) { return x; }
__device__ inline float wide(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }

// Rounded to the nearest, ties to even; what is not a number stays so.
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(double x, double& to) { to = x; }
__device__ inline void narrow(float x, bf16& to) {
#if defined(__CUDA_ARCH__)
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
#else
  const u32 bits = __float_as_uint(x);
  const u32 nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<u16>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : nearest);
#endif
}

struct Add {
  template <class W>
  static __device__ W of(W a, W b) {
    return a + b;
  }
};
struct Most {
  template <class W>
  static __device__ W of(W a, W b) {
    return a > b || a != a ? a : b;
  }
};

// Of all threads' values, on all of them. The order is the same each time: lanes of a warp by halves, warps one after
// another. REQUIRES: whole warps, all of which come here.
template <class Join, class W>
__device__ inline W of_block(W x) {
  __shared__ W parts[32];
  for (int lane = 16; lane > 0; lane /= 2) x = Join::of(x, __shfl_xor_sync(0xffffffffu, x, lane));
  __syncthreads();  // parts may still be read for the last one
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  W all = parts[0];
  for (u32 warp = 1; warp < blockDim.x / 32; ++warp) all = Join::of(all, parts[warp]);
  return all;
}
template <class W>
__device__ inline W sum_of_block(W x) {
  return of_block<Add>(x);
}

// A kernel of this name for each type: name_float, name_double, name_bf16.
#define FOR_EACH_TYPE(MAKE) MAKE(float) MAKE(double) MAKE(bf16)
