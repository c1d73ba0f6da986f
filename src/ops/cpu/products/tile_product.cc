// bf16 products by AMX; there are none without it.
//
// Two by two tiles of sums over at most a slice of depth. B's tiles pass by the L1 cache, where A's rows stay. What
// does not multiply happens beside the products: the sums of a block are finished, the next rows of A asked for.
#include "ops/cpu/products/tile_product.h"

#include <algorithm>
#include <utility>

#include "ops/cpu/products/tile_steps-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AMX)
namespace {

// ---------------------------------------------------------------------------------------------- packing

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

// Lines so far apart that 32 of them share one or two sets of the L1 cache, which have twelve ways each: they do not
// stay there, and are copied before they are used more than once.
HONE_INLINE bool crowded(std::int64_t stride) { return stride * 2 % 2048 == 0; }

// Step `s` of 32 rows of A from row `m` on.
HONE_INLINE void pack_a(const TileRows<bf16>& p, std::int64_t m, std::int64_t s, char* to) {
  const std::int64_t k = s * kSide, rows = std::min(kSide, p.rows - m), deep = std::min(kSide, p.depth - k);
  const bf16* from = p.a + m * p.i_stride + k * p.k_stride;
  const bool whole = rows == kSide && deep == kSide;
  if (p.k_stride == 1)  // a row after another in the same order, the two tiles as they stand
    return whole ? copy_lines(from, p.i_stride, to)
                 : pad(from, p.i_stride, rows, deep, reinterpret_cast<bf16*>(to));
  if (whole && !crowded(p.k_stride)) return pack_turned(from, p.k_stride, to);
  alignas(64) bf16 near[kSide * kSide];
  whole ? copy_lines(from, p.k_stride, reinterpret_cast<char*>(near)) : pad(from, p.k_stride, deep, rows, near);
  pack_turned(near, kSide, to);
}

// ---------------------------------------------------------------------------------------------- products

// What becomes of a block's sums, and where.
enum class Way { narrow, narrow_more, wide, wide_add };
struct Place {
  Way way = Way::narrow;
  char* c = nullptr;
  std::int64_t stride = 0;  // bytes
  const float* more = nullptr;
  std::int64_t more_stride = 0, rows = 0;
  std::uint32_t cols = 0;  // a bit for each column that there is
};

template <Way kWay>
HONE_INLINE void finish_row(const Place& place, const float* sums, std::int64_t row) {
  const float* from = sums + row * kSide;
  __m512 x = _mm512_load_ps(from), y = _mm512_load_ps(from + 16);
  char* to = place.c + row * place.stride;
  const auto left = static_cast<__mmask16>(place.cols), right = static_cast<__mmask16>(place.cols >> 16);
  if (kWay == Way::narrow_more) {
    const float* more = place.more + row * place.more_stride;
    x = _mm512_add_ps(x, _mm512_loadu_ps(more)), y = _mm512_add_ps(y, _mm512_loadu_ps(more + 16));
  }
  if (kWay == Way::narrow || kWay == Way::narrow_more) {
    _mm512_mask_storeu_epi16(to, place.cols, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    return;
  }
  if (kWay == Way::wide_add) {
    x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(left, to));
    y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(right, to + kLine));
  }
  _mm512_mask_storeu_ps(to, left, x);
  _mm512_mask_storeu_ps(to + kLine, right, y);
}

template <Way kWay, int kRows>
HONE_INLINE void finish_rows_as(const Place& place, const float* sums, std::int64_t row) {
  HONE_UNROLL
  for (int i = 0; i < kRows; ++i) finish_row<kWay>(place, sums, row + i);
}
template <int kRows>
HONE_INLINE void finish_rows(const Place& place, const float* sums, std::int64_t row) {
  if (place.way == Way::narrow) return finish_rows_as<Way::narrow, kRows>(place, sums, row);
  if (place.way == Way::narrow_more) return finish_rows_as<Way::narrow_more, kRows>(place, sums, row);
  if (place.way == Way::wide) return finish_rows_as<Way::wide, kRows>(place, sums, row);
  finish_rows_as<Way::wide_add, kRows>(place, sums, row);
}

// Blocks of 32 x 32 sums one after another; those of one are finished while the next is made, which may be of another
// product. Copies go on where the original was.
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
    for (; done_ < last_.rows; ++done_) finish_rows<1>(last_, sums(), done_);
  }

 private:
  template <int kRows, class Beside>
  HONE_INLINE void add_by(const ASteps& a, const char* b, std::int64_t steps, const Place& place, Beside&& beside) {
    clear_sums();
    add_steps(a, b, kStep, steps, [&](std::int64_t s, int product) HONE_LAMBDA {
      if (product < 3) return;  // once a step
      if (done_ + kRows <= last_.rows) {
        finish_rows<kRows>(last_, sums(), done_);
        done_ += kRows;
        char* to = place.c + s * kRows * place.stride;
        HONE_UNROLL
        for (int i = 0; i < kRows; ++i) {
          __builtin_prefetch(to + i * place.stride, 1);
          if (place.way >= Way::wide) __builtin_prefetch(to + i * place.stride + kLine, 1);
        }
      }
      beside(s);
    });
    finish();
    turn_ ^= 1;
    store_sums(sums());
    last_ = place, done_ = 0;
  }

  HONE_INLINE float* sums() const { return sums_ + turn_ * kSums; }

  float* sums_;  // two blocks
  int turn_ = 0;
  Place last_{};
  std::int64_t done_ = 0;  // rows of the last block that are finished
};

HONE_INLINE Place place_of(const TileRows<bf16>& p, std::int64_t m, std::int64_t q) {
  const bool narrow = p.store == Store::narrow;
  const std::int64_t size = narrow ? sizeof(bf16) : sizeof(float), n = q * kSide, width = std::min(kSide, p.cols - n);
  return {.way = narrow ? p.more ? Way::narrow_more : Way::narrow : p.store == Store::wide ? Way::wide : Way::wide_add,
          .c = static_cast<char*>(p.c) + (m * p.c_stride + n) * size,
          .stride = p.c_stride * size,
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

// Lines of A that packing some steps of 32 rows reads.
class LinesToPack {
 public:
  LinesToPack(const TileRows<bf16>& p, const bf16* rows, std::int64_t first_step, std::int64_t steps)
      : along_(p.k_stride == 1),
        stride_(2 * (along_ ? p.i_stride : p.k_stride)),
        at_(reinterpret_cast<const char*>(rows + first_step * kSide * p.k_stride)),
        left_(static_cast<std::uint64_t>(steps * kSide)) {}
  // Asks for the next `count`: of a step, then of the one after it.
  HONE_INLINE void ask(std::uint64_t count) {
    for (const std::uint64_t end = std::min(left_, done_ + count); done_ < end; ++done_) {
      const auto step = static_cast<std::int64_t>(done_ / kSide), line = static_cast<std::int64_t>(done_ % kSide);
      __builtin_prefetch(at_ + step * (along_ ? kLine : kSide * stride_) + line * stride_);
    }
  }

 private:
  const bool along_;
  const std::int64_t stride_;  // bytes
  const char* const at_;
  const std::uint64_t left_;
  std::uint64_t done_ = 0;
};

// kPacked: rows of A have to be packed, 32 at a time, beside the products of those before; else they are multiplied
// where they lie. Either way they are asked for before.
template <bool kPacked>
[[gnu::noinline]] void run(const TileRows<bf16>& p, Blocks& so_far) {
  const std::int64_t panels = tile_steps(p.cols), steps = tile_steps(p.depth), panel = steps * kStep;
  char *now = p.room + 4 * kStep, *next = now + panel;
  Blocks blocks = so_far;  // in registers: the tile instructions are said to change any memory
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
    const bf16* next_rows = more_rows ? rows + kSide * p.i_stride : p.next_a;
    const auto* below = reinterpret_cast<const char*>(next_rows);
    const Shares packing{steps, panels}, asking{kSide, panels};
    for (std::int64_t q = 0; q < panels; ++q) {
      const std::int64_t ask = asking.begin(q), ask_end = next_rows ? asking.end(q) : ask;
      const std::int64_t packed_after = next_rows ? packing.end(q) - packing.begin(q) : 0;
      LinesToPack next_lines(p, next_rows, packing.begin(q), packed_after);
      const auto lines_per_step = static_cast<std::uint64_t>((packed_after * kSide + steps - 1) / steps);
      blocks.add(a, p.panels + q * panel, steps, place_of(p, m, q), [&](std::int64_t s) HONE_LAMBDA {
        for (std::int64_t i = 0; i < soon_lines && soon < soon_end; ++i, soon += kLine) __builtin_prefetch(soon, 0, 2);
        if (kPacked) return next_lines.ask(lines_per_step);
        for (std::int64_t i = ask; i < ask_end; ++i) __builtin_prefetch(below + i * 2 * p.i_stride + s * kLine, 0, 2);
      });
      if (kPacked && more_rows)
        for (std::int64_t s = packing.begin(q); s < packing.end(q); ++s) pack_a(p, m + kSide, s, next + s * kStep);
    }
    std::swap(now, next);
  }
  so_far = blocks;
}

// Panels that rows of A are multiplied with at least if that is worth copying crowded ones.
constexpr std::int64_t kCopyingPays = 6;

void run_task(const TileRows<bf16>& p, Blocks& blocks) {
  const bool as_they_lie = p.k_stride == 1 && p.depth % kSide == 0 &&
                           (!crowded(p.i_stride) || tile_steps(p.cols) < kCopyingPays);
  const std::int64_t whole = as_they_lie ? p.rows / kSide * kSide : 0;
  if (whole > 0) {
    TileRows<bf16> part = p;
    part.rows = whole;
    if (whole < p.rows) part.next_a = p.a + whole * p.i_stride;
    run<false>(part, blocks);
  }
  if (whole == p.rows) return;
  TileRows<bf16> rest = p;
  rest.rows = p.rows - whole, rest.a += whole * p.i_stride, rest.soon_bytes = whole > 0 ? 0 : p.soon_bytes;
  rest.c = static_cast<char*>(p.c) + whole * p.c_stride * (p.store == Store::narrow ? 2 : 4);
  if (p.more) rest.more += whole * p.more_stride;
  run<true>(rest, blocks);
}

void multiply(const TileRows<bf16>* tasks, std::int64_t count) {
  if (count == 0) return;
  Blocks blocks(reinterpret_cast<float*>(tasks->room));
  for (std::int64_t i = 0; i < count; ++i) run_task(tasks[i], blocks);
  blocks.finish();
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
