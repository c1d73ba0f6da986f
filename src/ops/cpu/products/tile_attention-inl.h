// What attention's kernels by AMX share: groups of 32 rows, packed whole, and who sees whom. Included by kernel files
// only.
//
// A group is packed as steps (tile_steps.h), each 32 of the head size; what is not there is zero.
#pragma once

#include "ops/cpu/products/attention-inl.h"
#include "ops/cpu/products/tile_steps-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

using FloatVec = Vec<float>;

// Sizes that follow from the head size.
struct HeadSteps {
  explicit HeadSteps(std::int64_t head_size)
      : size(head_size), steps(tile_steps(head_size)), group(steps * kStep), group_sums(steps * kSums) {}
  std::int64_t size, steps;
  std::int64_t group;       // bytes of a packed group
  std::int64_t group_sums;  // of 32 rows by the head, a block of 32 x 32 after another
};

// ---------------------------------------------------------------------------------------------- packing

// Rows as A.
HONE_INLINE void pack_lines(const bf16* from, std::int64_t stride, char* to) { copy_lines(from, stride, to); }
// Rows as B, summed over.
HONE_INLINE void pack_pairs(const bf16* from, std::int64_t stride, char* to) { pack_across(from, stride, 1, to, 0); }

// Group `group` of `rows` rows, by pack(values, stride, to) for each step.
template <class Pack>
HONE_INLINE void pack_group(HeadRows<const bf16> x, std::int64_t rows, std::int64_t group, const HeadSteps& head,
                            char* to, Pack&& pack) {
  const bf16* from = x.data + group * kSide * x.stride;
  const std::int64_t count = least(kSide, rows - group * kSide);
  for (std::int64_t d = 0; d < head.size; d += kSide, to += kStep) {
    const std::int64_t width = least(kSide, head.size - d);
    if (count == kSide && width == kSide) {
      pack(from + d, x.stride, to);
    } else {
      alignas(64) bf16 padded[kSide * kSide];
      pad(from + d, x.stride, count, width, padded);
      pack(padded, kSide, to);
    }
  }
}

// Brings a group near, if there is one, while the one before is worked on: its rows lie far apart.
template <bool kWrite = false>
HONE_INLINE void ask_for_group(HeadRows<const bf16> x, std::int64_t rows, std::int64_t group, const HeadSteps& head) {
  for (std::int64_t r = group * kSide; r < least(rows, (group + 1) * kSide); ++r)
    for (std::int64_t d = 0; d < head.size; d += kSide) __builtin_prefetch(x.data + r * x.stride + d, kWrite);
}

// ---------------------------------------------------------------------------------------------- who sees whom

HONE_INLINE std::uint32_t bits_below(std::int64_t n) {
  return n <= 0 ? 0 : n >= 32 ? ~std::uint32_t{0} : (std::uint32_t{1} << n) - 1;
}

// Of 32 rows and 32 lanes: row r < rows sees lanes [first + r, end + r) of those below `lanes`.
struct Band {
  std::int64_t first, end, rows, lanes;
  HONE_INLINE bool whole() const { return first + kSide - 1 <= 0 && least(end, least(rows, lanes)) >= kSide; }
  HONE_INLINE std::uint32_t row(std::int64_t r) const {
    return r < rows ? bits_below(least(end + r, lanes)) & ~bits_below(first + r) : 0;
  }
};

struct Groups {
  std::int64_t first, end;
  // Those in [from, to).
  Groups within(std::int64_t from, std::int64_t to) const {
    const std::int64_t begin = least(most(first, from), to);
    return {begin, most(begin, least(end, to))};
  }
  std::int64_t count() const { return end - first; }
};

// Groups of queries and of keys.
struct GroupMask {
  explicit GroupMask(const AttentionShape& shape)
      : offset(shape.keys - shape.queries),
        keys(shape.keys),
        window(shape.window > 0 ? least(shape.window, keys) : keys),
        ahead(shape.ahead) {}

  std::int64_t place(std::int64_t queries) const { return queries * kSide + offset; }
  // That a group of queries sees some of.
  Groups keys_of(std::int64_t queries) const {
    const std::int64_t at = place(queries);
    return {most(0, at - window + 1) / kSide, tile_steps(least(keys, at + kSide + ahead))};
  }
  // That see some of a group of keys.
  Groups queries_of(std::int64_t group) const {
    const std::int64_t first = group * kSide - offset, last = first + kSide - 1;
    return {most(0, first - ahead) / kSide, tile_steps(least(keys - offset, last + window))};
  }
  // Queries are the rows.
  Band of_queries(std::int64_t queries, std::int64_t group) const {
    const std::int64_t far = place(queries) - group * kSide;
    return {far - window + 1, far + ahead + 1, kSide, keys - group * kSide};
  }
  // Keys are the rows.
  Band of_keys(std::int64_t queries, std::int64_t group) const {
    const std::int64_t far = group * kSide - place(queries);
    return {far - ahead, far + window, keys - group * kSide, kSide};
  }

  std::int64_t offset, keys, window, ahead;
};

// ---------------------------------------------------------------------------------------------- sums

constexpr auto kNothingBeside = [](std::int64_t, int) HONE_LAMBDA {};

// A block of 32 x 32 sums over many steps.
inline void add_block(const ASteps& a, const char* b, std::int64_t b_step, std::int64_t steps, bool fresh,
                      float* sums) {
  fresh ? clear_sums() : load_sums(sums);
  add_steps(a, b, b_step, steps, kNothingBeside);
  store_sums(sums);
}

// Row `row` of blocks of 32 x 32 one after another, `size` columns of it.
HONE_INLINE void narrow_row(const float* sums, std::int64_t row, float factor, std::int64_t size, bf16* to) {
  const float* from = sums + row * kSide;
  for (std::int64_t d = 0; d < size; d += kSide, from += kSums) {
    const FloatVec x = load_lanes<FloatVec>(from) * factor, y = load_lanes<FloatVec>(from + 16) * factor;
    _mm512_mask_storeu_epi16(to + d, bits_below(size - d), (__m512i)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x));
  }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
