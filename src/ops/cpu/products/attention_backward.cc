// Attention backward, block by block; compiled once per instruction set.
//
// With scores[key][query] computed again, shares p = e^(score - lse), and D = sum over d of dy y per query:
//   dv[key][d] = sum p dy,  ds = p (dy v - D),  dk[key][d] = scale sum ds q,  dq[d][query] = scale sum ds k.
// Dropout puts 0 or p / (1 - rate) in p's place in dv, and 0 or dy v / (1 - rate) in dy v's; D holds y, which has it.
#include "ops/cpu/products/attention_blocks-inl.h"

#include <initializer_list>
#include <tuple>

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
struct KeyRoom : HeadSizes<T> {
  using Unit = typename HeadSizes<T>::Unit;
  KeyRoom(const AttentionShape& shape, void* room) : HeadSizes<T>(shape.size), pieces(room) {
    const std::int64_t rows = round_up(shape.keys, kBlock);
    keys = pieces.template take<Unit>(rows * this->stride);
    values = pieces.template take<Unit>(rows * this->stride);
    columns = pieces.template take<Unit>(rows / kBlock * this->wide * this->kBlockUnits);
  }
  Unit* block_columns(std::int64_t block) const { return columns + block * this->wide * this->kBlockUnits; }
  Pieces pieces;
  Unit *keys, *values;  // [key][unit along the head]
  Unit* columns;        // of keys, per block [d][unit across keys]
};

// What is kept of one block of queries.
template <class T>
struct QueryRoom : HeadSizes<T> {
  using W = typename HeadSizes<T>::W;
  using Unit = typename HeadSizes<T>::Unit;
  QueryRoom(const AttentionShape& shape, void* room, std::int64_t block) : HeadSizes<T>(shape.size), pieces(room) {
    place();
    const std::int64_t bytes = pieces.taken();
    blocks = (shape.queries + kBlock - 1) / kBlock * bytes;
    pieces = Pieces(static_cast<char*>(room) + block * bytes);
    place();
  }
  void place() {
    for (Unit** x : {&q_columns, &dy_columns}) *x = pieces.template take<Unit>(this->stride * kBlock);
    for (Unit** x : {&q_across, &dy_across}) *x = pieces.template take<Unit>(this->kBlockUnits * this->wide);
    for (W** x : {&lse, &drop}) *x = pieces.template take<W>(kBlock);
    sums = pieces.template take<W>(this->wide * kBlock);
  }
  Pieces pieces;
  std::int64_t blocks;           // bytes of all blocks
  Unit *q_columns, *dy_columns;  // [unit along the head][query]
  Unit *q_across, *dy_across;    // [unit across queries][d]
  W *lse, *drop;                 // lse to base 2, and D
  W* sums;                       // of dq, [d][query]
};

template <class T>
struct WorkRoom : HeadSizes<T> {
  using W = typename HeadSizes<T>::W;
  using Unit = typename HeadSizes<T>::Unit;
  WorkRoom(const AttentionShape& shape, void* room) : HeadSizes<T>(shape.size), pieces(room) {
    for (Unit** x : {&shares, &slopes, &slopes_across}) *x = pieces.template take<Unit>(kBlock * this->kBlockUnits);
    for (W** x : {&dk, &dv, &turned}) *x = pieces.template take<W>(kBlock * this->wide);
    rows = pieces.template take<Unit>(kBlock * most(this->stride, this->wide));
  }
  Pieces pieces;
  Unit *shares, *slopes;  // p and ds, [key][unit across queries]
  Unit* slopes_across;    // ds, [unit across keys][query]
  W *dk, *dv;             // sums, [key][d]
  W* turned;              // dq, [query][d]
  Unit* rows;             // being packed
};

template <class T>
std::int64_t key_room(const AttentionShape& shape) {
  return KeyRoom<T>(shape, nullptr).pieces.taken();
}
template <class T>
std::int64_t query_room(const AttentionShape& shape) {
  return QueryRoom<T>(shape, nullptr, 0).blocks;
}
template <class T>
std::int64_t work_room(const AttentionShape& shape) {
  return WorkRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
void pack_keys(const AttentionShape& shape, HeadRows<const T> k, HeadRows<const T> v, std::int64_t block, void* keys,
               void* work) {
  const KeyRoom<T> room(shape, keys);
  const std::int64_t first = block * kBlock, count = least(kBlock, shape.keys - first), rows = round_up(count, kGroup);
  k.data += first * k.stride, v.data += first * v.stride;
  pack_rows<T>(k, count, rows, room, room.keys + first * room.stride);
  pack_rows<T>(v, count, rows, room, room.values + first * room.stride);
  pack_transposed<T>(k, count, room, WorkRoom<T>(shape, work).rows, room.block_columns(block));
}

template <class T>
void pack_queries(const AttentionShape& shape, const AttentionOutput<T>& out, std::int64_t block, void* queries,
                  void* work) {
  using A = AttentionTypes<T>;
  const QueryBlock<T> at(shape, block);
  const QueryRoom<T> room(shape, queries, block);
  const WorkRoom<T> work_room(shape, work);
  const auto from = [&](HeadRows<const T> x) { return HeadRows<const T>{x.data + at.first * x.stride, x.stride}; };
  const HeadRows<const T> q = from(out.q), y = from(out.y), dy = from(out.dy);
  const std::int64_t lanes = at.vectors * A::kWide;
  for (const auto& [rows, columns, across] :
       {std::tuple{q, room.q_columns, room.q_across}, std::tuple{dy, room.dy_columns, room.dy_across}}) {
    pack_rows<T>(rows, at.count, lanes, room, work_room.rows);
    transpose(work_room.rows, room.stride, lanes, room.stride, columns, kBlock);
    pack_across<T>(rows, at.count, lanes / A::U::kPerUnit, room, across);
  }
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const bool some = i < at.count;  // no share goes to queries that are not there
    room.lse[i] = some ? out.lse[at.first + i] * static_cast<Wide<T>>(kLog2e) : INFINITY;
    const T *a = y.data + i * y.stride, *b = dy.data + i * dy.stride;
    const auto term = [&](std::int64_t d, auto part) { return load(a + d, part) * load(b + d, part); };
    room.drop[i] = some ? sum_over<Wide<T>>(shape.size, term) : 0;
  }
}

// One block of keys with one block of queries.
template <class T>
class Pair {
 public:
  using A = AttentionTypes<T>;
  using U = typename A::U;
  using W = typename A::W;
  Pair(const AttentionShape& shape, const AttentionPair& pair)
      : seen_(shape, pair.query_block),
        block_(pair.key_block),
        key_(block_ * kBlock),
        keys_(shape, const_cast<void*>(pair.key_room)),
        queries_(shape, pair.query_room, pair.query_block),
        work_(shape, pair.work_room),
        dropout_(share_dropout<W>(shape.dropout, seen_.first)),
        scale_(shape) {}

  void find_slopes() {
    if (!seen_.all_see(key_, rows_of(seen_, key_), 0, seen_.vectors))
      std::memset(work_.slopes_across, 0, A::kBlockUnits * kBlock * sizeof(*work_.slopes_across));
    const std::int64_t at_keys = key_ * keys_.stride;
    const Factors<U> scores{keys_.keys + at_keys, keys_.stride, queries_.q_columns, kBlock},
        slopes{keys_.values + at_keys, keys_.stride, queries_.dy_columns, kBlock};
    const auto tile = [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
      const std::int64_t lane = vector * A::kWide, at = row * A::kBlockUnits + lane / U::kPerUnit;
      W kept[R * V * A::kWide] __attribute__((aligned(64)));
      W turned[R * V * A::kWide] __attribute__((aligned(64)));  // tanh, of a soft cap
      {
        Vec<W> p[R][V];
        product_tile(scores, keys_.depth, row, vector, p);
        if (scale_.capped()) turn(p, turned);
        to_shares(p, row, vector);
        store_tile(p, kept, V * A::kWide);
        if (dropout_.on()) dropout_.drop(p, key_ + row, lane);
        U::store_rows(p, work_.shares + at, A::kBlockUnits);
      }
      Vec<W> ds[R][V], p[R][V];
      product_tile(slopes, keys_.depth, row, vector, ds);
      load_tile(kept, V * A::kWide, p);
      if (dropout_.on()) drop_slopes(ds, key_ + row, lane);
      to_slopes(ds, p, vector);
      if (scale_.capped()) turn_back(ds, turned);
      U::store_rows(ds, work_.slopes + at, A::kBlockUnits);
      U::store_across(ds, work_.slopes_across + row / U::kPerUnit * kBlock + lane, kBlock);
    };
    each_seen_tile(seen_, key_, tile);
  }

  void add_to_keys(bool fresh) {
    const std::int64_t rows = rows_of(seen_, key_), vectors = work_.wide / A::kWide;
    if (fresh)  // keys that the first queries do not see
      for (W* sums : {work_.dk, work_.dv})
        std::memset(sums + rows * work_.wide, 0, (kBlock - rows) * work_.wide * sizeof(W));
    for (std::int64_t group = 0; group < rows; group += kGroup) {
      const std::int64_t from = seen_.first_vector(key_ + group) * A::kWide / U::kPerUnit;
      const std::int64_t to = most(from, seen_.last_vector(key_ + group, kGroup) * A::kWide / U::kPerUnit);
      const auto add = [&](const typename A::Unit* a, const typename A::Unit* b, W* sums) HONE_LAMBDA {
        accumulate<U>({a + group * A::kBlockUnits, A::kBlockUnits, b, work_.wide}, kGroup, 0, vectors, from, to, fresh,
                      sums + group * work_.wide, work_.wide);
      };
      add(work_.shares, queries_.dy_across, work_.dv);
      add(work_.slopes, queries_.q_across, work_.dk);
    }
  }

  void add_to_queries(bool fresh) {
    accumulate_over_keys<T>(seen_, key_, {keys_.block_columns(block_), A::kBlockUnits, work_.slopes_across, kBlock},
                            work_.wide, fresh, queries_.sums);
  }

 private:
  template <int R, int V>
  HONE_INLINE void to_shares(Vec<W> (&x)[R][V], std::int64_t row, std::int64_t vector) {
    HONE_UNROLL
    for (int v = 0; v < V; ++v) {
      const auto lse = load_lanes<Vec<W>>(queries_.lse + (vector + v) * A::kWide);
      HONE_UNROLL
      for (int r = 0; r < R; ++r) x[r][v] = (scale_.capped() ? scale_.of_turned(x[r][v]) : scale_(x[r][v])) - lse;
    }
    hide(seen_, x, key_ + row, vector);
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) x[r][v] = exp2_of<kExpDegree<T>>(x[r][v]);
    }
  }
  // Scores to the tanh of a soft cap, which is kept: its derivative is 1 - tanh^2.
  template <int R, int V>
  HONE_INLINE void turn(Vec<W> (&x)[R][V], W* turned) {
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) x[r][v] = scale_.turned(x[r][v]);
    }
    store_tile(x, turned, V * A::kWide);
  }
  template <int R, int V>
  HONE_INLINE void turn_back(Vec<W> (&ds)[R][V], const W* turned) {
    Vec<W> t[R][V];
    load_tile(turned, V * A::kWide, t);
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) ds[r][v] *= 1 - t[r][v] * t[r][v];
    }
  }
  // dy v of shares that were dropped is nothing, of the others grown by the factor.
  template <int R, int V>
  HONE_INLINE void drop_slopes(Vec<W> (&x)[R][V], std::int64_t key, std::int64_t lane) {
    dropout_.drop(x, key, lane);
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) x[r][v] *= dropout_.factor();
    }
  }
  template <int R, int V>
  HONE_INLINE void to_slopes(Vec<W> (&x)[R][V], const Vec<W> (&p)[R][V], std::int64_t vector) {
    HONE_UNROLL
    for (int v = 0; v < V; ++v) {
      const auto drop = load_lanes<Vec<W>>(queries_.drop + (vector + v) * A::kWide);
      HONE_UNROLL
      for (int r = 0; r < R; ++r) x[r][v] = p[r][v] * (x[r][v] - drop);
    }
  }

  const QueryBlock<T> seen_;
  const std::int64_t block_, key_;
  const KeyRoom<T> keys_;
  const QueryRoom<T> queries_;
  const WorkRoom<T> work_;
  const LaneDropout<W> dropout_;
  const ScoreScale<W> scale_;
};

template <class T>
void add_to_keys(const AttentionShape& shape, const AttentionPair& blocks, bool fresh) {
  Pair<T> pair(shape, blocks);
  pair.find_slopes();
  pair.add_to_keys(fresh);
}
template <class T>
void add_to_queries(const AttentionShape& shape, const AttentionPair& blocks, bool fresh) {
  Pair<T>(shape, blocks).add_to_queries(fresh);
}

template <class T>
void store_rows(const Wide<T>* sums, std::int64_t wide, std::int64_t size, std::int64_t first, std::int64_t count,
                Wide<T> factor, HeadRows<T> to) {
  for (std::int64_t i = 0; i < count; ++i)
    each_vector<Wide<T>>(size, [&](std::int64_t d, auto part) {
      store(to.data + (first + i) * to.stride + d, load(sums + i * wide + d, part) * factor, part);
    });
}

template <class T>
void finish_keys(const AttentionShape& shape, std::int64_t block, const void* work, HeadRows<T> dk, HeadRows<T> dv) {
  const WorkRoom<T> room(shape, const_cast<void*>(work));
  const std::int64_t first = block * kBlock, count = least(kBlock, shape.keys - first);
  store_rows<T>(room.dk, room.wide, room.size, first, count, static_cast<Wide<T>>(shape.scale), dk);
  store_rows<T>(room.dv, room.wide, room.size, first, count, share_dropout<Wide<T>>(shape.dropout, 0).factor(), dv);
}

template <class T>
void finish_queries(const AttentionShape& shape, std::int64_t block, const void* queries, void* work, HeadRows<T> dq) {
  const QueryBlock<T> at(shape, block);
  const QueryRoom<T> room(shape, const_cast<void*>(queries), block);
  const WorkRoom<T> work_room(shape, work);
  transpose(room.sums, kBlock, room.wide, at.vectors * at.kWide, work_room.turned, room.wide);
  store_rows<T>(work_room.turned, room.wide, room.size, at.first, at.count, static_cast<Wide<T>>(shape.scale), dq);
}

}  // namespace

template <class T>
AttentionBackward<T> attention_backward() {
  return {key_room<T>,    query_room<T>,     work_room<T>,   pack_keys<T>,     pack_queries<T>,
          add_to_keys<T>, add_to_queries<T>, finish_keys<T>, finish_queries<T>};
}
HONE_INSTANTIATE_KERNELS(AttentionBackward, attention_backward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
