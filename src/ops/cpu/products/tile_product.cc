// bf16 products by AMX; there are none without it.
//
// Two by two tiles of sums over at most a slice of depth. B's tiles pass by the L1 cache, where A's rows stay. What
// does not multiply happens beside the products: the sums of a block are finished, the next rows of A asked for.
#include "ops/cpu/products/tile_product.h"

#include "ops/cpu/products/tiles-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AMX)
namespace {

constexpr std::int64_t kSide = kTileSide, kStep = kTileStepBytes, kHalf = kStep / 2, kLine = 64;

// ---------------------------------------------------------------------------------------------- packing

typedef std::uint32_t WordVec __attribute__((vector_size(64)));

HONE_INLINE __m512i load_line(const void* from) { return _mm512_loadu_si512(from); }
HONE_INLINE void store_line(char* to, __m512i x) { _mm512_store_si512(to, x); }

// Two rows of 32 columns, the values of a column side by side: the first 16 columns, then the others.
HONE_INLINE void store_pairs(__m512i low, __m512i high, char* to) {
  alignas(64) static constexpr auto kOrder = [] {
    std::array<std::uint16_t, 64> order{};
    for (int j = 0; j < 32; ++j) order[2 * j] = j, order[2 * j + 1] = 32 + j;
    return order;
  }();
  store_line(to, _mm512_permutex2var_epi16(low, _mm512_load_si512(kOrder.data()), high));
  store_line(to + kHalf, _mm512_permutex2var_epi16(low, _mm512_load_si512(kOrder.data() + 32), high));
}

// A whole step of B whose columns lie side by side, of `count` panels; row by row, as memory lies.
HONE_INLINE void pack_across(const bf16* b, std::int64_t k_stride, std::int64_t count, char* to, std::int64_t panel) {
  for (int pair = 0; pair < 16; ++pair, b += 2 * k_stride)
    for (std::int64_t q = 0; q < count; ++q)
      store_pairs(load_line(b + q * kSide), load_line(b + k_stride + q * kSide), to + q * panel + pair * kLine);
}

// The same of one panel, where depth lies side by side.
HONE_INLINE void pack_along(const bf16* b, std::int64_t n_stride, char* to) {
  for (int tile = 0; tile < 2; ++tile) {
    WordVec block[16];
    HONE_UNROLL
    for (int i = 0; i < 16; ++i) block[i] = (WordVec)load_line(b + (tile * 16 + i) * n_stride);
    exchange_rows<1>(block);
    HONE_UNROLL
    for (int i = 0; i < 16; ++i) store_line(to + tile * kHalf + i * kLine, (__m512i)block[i]);
  }
}

// A whole step of 32 rows of A that lie across. Lanes are gathered by loads, so that three shuffles of each remain.
HONE_INLINE void pack_turned(const bf16* a, std::int64_t k_stride, char* to) {
  HONE_UNROLL
  for (int g = 0; g < 4; ++g) {  // eight rows of A
    __m512i r[8], t[8];
    HONE_UNROLL
    for (int i = 0; i < 8; ++i) {  // depth i, 8 + i, 16 + i, 24 + i in quarters
      const bf16* from = a + i * k_stride + g * 8;
      const auto quarter = [&](int part) HONE_LAMBDA {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part * 8 * k_stride));
      };
      __m512i x = _mm512_zextsi128_si512(quarter(0));
      x = _mm512_mask_broadcast_i32x4(x, 0x00f0, quarter(1));
      x = _mm512_mask_broadcast_i32x4(x, 0x0f00, quarter(2));
      r[i] = _mm512_mask_broadcast_i32x4(x, 0xf000, quarter(3));
    }
    HONE_UNROLL
    for (int i = 0; i < 8; i += 2)
      t[i] = _mm512_unpacklo_epi16(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi16(r[i], r[i + 1]);
    HONE_UNROLL
    for (int i = 0; i < 2; ++i) {
      HONE_UNROLL
      for (int j = 0; j < 2; ++j) {
        r[4 * i + 2 * j] = _mm512_maskz_unpacklo_epi32(0xffff, t[4 * i + j], t[4 * i + 2 + j]);
        r[4 * i + 2 * j + 1] = _mm512_maskz_unpackhi_epi32(0xffff, t[4 * i + j], t[4 * i + 2 + j]);
      }
    }
    HONE_UNROLL
    for (int c = 0; c < 4; ++c) {
      store_line(to + (g * 8 + 2 * c) * kLine, _mm512_maskz_unpacklo_epi64(0xff, r[c], r[4 + c]));
      store_line(to + (g * 8 + 2 * c + 1) * kLine, _mm512_maskz_unpackhi_epi64(0xff, r[c], r[4 + c]));
    }
  }
}

// What is there of a step at an edge: `lines` of `length` values, in 32 of 32.
HONE_INLINE void pad(const bf16* from, std::int64_t stride, std::int64_t lines, std::int64_t length, bf16* to) {
  std::memset(static_cast<void*>(to), 0, kSide * kSide * sizeof(bf16));
  for (std::int64_t i = 0; i < lines; ++i)
    std::memcpy(static_cast<void*>(to + i * kSide), from + i * stride, length * sizeof(bf16));
}

void pack_b(const bf16* b, std::int64_t k_stride, std::int64_t n_stride, std::int64_t depth, std::int64_t cols,
            char* panels) {
  alignas(64) bf16 padded[kSide * kSide];
  const std::int64_t panel = tile_steps(depth) * kStep, whole = cols / kSide;
  const bool across = n_stride == 1;
  for (std::int64_t k = 0; k < depth; k += kSide, panels += kStep) {
    const std::int64_t deep = std::min(kSide, depth - k);
    const std::int64_t plain = deep == kSide ? whole : 0;  // panels that need no padding
    if (across && plain > 0) pack_across(b + k * k_stride, k_stride, plain, panels, panel);
    for (std::int64_t q = across ? plain : 0; q * kSide < cols; ++q) {
      const bf16* from = b + k * k_stride + q * kSide * n_stride;
      const std::int64_t width = std::min(kSide, cols - q * kSide);
      if (across) {
        pad(from, k_stride, deep, width, padded);
        pack_across(padded, kSide, 1, panels + q * panel, panel);
      } else if (q < plain) {
        pack_along(from, n_stride, panels + q * panel);
      } else {
        pad(from, n_stride, width, deep, padded);
        pack_along(padded, kSide, panels + q * panel);
      }
    }
  }
}

// Step `s` of 32 rows of A from row `m` on.
HONE_INLINE void pack_a(const TileRows<bf16>& p, std::int64_t m, std::int64_t s, char* to) {
  const std::int64_t k = s * kSide, rows = std::min(kSide, p.rows - m), deep = std::min(kSide, p.depth - k);
  const bf16* from = p.a + m * p.i_stride + k * p.k_stride;
  if (p.k_stride == 1) {  // a row after another in the same order, the two tiles as they stand
    if (rows < kSide || deep < kSide) return pad(from, p.i_stride, rows, deep, reinterpret_cast<bf16*>(to));
    for (int i = 0; i < kSide; ++i) store_line(to + i * kLine, load_line(from + i * p.i_stride));
  } else if (rows == kSide && deep == kSide) {
    pack_turned(from, p.k_stride, to);
  } else {
    alignas(64) bf16 padded[kSide * kSide];
    pad(from, p.k_stride, deep, rows, padded);
    pack_turned(padded, kSide, to);
  }
}

// ---------------------------------------------------------------------------------------------- products

// Where A's two tiles of a step lie: rows `stride` bytes apart, the second one `half` behind, the next step `step`.
struct ASteps {
  const char* at;
  std::int64_t stride, half, step;
};

// 32 x 32 sums in tiles 0 to 3. beside(step): other work, done while the tiles multiply.
template <class Beside>
HONE_INLINE void multiply_steps(const ASteps& a, const char* b, std::int64_t steps, Beside&& beside) {
  const char *upper = a.at, *lower = a.at + a.half;
  HONE_TILE_ZERO(0);
  HONE_TILE_ZERO(1);
  HONE_TILE_ZERO(2);
  HONE_TILE_ZERO(3);
  for (std::int64_t s = 0; s < steps; ++s) {
    HONE_TILE_LOAD_ONCE(6, b, kLine);
    HONE_TILE_LOAD(4, upper, a.stride);
    HONE_TILE_LOAD_ONCE(7, b + kHalf, kLine);
    HONE_TILE_ADD_PRODUCT(0, 4, 6);
    HONE_TILE_ADD_PRODUCT(1, 4, 7);
    HONE_TILE_LOAD(5, lower, a.stride);
    HONE_TILE_ADD_PRODUCT(2, 5, 6);
    HONE_TILE_ADD_PRODUCT(3, 5, 7);
    upper += a.step, lower += a.step, b += kStep;
    beside(s);
  }
}

// Where a block's sums go.
struct Place {
  char* c = nullptr;
  std::int64_t stride = 0;  // bytes
  const float* more = nullptr;
  std::int64_t more_stride = 0, rows = 0;
  std::uint32_t cols = 0;  // a bit for each column that there is
};

// Blocks of 32 x 32 sums one after another; those of one are finished while the next is made.
template <Store kStore, bool kMore>
class Blocks {
 public:
  explicit Blocks(float* sums) : sums_(sums) {}

  template <class Beside>
  HONE_INLINE void add(const ASteps& a, const char* b, std::int64_t steps, const Place& place, Beside&& beside) {
    if (steps >= 16)
      add_by<2>(a, b, steps, place, beside);
    else
      add_by<4>(a, b, steps, place, beside);
  }
  HONE_INLINE void finish() {
    for (; done_ < last_.rows; ++done_) finish_row(done_);
  }

 private:
  static constexpr std::int64_t kSums = kSide * kSide;

  template <int kRows, class Beside>
  HONE_INLINE void add_by(const ASteps& a, const char* b, std::int64_t steps, const Place& place, Beside&& beside) {
    multiply_steps(a, b, steps, [&](std::int64_t s) HONE_LAMBDA {
      if (done_ + kRows <= last_.rows) {
        HONE_UNROLL
        for (int i = 0; i < kRows; ++i) finish_row(done_ + i);
        done_ += kRows;
        char* to = place.c + s * kRows * place.stride;
        HONE_UNROLL
        for (int i = 0; i < kRows; ++i) {
          __builtin_prefetch(to + i * place.stride, 1);
          if (kStore != Store::narrow) __builtin_prefetch(to + i * place.stride + kLine, 1);
        }
      }
      beside(s);
    });
    finish();
    turn_ ^= 1;
    float* sums = sums_ + turn_ * kSums;
    HONE_TILE_STORE(0, sums, 2 * kLine);
    HONE_TILE_STORE(1, sums + 16, 2 * kLine);
    HONE_TILE_STORE(2, sums + 16 * kSide, 2 * kLine);
    HONE_TILE_STORE(3, sums + 16 * kSide + 16, 2 * kLine);
    last_ = place, done_ = 0;
  }

  HONE_INLINE void finish_row(std::int64_t row) const {
    const float* from = sums_ + turn_ * kSums + row * kSide;
    __m512 x = _mm512_load_ps(from), y = _mm512_load_ps(from + 16);
    char* to = last_.c + row * last_.stride;
    const auto left = static_cast<__mmask16>(last_.cols), right = static_cast<__mmask16>(last_.cols >> 16);
    if (kMore) {
      const float* more = last_.more + row * last_.more_stride;
      x = _mm512_add_ps(x, _mm512_loadu_ps(more)), y = _mm512_add_ps(y, _mm512_loadu_ps(more + 16));
    }
    if (kStore == Store::narrow) {
      _mm512_mask_storeu_epi16(to, last_.cols, (__m512i)_mm512_cvtne2ps_pbh(y, x));
      return;
    }
    if (kStore == Store::wide_add) {
      x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(left, to));
      y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(right, to + kLine));
    }
    _mm512_mask_storeu_ps(to, left, x);
    _mm512_mask_storeu_ps(to + kLine, right, y);
  }

  float* const sums_;  // two blocks
  int turn_ = 0;
  Place last_{};
  std::int64_t done_ = 0;  // rows of the last block that are finished
};

template <Store kStore>
HONE_INLINE Place place_of(const TileRows<bf16>& p, std::int64_t m, std::int64_t q) {
  constexpr std::int64_t kSize = kStore == Store::narrow ? sizeof(bf16) : sizeof(float);
  const std::int64_t n = q * kSide, width = std::min(kSide, p.cols - n);
  return {.c = static_cast<char*>(p.c) + (m * p.c_stride + n) * kSize,
          .stride = p.c_stride * kSize,
          .more = p.more ? p.more + m * p.more_stride + n : nullptr,
          .more_stride = p.more_stride,
          .rows = std::min(kSide, p.rows - m),
          .cols = static_cast<std::uint32_t>((std::uint64_t{1} << width) - 1)};
}

// Units [0, count) of other work, a part of them with each of `blocks` blocks.
struct Shares {
  std::int64_t count, blocks;
  std::int64_t begin(std::int64_t block) const { return block * count / blocks; }
  std::int64_t end(std::int64_t block) const { return begin(block + 1); }
};

// kPacked: rows of A have to be packed, 32 at a time, beside the products of those before; else they are multiplied
// where they lie, and asked for.
template <bool kPacked, Store kStore, bool kMore>
[[gnu::noinline]] void run(const TileRows<bf16>& p) {
  const std::int64_t panels = tile_steps(p.cols), steps = tile_steps(p.depth), panel = steps * kStep;
  auto* sums = reinterpret_cast<float*>(p.room);
  char *now = p.room + 4 * kStep, *next = now + panel;
  Blocks<kStore, kMore> blocks(sums);
  const char *soon = p.soon, *const soon_end = p.soon + p.soon_bytes;
  const std::int64_t all_steps = tile_steps(p.rows) * panels * steps;
  const std::int64_t soon_lines = (p.soon_bytes / kLine + all_steps - 1) / all_steps;  // with each step
  if (kPacked)
    for (std::int64_t s = 0; s < steps; ++s) pack_a(p, 0, s, now + s * kStep);
  for (std::int64_t m = 0; m < p.rows; m += kSide) {
    const bool more_rows = m + kSide < p.rows;
    const bf16* rows = p.a + m * p.i_stride;
    const ASteps a = kPacked ? ASteps{now, kLine, kHalf, kStep}
                             : ASteps{reinterpret_cast<const char*>(rows), 2 * p.i_stride, 32 * p.i_stride, kLine};
    const auto* below = reinterpret_cast<const char*>(rows + kSide * p.i_stride);
    const Shares packing{steps, panels}, asking{kSide, panels};
    for (std::int64_t q = 0; q < panels; ++q) {
      const std::int64_t ask = asking.begin(q), ask_end = more_rows ? asking.end(q) : ask;
      blocks.add(a, p.panels + q * panel, steps, place_of<kStore>(p, m, q), [&](std::int64_t s) HONE_LAMBDA {
        for (std::int64_t i = 0; i < soon_lines && soon < soon_end; ++i, soon += kLine) __builtin_prefetch(soon, 0, 2);
        if (kPacked) return;
        for (std::int64_t i = ask; i < ask_end; ++i) __builtin_prefetch(below + i * 2 * p.i_stride + s * kLine, 0, 2);
      });
      if (kPacked && more_rows)
        for (std::int64_t s = packing.begin(q); s < packing.end(q); ++s) pack_a(p, m + kSide, s, next + s * kStep);
    }
    std::swap(now, next);
  }
  blocks.finish();
}

template <bool kPacked>
void run_as(const TileRows<bf16>& p) {
  if (p.store == Store::wide) return run<kPacked, Store::wide, false>(p);
  if (p.store == Store::wide_add) return run<kPacked, Store::wide_add, false>(p);
  p.more ? run<kPacked, Store::narrow, true>(p) : run<kPacked, Store::narrow, false>(p);
}

void multiply(const TileRows<bf16>& p) {
  const std::int64_t whole = p.k_stride == 1 && p.depth % kSide == 0 ? p.rows / kSide * kSide : 0;
  if (whole > 0) {
    TileRows<bf16> part = p;
    part.rows = whole;
    run_as<false>(part);
  }
  if (whole == p.rows) return;
  TileRows<bf16> rest = p;
  rest.rows = p.rows - whole, rest.a += whole * p.i_stride, rest.soon_bytes = whole > 0 ? 0 : p.soon_bytes;
  rest.c = static_cast<char*>(p.c) + whole * p.c_stride * (p.store == Store::narrow ? 2 : 4);
  if (p.more) rest.more += whole * p.more_stride;
  run_as<true>(rest);
}

}  // namespace

template <class T>
TileProductKernels<T> tile_product_kernels() {
  return {configure_tiles, release_tiles, pack_b, multiply};
}
#else
template <class T>
TileProductKernels<T> tile_product_kernels() {
  return {};
}
#endif
HONE_INSTANTIATE_TILE_KERNELS(TileProductKernels, tile_product_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
