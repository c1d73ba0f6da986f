// Attention forward, block by block with a running softmax; compiled once per instruction set.
//
// Per block of queries, sums[d][query] = sum over keys of v[key][d] share[key][query] with
// share = 2^(score - level), where level is a value that the query's scores do not exceed by much. The first block of
// keys sets it to their maximum ("careful"); later blocks take it as it is, which needs only one pass, and are done
// again carefully in the rare case that a score exceeds it so far that shares might overflow. The result does not
// depend on the level: its factor is in the sum of shares too.
#include "ops/cpu/products/attention_blocks-inl.h"

#include <initializer_list>

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
struct KeyRoom : HeadSizes<T> {
  using Unit = typename HeadSizes<T>::Unit;
  KeyRoom(const AttentionShape& shape, void* room) : HeadSizes<T>(shape.size), pieces(room) {
    const std::int64_t blocks = (shape.keys + kBlock - 1) / kBlock;
    keys = pieces.template take<Unit>(blocks * kBlock * this->stride);
    values = pieces.template take<Unit>(blocks * this->wide * this->kBlockUnits);
  }
  Unit* block_keys(std::int64_t block) const { return keys + block * kBlock * this->stride; }
  Unit* block_values(std::int64_t block) const { return values + block * this->wide * this->kBlockUnits; }
  Pieces pieces;
  Unit* keys;    // [key][unit along the head]
  Unit* values;  // per block [d][unit across keys]
};

template <class T>
struct WorkRoom : HeadSizes<T> {
  using W = typename HeadSizes<T>::W;
  using Unit = typename HeadSizes<T>::Unit;
  WorkRoom(const AttentionShape& shape, void* room) : HeadSizes<T>(shape.size), pieces(room) {
    queries = pieces.template take<Unit>(this->stride * kBlock);
    shares = pieces.template take<Unit>(this->kBlockUnits * kBlock);
    rows = pieces.template take<Unit>(kBlock * most(this->stride, this->wide));
    scores = pieces.template take<W>(kBlock * most(kBlock, this->wide));
    sums = pieces.template take<W>(this->wide * kBlock);
    for (W** x : {&level, &total, &top, &added}) *x = pieces.template take<W>(kBlock);
  }
  Pieces pieces;
  Unit *queries, *shares;  // [unit along the head][query], [unit across keys][query]
  Unit* rows;              // being packed
  W *scores, *sums;        // [key][query] (and being unpacked), [d][query]
  W *level, *total;        // per query: see above; the sum of shares
  W *top, *added;          // of the block of keys: the greatest score, the sum of shares
};

template <class T>
std::int64_t key_room(const AttentionShape& shape) {
  return KeyRoom<T>(shape, nullptr).pieces.taken();
}
template <class T>
std::int64_t work_room(const AttentionShape& shape) {
  return WorkRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
void pack_keys(const AttentionShape& shape, HeadRows<const T> k, HeadRows<const T> v, std::int64_t block, void* keys,
               void* work) {
  const KeyRoom<T> room(shape, keys);
  const std::int64_t first = block * kBlock, count = least(kBlock, shape.keys - first);
  k.data += first * k.stride, v.data += first * v.stride;
  pack_rows<T>(k, count, round_up(count, kGroup), room, room.block_keys(block));
  pack_transposed<T>(v, count, room, WorkRoom<T>(shape, work).rows, room.block_values(block));
}

// One block of queries on its way over the blocks of keys.
template <class T>
class Pass {
 public:
  using A = AttentionTypes<T>;
  using U = typename A::U;
  using W = typename A::W;
  Pass(const AttentionShape& shape, const KeyRoom<T>& keys, const WorkRoom<T>& work, std::int64_t block)
      : queries_(shape, block),
        dropout_(share_dropout<W>(shape.dropout, queries_.first)),
        keys_(keys),
        work_(work),
        scale_(shape) {}

  void run(HeadRows<const T> q) {
    pack(q);
    for (std::int64_t i = 0; i < kBlock; ++i) work_.level[i] = kNone, work_.total[i] = 0;
    const std::int64_t begin = queries_.first_key / kBlock;
    for (std::int64_t b = begin; b * kBlock < queries_.end_key; ++b) {
      if (b == begin || !add_quickly(b)) add_carefully(b, b == begin);
      add_values(b, b == begin);
    }
  }

  void finish(HeadRows<T> y, W* lse) {
    y.data += queries_.first * y.stride;
    for (std::int64_t v = 0; v < queries_.vectors; ++v) {
      const auto total = load_lanes<Vec<W>>(work_.total + v * A::kWide);
      const auto level = load_lanes<Vec<W>>(work_.level + v * A::kWide);
      store_lanes(work_.top + v * A::kWide, (level + log2_of(total)) * static_cast<W>(kLn2));
      scale_sums(v, dropout_.factor() / total);
    }
    transpose(work_.sums, kBlock, work_.wide, queries_.vectors * A::kWide, work_.scores, work_.wide);
    for (std::int64_t i = 0; i < queries_.count; ++i) {
      each_vector<W>(work_.size, [&](std::int64_t d, auto part) {
        store(y.data + i * y.stride + d, load(work_.scores + i * work_.wide + d, part), part);
      });
      lse[queries_.first + i] = work_.top[i];
    }
  }

 private:
  static constexpr W kNone = -1e30f;  // below all scores
  static constexpr W kRoom = 64;      // how far a score may exceed the level: 2^64 times 2^20 keys is no overflow

  void pack(HeadRows<const T> q) {
    q.data += queries_.first * q.stride;
    const std::int64_t rows = queries_.vectors * A::kWide;
    pack_rows<T>(q, queries_.count, rows, work_, work_.rows);
    transpose(work_.rows, work_.stride, rows, work_.stride, work_.queries, kBlock);
  }

  void scale_sums(std::int64_t vector, Vec<W> factor) {
    W* at = work_.sums + vector * A::kWide;
    for (std::int64_t d = 0; d < work_.wide; ++d)
      store_lanes(at + d * kBlock, load_lanes<Vec<W>>(at + d * kBlock) * factor);
  }

  // Calls tile(scores, row, vector, key, all_see) for the tiles of the block's keys that somebody sees.
  template <class Tile>
  HONE_INLINE void each_score(std::int64_t block, Tile&& tile) {
    const Factors<U> factors{keys_.block_keys(block), keys_.stride, work_.queries, kBlock};
    each_seen_tile(queries_, block * kBlock,
                   [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                     Vec<W> scores[R][V];
                     product_tile(factors, keys_.depth, row, vector, scores);
                     tile(scores, row, vector);
                   });
  }

  // Scores (less the level) of keys from `key` on, at `row` of their block, to shares; keeps them and their sums.
  template <int R, int V>
  HONE_INLINE void keep_shares(Vec<W> (&x)[R][V], std::int64_t key, std::int64_t row, std::int64_t vector) {
    HONE_UNROLL
    for (int v = 0; v < V; ++v) {
      W* sum = work_.added + (vector + v) * A::kWide;
      auto added = load_lanes<Vec<W>>(sum);
      HONE_UNROLL
      for (int r = 0; r < R; ++r) {
        x[r][v] = exp2_of<kExpDegree<T>>(x[r][v]);
        added += x[r][v];
      }
      store_lanes(sum, added);
    }
    if (dropout_.on()) dropout_.drop(x, key, vector * A::kWide);  // the sums are those of all shares
    U::store_across(x, work_.shares + row / U::kPerUnit * kBlock + vector * A::kWide, kBlock);
  }

  void clear_shares(std::int64_t block) {
    const std::int64_t rows = rows_of(queries_, block * kBlock);
    if (queries_.all_see(block * kBlock, rows, 0, queries_.vectors)) return;
    std::memset(work_.shares, 0, rows / U::kPerUnit * kBlock * sizeof(*work_.shares));
  }
  void start(std::int64_t block, W top) {
    clear_shares(block);
    for (std::int64_t i = 0; i < kBlock; ++i) work_.added[i] = 0, work_.top[i] = top;
  }

  // In one pass with the level as it is; false if that level is too low.
  bool add_quickly(std::int64_t block) {
    start(block, 0);
    each_score(block, [&]<int R, int V>(Vec<W>(&x)[R][V], std::int64_t row, std::int64_t vector) HONE_LAMBDA {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) {
        const auto level = load_lanes<Vec<W>>(work_.level + (vector + v) * A::kWide);
        HONE_UNROLL
        for (int r = 0; r < R; ++r) x[r][v] = scale_(x[r][v]) - level;
      }
      hide(queries_, x, block * kBlock + row, vector);
      raise_top(x, vector);
      keep_shares(x, block * kBlock + row, row, vector);
    });
    Ints<W> high = {};
    for (std::int64_t v = 0; v < queries_.vectors; ++v) high |= load_lanes<Vec<W>>(work_.top + v * A::kWide) > kRoom;
    if (any<W>(high)) return false;
    for (std::int64_t i = 0; i < kBlock; ++i) work_.total[i] += work_.added[i];
    return true;
  }

  template <int R, int V>
  HONE_INLINE void raise_top(Vec<W> (&x)[R][V], std::int64_t vector) {
    HONE_UNROLL
    for (int v = 0; v < V; ++v) {
      auto top = load_lanes<Vec<W>>(work_.top + (vector + v) * A::kWide);
      HONE_UNROLL
      for (int r = 0; r < R; ++r) top = larger(top, x[r][v]);
      store_lanes(work_.top + (vector + v) * A::kWide, top);
    }
  }

  // Finds the greatest scores first and raises the level to them.
  void add_carefully(std::int64_t block, bool fresh) {
    start(block, -static_cast<W>(INFINITY));
    each_score(block, [&]<int R, int V>(Vec<W>(&x)[R][V], std::int64_t row, std::int64_t vector) HONE_LAMBDA {
      HONE_UNROLL
      for (int r = 0; r < R; ++r) {
        HONE_UNROLL
        for (int v = 0; v < V; ++v) x[r][v] = scale_(x[r][v]);
      }
      hide(queries_, x, block * kBlock + row, vector);
      raise_top(x, vector);
      store_tile(x, work_.scores + row * kBlock + vector * A::kWide, kBlock);
    });
    raise_level(fresh);
    each_seen_tile(queries_, block * kBlock,
                   [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                     Vec<W> x[R][V];
                     load_tile(work_.scores + row * kBlock + vector * A::kWide, kBlock, x);
                     HONE_UNROLL
                     for (int v = 0; v < V; ++v) {
                       const auto level = load_lanes<Vec<W>>(work_.level + (vector + v) * A::kWide);
                       HONE_UNROLL
                       for (int r = 0; r < R; ++r) x[r][v] -= level;
                     }
                     keep_shares(x, block * kBlock + row, row, vector);
                   });
    for (std::int64_t i = 0; i < kBlock; ++i) work_.total[i] += work_.added[i];
  }

  void raise_level(bool fresh) {
    for (std::int64_t v = 0; v < queries_.vectors; ++v) {
      W *level = work_.level + v * A::kWide, *total = work_.total + v * A::kWide;
      const auto old = load_lanes<Vec<W>>(level);
      const Vec<W> now = larger(old, load_lanes<Vec<W>>(work_.top + v * A::kWide));
      store_lanes(level, now);
      if (fresh) continue;
      const auto factor = exp2_of<kExpDegree<float>>(old - now);
      store_lanes(total, load_lanes<Vec<W>>(total) * factor);
      scale_sums(v, factor);
    }
  }

  void add_values(std::int64_t block, bool fresh) {
    accumulate_over_keys<T>(queries_, block * kBlock, {keys_.block_values(block), A::kBlockUnits, work_.shares, kBlock},
                            work_.wide, fresh, work_.sums);
  }

  const QueryBlock<T> queries_;
  const LaneDropout<W> dropout_;
  const KeyRoom<T>& keys_;
  const WorkRoom<T>& work_;
  const ScoreScale<W> scale_;
};

template <class T>
void attend(const AttentionShape& shape, HeadRows<const T> q, std::int64_t block, const void* keys, void* work,
            HeadRows<T> y, Wide<T>* lse) {
  const KeyRoom<T> key_room(shape, const_cast<void*>(keys));
  const WorkRoom<T> work_room(shape, work);
  Pass<T> pass(shape, key_room, work_room, block);
  pass.run(q);
  pass.finish(y, lse);
}

}  // namespace

template <class T>
AttentionForward<T> attention_forward() {
  return {key_room<T>, work_room<T>, pack_keys<T>, attend<T>};
}
HONE_INSTANTIATE_KERNELS(AttentionForward, attention_forward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
