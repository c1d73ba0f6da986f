// Attention forward by AMX, 32 queries at a time.
//
// Scores have a query per row and a key per lane, so that neither Q nor shares are turned. They are multiplied two
// groups of keys ahead, tile instruction by tile instruction between the rows that become shares. Shares of up to
// kKept groups are kept: the sums of their product with V stay in tile registers over all of them.
// A share is 2^(score - level), as in attention_forward.cc. The level is the greatest of the first scores that a query
// sees; where a later one exceeds it so far that shares might overflow, it is raised, and those kept are made again.
// What is divided by is the sum of shares as they are after rounding: where one of them is nearly all, its error
// cancels.
#include "ops/cpu/products/tile_attention-inl.h"

#include <array>
#include <initializer_list>

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kKept = 16;  // groups whose shares fill most of the L1 cache
constexpr std::int64_t kStrips = kAttentionBlock / kSide;

struct KeyRoom : HeadSteps {
  KeyRoom(const AttentionShape& shape, void* room) : HeadSteps(shape.size), pieces(room) {
    for (char** x : {&keys, &values}) *x = pieces.take<char>(tile_steps(shape.keys) * group);
  }
  Pieces pieces;
  char *keys, *values;  // B of the scores, summed over the head; B of the result, summed over keys
};

struct WorkRoom : HeadSteps {
  WorkRoom(const AttentionShape& shape, void* room) : HeadSteps(shape.size), pieces(room) {
    queries = pieces.take<char>(group);
    shares = pieces.take<char>(kKept * kStep);
    scores = pieces.take<float>(2 * kSums);
    sums = pieces.take<float>(group_sums);
    for (float** x : {&added, &rounded}) *x = pieces.take<float>(kSide * kLanes<float>);
    for (float** x : {&total, &level, &factors}) *x = pieces.take<float>(kSide);
  }
  Pieces pieces;
  char *queries, *shares;  // both as A
  float *scores, *sums;    // of two groups of keys; of shares with V
  float* added;            // per query and lane: the sum of shares that are kept
  float* rounded;          // per query, the same in all lanes: the sum of rounded shares
  float *total, *level;    // per query: the sum of shares before those kept; see above
  float* factors;          // of sums
};

std::int64_t key_room(const AttentionShape& shape) { return KeyRoom(shape, nullptr).pieces.taken(); }
std::int64_t work_room(const AttentionShape& shape) { return WorkRoom(shape, nullptr).pieces.taken(); }

void pack_keys(const AttentionShape& shape, HeadRows<const bf16> k, HeadRows<const bf16> v, std::int64_t block,
               void* keys, void* /*work*/) {
  const KeyRoom room(shape, keys);
  const Groups groups = Groups{0, tile_steps(shape.keys)}.within(block * kStrips, (block + 1) * kStrips);
  for (std::int64_t g = groups.first; g < groups.end; ++g) {
    for (const auto& x : {k, v}) ask_for_group(x, shape.keys, g + 1, room);
    pack_group(k, shape.keys, g, room, room.keys + g * room.group, pack_along);
    pack_group(v, shape.keys, g, room, room.values + g * room.group, pack_pairs);
  }
}

// Scores of a strip of queries with one group of keys after another. While those of one are used, those of the next lie
// in memory too, and those of the one after that are in tile registers.
class Scores {
 public:
  Scores(const AttentionShape& shape, std::int64_t strip, const KeyRoom& keys, const WorkRoom& work)
      : mask_(shape),
        strip_(strip),
        end_(mask_.keys_of(strip).end),
        keys_(keys),
        work_(work),
        scale_(shape),
        // What is hidden would not stay so if it were scaled later.
        ahead_(shape.soft_cap > 0 || !(shape.scale > 0)),
        factor_(ahead_ ? 1 : static_cast<float>(shape.scale * kLog2e)) {}

  float factor() const { return factor_; }  // of all scores, for powers of 2

  void start(std::int64_t group) {
    next_ = fresh_ = group, held_ = false;
    multiply_next(kNothingBeside);
    settle();
    multiply_next(kNothingBeside);
  }
  // Minus infinity where a key is not seen. In ascending order from the group that was started with; again until the
  // next product.
  const float* at(std::int64_t group) {
    settle();
    if (group == fresh_) finish(fresh_++);
    return block(group);
  }
  template <class Beside>
  HONE_INLINE void multiply_next(Beside&& beside) {
    if (next_ >= end_) return;
    clear_sums();
    add_steps({work_.queries, kLine, kHalf, kStep}, keys_.keys + next_ * keys_.group, kStep, keys_.steps, beside);
    ++next_, held_ = true;
  }
  // Tile registers are free then.
  void settle() {
    if (held_) store_sums(block(next_ - 1));
    held_ = false;
  }

 private:
  float* block(std::int64_t group) const { return work_.scores + group % 2 * kSums; }

  void finish(std::int64_t group) {
    float* scores = block(group);
    if (ahead_)
      for (std::int64_t i = 0; i < kSums; i += kLanes<float>)
        store_lanes(scores + i, scale_(load_lanes<FloatVec>(scores + i)));
    const Band band = mask_.of_queries(strip_, group);
    if (band.whole()) return;
    const auto none = (__m512)all(-INFINITY);
    for (std::int64_t r = 0; r < kSide; ++r) {
      const std::uint32_t seen = band.row(r);
      for (int v = 0; v < 2; ++v) {
        float* x = scores + r * kSide + v * 16;
        _mm512_store_ps(x, _mm512_mask_mov_ps(none, static_cast<__mmask16>(seen >> 16 * v), _mm512_load_ps(x)));
      }
    }
  }

  const GroupMask mask_;
  const std::int64_t strip_, end_;
  const KeyRoom& keys_;
  const WorkRoom& work_;
  const ScoreScale<float> scale_;
  const bool ahead_;
  const float factor_;
  std::int64_t next_ = 0, fresh_ = 0;  // to be multiplied; to be finished
  bool held_ = false;                  // the last one is in tile registers
};

// Rows of scores that become shares.
struct ShareRows {
  FloatVec factor, top;  // top: the greatest score, of all queries, less its level
  const float* level;
  float* added;

  HONE_INLINE void make_four(const float* scores, std::int64_t row, char* shares) {
    HONE_UNROLL
    for (int i = 0; i < 4; ++i, ++row) {
      const FloatVec base = all(level[row]);
      FloatVec x = load_lanes<FloatVec>(scores + row * kSide) * factor - base,
               y = load_lanes<FloatVec>(scores + row * kSide + 16) * factor - base;
      top = larger(larger(x, y), top);  // in this order a score that is not a number hides no other
      x = exp2_of<kExpDegree<bf16>>(x), y = exp2_of<kExpDegree<bf16>>(y);
      float* sum = added + row * kLanes<float>;
      store_lanes(sum, load_lanes<FloatVec>(sum) + (x + y));
      store_line(shares + row * kLine, (__m512i)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x));
    }
  }
};

// A strip of queries on its way over the groups of keys.
class Pass {
 public:
  Pass(const AttentionShape& shape, const KeyRoom& keys, const WorkRoom& work, std::int64_t strip)
      : first_(strip * kSide),
        count_(least(kSide, shape.queries - first_)),
        groups_(GroupMask(shape).keys_of(strip)),
        keys_(keys),
        work_(work),
        dropout_(shape.dropout.rate, shape.dropout.keys,
                 shape.dropout.rate > 0 ? shape.dropout.queries + first_ : nullptr),
        scores_(shape, strip, keys, work),
        // Every query sees a key of these first groups.
        level_end_(most(0, GroupMask(shape).place(strip) + count_ - GroupMask(shape).window) / kSide + 1) {}

  void run() {
    for (std::int64_t r = 0; r < kSide; ++r) work_.total[r] = 0, work_.level[r] = r < count_ ? kNone : 0;
    scores_.start(groups_.first);
    for (std::int64_t g = groups_.first; g < level_end_; ++g) raise_level(g);
    for (std::int64_t g = groups_.first; g < groups_.end; g += kKept) {
      const Groups kept = {g, least(g + kKept, groups_.end)};
      if (!make_shares(kept)) raise_levels(kept), make_shares(kept);
      add_totals();
      add_values(kept);
    }
  }

  void finish(HeadRows<bf16> y, float* lse) {
    alignas(64) float logarithms[kSide];
    for (std::int64_t r = 0; r < kSide; r += kLanes<float>) {
      const auto total = load_lanes<FloatVec>(work_.total + r), level = load_lanes<FloatVec>(work_.level + r);
      store_lanes(logarithms + r, (level + log2_of(total)) * static_cast<float>(kLn2));
    }
    for (std::int64_t r = 0; r < count_; ++r) {
      const float factor = dropout_.factor() / work_.rounded[r * kLanes<float>];
      narrow_row(work_.sums, r, factor, keys_.size, y.data + (first_ + r) * y.stride);
      lse[first_ + r] = logarithms[r];
    }
  }

 private:
  static constexpr float kNone = -1e30f;  // below all scores
  static constexpr float kRoom = 64;      // how far a score may exceed the level: 2^64 times 2^20 keys is no overflow

  // To the greatest of a group's scores.
  void raise_level(std::int64_t group) {
    const float *scores = scores_.at(group), factor = scores_.factor();
    for (std::int64_t first = 0; first < kSide; first += kLanes<float>) {
      FloatVec tops[kLanes<float>];
      HONE_UNROLL
      for (int i = 0; i < kLanes<float>; ++i) {
        const float* row = scores + (first + i) * kSide;
        tops[i] = larger(load_lanes<FloatVec>(row) * factor, load_lanes<FloatVec>(row + 16) * factor);
      }
      const FloatVec top = fold_rows(tops, [](FloatVec x, FloatVec y) HONE_LAMBDA { return larger(x, y); });
      store_lanes(work_.level + first, larger(top, load_lanes<FloatVec>(work_.level + first)));
    }
  }

  // To the greatest of several groups' scores; what was summed before gets the difference as a factor.
  void raise_levels(Groups groups) {
    float* factors = work_.factors;
    std::memcpy(factors, work_.level, kSide * sizeof(float));
    scores_.start(groups.first);
    for (std::int64_t g = groups.first; g < groups.end; ++g) raise_level(g), scores_.multiply_next(kNothingBeside);
    for (std::int64_t r = 0; r < kSide; r += kLanes<float>) {
      const auto factor =
          exp2_of<kExpDegree<float>>(load_lanes<FloatVec>(factors + r) - load_lanes<FloatVec>(work_.level + r));
      store_lanes(factors + r, factor);
      store_lanes(work_.total + r, load_lanes<FloatVec>(work_.total + r) * factor);
    }
    const auto scale = [&](float* sums, std::int64_t r) { store_lanes(sums, load_lanes<FloatVec>(sums) * factors[r]); };
    if (groups.first > groups_.first) {
      for (std::int64_t i = 0; i < work_.group_sums; i += kLanes<float>) scale(work_.sums + i, i / kSide % kSide);
      for (std::int64_t r = 0; r < kSide; ++r) scale(work_.rounded + r * kLanes<float>, r);
    }
    scores_.start(groups.first);
  }

  // False if a level is too low: then they have to be made again.
  [[gnu::noinline]] bool make_shares(Groups groups) {
    std::memset(work_.added, 0, kSide * kLanes<float> * sizeof(float));
    ShareRows rows{all(scores_.factor()), all(-INFINITY), work_.level, work_.added};
    const std::int64_t fours = (count_ + 3) / 4, products = 4 * keys_.steps;
    for (std::int64_t g = groups.first; g < groups.end; ++g) {
      const float* scores = scores_.at(g);
      char* shares = work_.shares + (g - groups.first) * kStep;
      std::int64_t done = 0;
      scores_.multiply_next([&](std::int64_t step, int product) HONE_LAMBDA {
        for (; done * products < (4 * step + product + 1) * fours; ++done) rows.make_four(scores, 4 * done, shares);
      });
      for (; done < fours; ++done) rows.make_four(scores, 4 * done, shares);
    }
    return !any<float>(rows.top > kRoom);
  }

  void add_totals() {
    for (std::int64_t first = 0; first < kSide; first += kLanes<float>) {
      FloatVec rows[kLanes<float>];
      HONE_UNROLL
      for (int i = 0; i < kLanes<float>; ++i) rows[i] = load_lanes<FloatVec>(work_.added + (first + i) * kLanes<float>);
      const FloatVec sums = fold_rows(rows, [](FloatVec x, FloatVec y) HONE_LAMBDA { return x + y; });
      store_lanes(work_.total + first, load_lanes<FloatVec>(work_.total + first) + sums);
    }
  }

  // The sums of rounded shares, in tiles 0 and 1.
  void add_rounded(Groups groups) {
    float* const sums = work_.rounded;
    if (groups.first == groups_.first) {
      HONE_TILE_ZERO(0);
      HONE_TILE_ZERO(1);
    } else {
      HONE_TILE_LOAD(0, sums, kLine);
      HONE_TILE_LOAD(1, sums + kSums / 4, kLine);
    }
    alignas(64) static constexpr auto kOnes = [] {
      std::array<std::uint16_t, kHalf / 2> ones{};
      ones.fill(0x3f80);
      return ones;
    }();
    HONE_TILE_LOAD(6, kOnes.data(), kLine);
    const char* shares = work_.shares;
    for (std::int64_t g = groups.first; g < groups.end; ++g, shares += kStep) {
      HONE_TILE_LOAD(4, shares, kLine);
      HONE_TILE_ADD_PRODUCT(0, 4, 6);
      HONE_TILE_LOAD(5, shares + kHalf, kLine);
      HONE_TILE_ADD_PRODUCT(1, 5, 6);
    }
    HONE_TILE_STORE(0, sums, kLine);
    HONE_TILE_STORE(1, sums + kSums / 4, kLine);
  }

  void drop(Groups groups) {
    for (std::int64_t g = groups.first; g < groups.end; ++g)
      for (std::int64_t r = 0; r < count_; ++r) {
        const auto kept = [&](int lane) HONE_LAMBDA {
          const auto x = (__m512i)dropout_.kept(all(1.0f), r, g * kSide + lane);
          return std::uint32_t{_mm512_test_epi32_mask(x, x)};
        };
        char* line = work_.shares + (g - groups.first) * kStep + r * kLine;
        store_line(line, _mm512_maskz_mov_epi16(kept(0) | kept(16) << 16, load_line(line)));
      }
  }

  void add_values(Groups groups) {
    scores_.settle();
    add_rounded(groups);
    if (dropout_.on()) drop(groups);  // from V, not from their sum
    const char* values = keys_.values + groups.first * keys_.group;
    for (std::int64_t s = 0; s < keys_.steps; ++s)
      add_block({work_.shares, kLine, kHalf, kStep}, values + s * kStep, keys_.group, groups.count(),
                groups.first == groups_.first, work_.sums + s * kSums);
  }

  const std::int64_t first_, count_;
  const Groups groups_;
  const KeyRoom& keys_;
  const WorkRoom& work_;
  const LaneDropout<float> dropout_;
  Scores scores_;
  const std::int64_t level_end_;
};

void attend(const AttentionShape& shape, HeadRows<const bf16> q, std::int64_t block, const void* keys, void* work,
            HeadRows<bf16> y, float* lse) {
  const TileRegisters tiles;
  const KeyRoom key_room(shape, const_cast<void*>(keys));
  const WorkRoom work_room(shape, work);
  const Groups strips = Groups{0, tile_steps(shape.queries)}.within(block * kStrips, (block + 1) * kStrips);
  for (std::int64_t s = strips.first; s < strips.end; ++s) {
    pack_group(q, shape.queries, s, work_room, work_room.queries, pack_lines);
    ask_for_group(q, shape.queries, s + 1, work_room);
    ask_for_group</*kWrite=*/true>({y.data, y.stride}, shape.queries, s, work_room);
    Pass pass(shape, key_room, work_room, s);
    pass.run();
    pass.finish(y, lse);
  }
}

}  // namespace

template <class T>
AttentionForward<T> attention_forward() {
  return {key_room, work_room, pack_keys, attend};
}
HONE_INSTANTIATE_TILE_KERNELS(AttentionForward, attention_forward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
