// What the tensor cores of a GPU of 9.0 read themselves: copies that reach a block's room ahead of time, how matrices
// lie there, and products of groups of four warps, which go on beside their threads. The copies, other GPUs have,
// too (8.0 and later), and how rows by groups are cut into tiles is the same on all.
#pragma once

#include "ops/cuda/kernels/types.h"

// 16 bytes, or fewer, or zeros, on their way; those that were asked for before a commit arrive together. GPUs before
// 8.0 copy them at once. (No L2::cache_hint: on 9.0 what CUDA 13.0 makes of it can be an illegal instruction.)
#if defined(__CUDA_ARCH__)
HONE_DEVICE unsigned shared_address(const void* x) { return static_cast<unsigned>(__cvta_generic_to_shared(x)); }
#else
HONE_DEVICE unsigned shared_address(const void* x) { return emulated::Machine::now().shared_address(x); }
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <int kWords>
HONE_DEVICE void copy_words(void* to, const void* from, bool there) {
  Pack<unsigned, kWords> words = {};
  if (there) words = load<kWords>(static_cast<const unsigned*>(from), 0);
  store<kWords>(static_cast<unsigned*>(to), 0, words);
}
HONE_DEVICE void copy_ahead(void* to, const void* from, bool there) { copy_words<4>(to, from, there); }
HONE_DEVICE void copy_4_ahead(void* to, const void* from, bool there) { copy_words<1>(to, from, there); }
HONE_DEVICE void commit_copies() {}
template <int kLeft>
HONE_DEVICE void wait_for_copies() {}
#elif defined(__CUDA_ARCH__)
HONE_DEVICE void copy_ahead(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
HONE_DEVICE void copy_4_ahead(void* to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
}
HONE_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
HONE_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
#else
HONE_DEVICE void copy_ahead(void* to, const void* from, bool there) { emulated::copy_in_time(to, from, there, 16); }
HONE_DEVICE void copy_4_ahead(void* to, const void* from, bool there) { emulated::copy_in_time(to, from, there, 4); }
HONE_DEVICE void commit_copies() { emulated::Machine::now().commit_copies(); }
template <int kLeft>
HONE_DEVICE void wait_for_copies() {
  emulated::Machine::now().wait_for_copies(kLeft);
}
#endif

// A gate in the block's room: it opens whenever as many have arrived as it was made for, and those after them count for
// its next time. Who is to pass says whether that time's number is odd (the first one is 0); before the first time, an
// odd one is over. What was written before an arrival is there for who has passed. One thread makes it, then a barrier.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
HONE_DEVICE void make_gate(unsigned gate, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gate), "r"(arrivals) : "memory");
}
HONE_DEVICE void arrive(unsigned gate) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gate) : "memory");
}
// As soon as all that this thread has copied ahead is there.
HONE_DEVICE void arrive_with_copies(unsigned gate) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(gate) : "memory");
}
HONE_DEVICE void pass(unsigned gate, int odd) {
  asm volatile(
      "{\n.reg .pred open;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 open, [%0], %1;\n"
      "@open bra passed;\nbra again;\npassed:\n}" ::"r"(gate),
      "r"(odd)
      : "memory");
}
#elif defined(__CUDA_ARCH__)
HONE_DEVICE void make_gate(unsigned, int) {}
HONE_DEVICE void arrive(unsigned) {}
HONE_DEVICE void arrive_with_copies(unsigned) {}
HONE_DEVICE void pass(unsigned, int) {}
#else
HONE_DEVICE void make_gate(unsigned gate, int arrivals) { emulated::Machine::now().make_gate(gate, arrivals); }
HONE_DEVICE void arrive(unsigned gate) { emulated::Machine::now().arrive(gate); }
HONE_DEVICE void arrive_with_copies(unsigned gate) { emulated::Machine::now().arrive_with_copies(gate); }
HONE_DEVICE void pass(unsigned gate, int odd) { emulated::Machine::now().pass(gate, odd != 0); }
#endif

// Copies in bulk, by one thread: of a gate made for one arrival, which opens when so many bytes have come. Whole 16
// bytes, from and to multiples of these.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
HONE_DEVICE void expect_bytes(unsigned gate, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gate), "r"(bytes) : "memory");
}
HONE_DEVICE void copy_in_bulk(unsigned gate, void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(gate)
               : "memory");
}
// Gates that this thread has made, for copies in bulk to find them.
HONE_DEVICE void show_gates() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
#elif defined(__CUDA_ARCH__)
HONE_DEVICE void expect_bytes(unsigned, unsigned) {}
HONE_DEVICE void copy_in_bulk(unsigned, void*, const void*, unsigned) {}
HONE_DEVICE void show_gates() {}
#else
HONE_DEVICE void expect_bytes(unsigned gate, unsigned bytes) { emulated::Machine::now().expect_bytes(gate, bytes); }
HONE_DEVICE void copy_in_bulk(unsigned gate, void* to, const void* from, unsigned bytes) {
  emulated::Machine::now().copy_in_bulk(gate, to, from, bytes);
}
HONE_DEVICE void show_gates() {}
#endif

// A barrier for so many threads of a block, whole warps.
#if defined(__CUDA_ARCH__)
template <int kThreads>
HONE_DEVICE void wait_for_some() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}
#else
template <int kThreads>
HONE_DEVICE void wait_for_some() {
  emulated::Machine::now().wait_for_some(kThreads);
}
#endif

// Registers of each thread of this group of four warps from here on: given back by one group, taken by others.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int kCount>
HONE_DEVICE void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
HONE_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
#else
template <int kCount>
HONE_DEVICE void keep_registers() {}
template <int kCount>
HONE_DEVICE void take_registers() {}
#endif

// Products of a group of four warps, of 16 values of depth each, 64 x 256 (128 sums of a thread), 64 x 128 (64) or
// 64 x 64 (32): asked for, and done when they are waited for. Of a thread's sums, quad q are rows g and g + 8 of
// columns 8 q + 2 t and the next (g, t: as multiply_add's; 16 rows for each warp). left, right: where they lie in the
// block's room, by lines or turned; or the left one is in registers, as multiply_add's. A first one does not add to
// what the sums were. Until it is done, a product's sums and registers are not to be touched.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HONE_8(how, x, at)                                                                                         \
  how(x[at]), how(x[at + 1]), how(x[at + 2]), how(x[at + 3]), how(x[at + 4]), how(x[at + 5]), how(x[at + 6]), \
      how(x[at + 7])
#define HONE_SUMS_8(x, at) HONE_8("+f", x, at)
#define HONE_32_SUMS                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, " \
  "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HONE_64_SUMS                                                                                \
  HONE_32_SUMS ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HONE_128_SUMS                                                                               \
  HONE_64_SUMS ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "    \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define HONE_SUMS_64(x, at)                                                                     \
  HONE_SUMS_8(x, at), HONE_SUMS_8(x, at + 8), HONE_SUMS_8(x, at + 16), HONE_SUMS_8(x, at + 24), \
      HONE_SUMS_8(x, at + 32), HONE_SUMS_8(x, at + 40), HONE_SUMS_8(x, at + 48), HONE_SUMS_8(x, at + 56)
#define HONE_GROUP_MULTIPLY(Type, name)                                                                             \
  template <bool kLeftTurned, bool kRightTurned>                                                                    \
  HONE_DEVICE void group_multiply(Type, float(&c)[64], unsigned long long left, unsigned long long right) {         \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." name "." name " " HONE_64_SUMS                      \
                 "}, %64, %65, 1, 1, 1, %66, %67;"                                                                  \
                 : HONE_SUMS_64(c, 0)                                                                               \
                 : "l"(left), "l"(right), "n"(kLeftTurned ? 1 : 0), "n"(kRightTurned ? 1 : 0)                       \
                 : "memory");                                                                                       \
  }                                                                                                                 \
  template <bool kLeftTurned, bool kRightTurned>                                                                    \
  HONE_DEVICE void group_multiply(Type, float(&c)[128], unsigned long long left, unsigned long long right) {        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." name "." name " " HONE_128_SUMS                     \
                 "}, %128, %129, 1, 1, 1, %130, %131;"                                                              \
                 : HONE_SUMS_64(c, 0), HONE_SUMS_64(c, 64)                                                          \
                 : "l"(left), "l"(right), "n"(kLeftTurned ? 1 : 0), "n"(kRightTurned ? 1 : 0)                       \
                 : "memory");                                                                                       \
  }                                                                                                                 \
  HONE_DEVICE void group_multiply_lines(Type, float(&c)[32], unsigned long long left, unsigned long long right) {   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " " HONE_32_SUMS                       \
                 "}, %32, %33, 1, 1, 1, 0, 0;"                                                                      \
                 : HONE_SUMS_8(c, 0), HONE_SUMS_8(c, 8), HONE_SUMS_8(c, 16), HONE_SUMS_8(c, 24)                     \
                 : "l"(left), "l"(right)                                                                            \
                 : "memory");                                                                                       \
  }                                                                                                                 \
  HONE_DEVICE void group_multiply_first(Type, float(&c)[32], unsigned long long left, unsigned long long right) {   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " " HONE_32_SUMS                       \
                 "}, %32, %33, 0, 1, 1, 0, 0;"                                                                      \
                 : HONE_8("=f", c, 0), HONE_8("=f", c, 8), HONE_8("=f", c, 16), HONE_8("=f", c, 24)                 \
                 : "l"(left), "l"(right)                                                                            \
                 : "memory");                                                                                       \
  }                                                                                                                 \
  template <bool kRightTurned>                                                                                        \
  HONE_DEVICE void group_multiply(Type, float(&c)[32], const unsigned(&left)[4], unsigned long long right) {          \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " " HONE_32_SUMS                         \
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, %37;"                                                        \
                 : HONE_SUMS_8(c, 0), HONE_SUMS_8(c, 8), HONE_SUMS_8(c, 16), HONE_SUMS_8(c, 24)                       \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "n"(kRightTurned ? 1 : 0)      \
                 : "memory");                                                                                         \
  }                                                                                                                   \
  HONE_DEVICE void group_multiply_first(Type, float(&c)[32], const unsigned(&left)[4], unsigned long long right) {    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " " HONE_32_SUMS                         \
                 "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;"                                                          \
                 : HONE_8("=f", c, 0), HONE_8("=f", c, 8), HONE_8("=f", c, 16), HONE_8("=f", c, 24)                   \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right)                                 \
                 : "memory");                                                                                         \
  }
HONE_GROUP_MULTIPLY(Bf16, "bf16")
HONE_GROUP_MULTIPLY(Half, "f16")
#undef HONE_GROUP_MULTIPLY
#undef HONE_128_SUMS
#undef HONE_64_SUMS
#undef HONE_32_SUMS
#undef HONE_SUMS_64
#undef HONE_SUMS_8
#undef HONE_8
// Keeps registers where they are up to here.
template <int kCount>
HONE_DEVICE void hold(float (&x)[kCount]) {
  HONE_UNROLL for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int kCount>
HONE_DEVICE void hold(unsigned (&x)[kCount]) {
  HONE_UNROLL for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(x[i])::"memory");
}
// What this thread's copies have brought, when they have arrived, for the hardware to read itself.
HONE_DEVICE void show_to_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Before products whose sums or left factors threads have written.
HONE_DEVICE void begin_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
HONE_DEVICE void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// For all groups of products but the last kLeft ones. What they have touched is to be held behind it.
template <int kLeft>
HONE_DEVICE void wait_for_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
#else
#if !defined(__CUDA_ARCH__)
template <bool kLeftTurned, bool kRightTurned, class T, int kSums>
HONE_DEVICE void group_multiply(T, float (&c)[kSums], unsigned long long left, unsigned long long right) {
  emulated::group_multiply(c, {left, kLeftTurned}, {right, kRightTurned}, true,
                           [](unsigned short bits) { return widened(T{bits}); });
}
template <class T>
HONE_DEVICE void group_multiply_lines(T, float (&c)[32], unsigned long long left, unsigned long long right) {
  emulated::group_multiply(c, {left, false}, {right, false}, true,
                           [](unsigned short bits) { return widened(T{bits}); });
}
template <class T>
HONE_DEVICE void group_multiply_first(T, float (&c)[32], unsigned long long left, unsigned long long right) {
  emulated::group_multiply(c, {left, false}, {right, false}, false,
                           [](unsigned short bits) { return widened(T{bits}); });
}
template <bool kRightTurned, class T>
HONE_DEVICE void group_multiply(T, float (&c)[32], const unsigned (&left)[4], unsigned long long right) {
  emulated::group_multiply_held(c, left, {right, kRightTurned}, true,
                           [](unsigned short bits) { return widened(T{bits}); });
}
template <class T>
HONE_DEVICE void group_multiply_first(T, float (&c)[32], const unsigned (&left)[4], unsigned long long right) {
  emulated::group_multiply_held(c, left, {right, false}, false, [](unsigned short bits) { return widened(T{bits}); });
}
HONE_DEVICE void show_to_cores() { emulated::Machine::now().show_to_cores(); }
HONE_DEVICE void commit_group() { emulated::Machine::now().commit_group(); }
template <int kLeft>
HONE_DEVICE void wait_for_groups() {
  emulated::Machine::now().wait_for_groups(kLeft);
}
#else  // no kernel that is launched on such a GPU comes here
template <bool kLeftTurned, bool kRightTurned, class T, int kSums>
HONE_DEVICE void group_multiply(T, float (&)[kSums], unsigned long long, unsigned long long) {}
template <class T>
HONE_DEVICE void group_multiply_lines(T, float (&)[32], unsigned long long, unsigned long long) {}
template <class T>
HONE_DEVICE void group_multiply_first(T, float (&)[32], unsigned long long, unsigned long long) {}
template <bool kRightTurned, class T>
HONE_DEVICE void group_multiply(T, float (&)[32], const unsigned (&)[4], unsigned long long) {}
template <class T>
HONE_DEVICE void group_multiply_first(T, float (&)[32], const unsigned (&)[4], unsigned long long) {}
HONE_DEVICE void show_to_cores() {}
HONE_DEVICE void commit_group() {}
template <int kLeft>
HONE_DEVICE void wait_for_groups() {}
#endif
template <class T, int kCount>
HONE_DEVICE void hold(T (&)[kCount]) {}
HONE_DEVICE void begin_group() {}
#endif

// How the hardware finds a matrix: in rows of 128 bytes, eight of which are a unit, which follow one another. A row has
// a line's values of 64 depths, or, turned, a depth's of 64 lines; turned ones of more lines have the others
// `next_lines` bytes behind. Pack p of a row r lies at r * 8 + (p ^ r % 8); units begin at multiples of their size.
constexpr unsigned kUnitBytes = 1024, kRowPacks = 8;
HONE_DEVICE int place_in_rows(int row, int pack) { return row * static_cast<int>(kRowPacks) + (pack ^ (row & 7)); }
// The half of a description that says where the matrix lies; bytes / 16 may be added.
HONE_DEVICE unsigned place_of_matrix(unsigned address, unsigned next_lines = 16) {
  return next_lines / 16 << 16 | (address & 0x3ffff) / 16;
}
HONE_DEVICE unsigned long long matrix_at(unsigned place) {
  constexpr unsigned long long kRowsOf128Bytes = 1ull << 62;
  return kRowsOf128Bytes | static_cast<unsigned long long>(kUnitBytes / 16) << 32 | place;
}
// From a matrix to where its values of a depth begin, a multiple of 16 below 64.
HONE_DEVICE unsigned bytes_to_depth(int depth) { return static_cast<unsigned>(depth) * 2; }
HONE_DEVICE unsigned bytes_to_depth_turned(int depth) { return static_cast<unsigned>(depth) / 8 * kUnitBytes; }

// The group of a tile of so many rows; group g has rows [begin[g], begin[g + 1]). Its first tile is begin[g] / lines +
// g: so far apart that all of a group's tiles have room, wherever it begins; of those that are left over nothing is
// computed. Every thread of a warp comes here: they look at so many groups at once.
template <class T>
HONE_DEVICE int group_of(Int tile, const T* begin, int groups, int lines) {
  constexpr int kEach = 4, kAtOnce = kEach * kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int low = 0, high = groups;  // it is in [low, high)
  while (high - low > 1) {
    const int apart = (high - low + kAtOnce - 1) / kAtOnce;
    bool begins[kEach] = {};  // not behind the tile
    HONE_UNROLL for (int i = 0; i < kEach; ++i)
      if (const int group = low + (i * kWarp + lane) * apart; group < high)
        begins[i] = begin[group] / lines + group <= tile;
    int count = 0;
    HONE_UNROLL for (int i = 0; i < kEach; ++i) count += bits_set(__ballot_sync(kAllLanes, begins[i]));
    low += (count - 1) * apart;
    high = high - low < apart ? high : low + apart;
  }
  return low;
}

// The block's room, from where a unit may begin.
template <class Packed>
HONE_DEVICE Packed* first_unit(Packed* room) {
  const unsigned behind = shared_address(room) % kUnitBytes;
  return room + (behind == 0 ? 0 : (kUnitBytes - behind) / static_cast<unsigned>(sizeof(Packed)));
}
