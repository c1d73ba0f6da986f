// What kernels of attention of one new token per row are made of: decode.cu, which says how, and chain.cu; once for
// each type of values.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

constexpr int kDecodeWarps = 4, kMostSize = 256, kMostParts = 64;
// Of the launch's blocks.
HONE_DEVICE int block_warps() { return static_cast<int>(blockDim.x) / kWarp; }

// What a block has to go by: entries [begin, end) of one row and key/value head, and the queries that it attends with.
struct Decoding {
  const Value *q, *k, *v;
  Int stride;  // between entries
  int size, heads;
  Int begin, end;
  Wide scale, soft_cap;
  Int older;  // the end of those that were there before this token: what is behind lies in new_k, new_v, too
  const Value *new_k, *new_v;
};

// The packs of an entry that a thread has: first, first + lanes and so on below packs.
struct Lane {
  int lanes, first, packs;
};
HONE_DEVICE Lane lane_of(int packs) {
  int lanes = 1;
  while (lanes < packs && lanes < kWarp) lanes *= 2;
  return {lanes, static_cast<int>(threadIdx.x) % lanes, packs};
}

// A thread's values of a head.
template <int kCount, class T>
struct OwnPacks {
  static constexpr int kPacks = kMostSize / (kCount * kWarp), kValues = kCount * kPacks;
  Pack<T, kCount> at[kPacks];
};
template <int kCount>
HONE_DEVICE auto own_packs(const Value* from, const Lane& lane, bool there) {
  OwnPacks<kCount, Value> own = {};
  HONE_UNROLL for (int p = 0; p < own.kPacks; ++p) {
    const int pack = lane.first + p * lane.lanes;
    if (there && pack < lane.packs) own.at[p] = load<kCount>(from, pack);
  }
  return own;
}

// A softmax over some entries, relative to 2^largest, and the sum of values that it weighs.
template <int kCount, int kHeads>
struct Attended {
  static constexpr int kAtOnce = kHeads > 4 ? 2 : 4;  // entries whose loads are on their way together
  Wide largest[kHeads], sum[kHeads];
  OwnPacks<kCount, Wide> y[kHeads];
};

// What exponents are relative to: where nothing is above -infinity, to 0.
HONE_DEVICE Wide origin_of(Wide largest) { return largest == -infinity(largest) ? 0 : largest; }

template <int kCount, int kHeads>
HONE_DEVICE void load_queries(const Decoding& a, const Lane& lane, OwnPacks<kCount, Wide> (&q)[kHeads]) {
  const Wide scale = a.soft_cap > 0 ? a.scale / a.soft_cap : a.scale * static_cast<Wide>(kLog2OfE);
  HONE_UNROLL for (int h = 0; h < kHeads; ++h) {
    const auto own = own_packs<kCount>(a.q + h * a.size, lane, h < a.heads);
    HONE_UNROLL for (int p = 0; p < own.kPacks; ++p)
      HONE_UNROLL for (int c = 0; c < kCount; ++c) q[h].at[p].at[c] = widened(own.at[p].at[c]) * scale;
  }
}

// Adds an entry's share, of each head, where it is there.
template <int kCount, int kHeads, int kAtOnce>
HONE_DEVICE void take(Attended<kCount, kHeads>& made, const Wide (&scores)[kHeads][kAtOnce],
                      const OwnPacks<kCount, Value> (&v)[kAtOnce]) {
  HONE_UNROLL for (int h = 0; h < kHeads; ++h) {
    Wide largest = made.largest[h];
    HONE_UNROLL for (int j = 0; j < kAtOnce; ++j) largest = joined(Larger{}, largest, scores[h][j]);
    const Wide origin = origin_of(largest), factor = exp2_of(made.largest[h] - origin);
    Wide weights[kAtOnce];
    made.largest[h] = largest;
    made.sum[h] *= factor;
    HONE_UNROLL for (int j = 0; j < kAtOnce; ++j) made.sum[h] += weights[j] = exp2_of(scores[h][j] - origin);
    HONE_UNROLL for (int p = 0; p < v[0].kPacks; ++p)
      HONE_UNROLL for (int c = 0; c < kCount; ++c) {
        Wide y = made.y[h].at[p].at[c] * factor;
        HONE_UNROLL for (int j = 0; j < kAtOnce; ++j) y += weights[j] * widened(v[j].at[p].at[c]);
        made.y[h].at[p].at[c] = y;
      }
  }
}

// A thread's products of queries and keys, and those of its neighbours.
template <int kCount, int kHeads, int kAtOnce>
HONE_DEVICE void score(const Decoding& a, const Lane& lane, const OwnPacks<kCount, Wide> (&q)[kHeads],
                       const OwnPacks<kCount, Value> (&k)[kAtOnce], Wide (&scores)[kHeads][kAtOnce]) {
  HONE_UNROLL for (int j = 0; j < kAtOnce; ++j)
    HONE_UNROLL for (int h = 0; h < kHeads; ++h) {
      Wide product = 0;
      HONE_UNROLL for (int p = 0; p < k[0].kPacks; ++p)
        HONE_UNROLL for (int c = 0; c < kCount; ++c) product += q[h].at[p].at[c] * widened(k[j].at[p].at[c]);
      scores[h][j] = product;
    }
  for (int away = lane.lanes / 2; away > 0; away /= 2)
    HONE_UNROLL for (int h = 0; h < kHeads; ++h)
      HONE_UNROLL for (int j = 0; j < kAtOnce; ++j) scores[h][j] += __shfl_xor_sync(kAllLanes, scores[h][j], away);
  if (a.soft_cap > 0)
    HONE_UNROLL for (int h = 0; h < kHeads; ++h)
      HONE_UNROLL for (int j = 0; j < kAtOnce; ++j)
        scores[h][j] = tanh_of(scores[h][j]) * (a.soft_cap * static_cast<Wide>(kLog2OfE));
}

// Of the thread's entries; every thread of a warp makes as many steps.
template <int kCount, int kHeads>
HONE_DEVICE void attend(const Decoding& a, const Lane& lane, Attended<kCount, kHeads>& made) {
  constexpr int kAtOnce = Attended<kCount, kHeads>::kAtOnce;
  OwnPacks<kCount, Wide> q[kHeads];
  load_queries(a, lane, q);
  const int own = static_cast<int>(threadIdx.x) / lane.lanes, apart = kDecodeWarps * kWarp / lane.lanes;
  for (Int first = a.begin; first < a.end; first += kAtOnce * apart) {
    OwnPacks<kCount, Value> k[kAtOnce], v[kAtOnce];
    HONE_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      const Int entry = first + j * apart + own;
      k[j] = own_packs<kCount>(a.k + entry * a.stride, lane, entry < a.end);
      v[j] = own_packs<kCount>(a.v + entry * a.stride, lane, entry < a.end);
    }
    Wide scores[kHeads][kAtOnce];
    score(a, lane, q, k, scores);
    HONE_UNROLL for (int j = 0; j < kAtOnce; ++j)
      if (first + j * apart + own >= a.end)
        HONE_UNROLL for (int h = 0; h < kHeads; ++h) scores[h][j] = -infinity(Wide());
    take(made, scores, v);
  }
}

// With those of other lanes of the warp that have the same packs of other entries.
template <int kCount, int kHeads>
HONE_DEVICE void join_warp(const Lane& lane, Attended<kCount, kHeads>& made) {
  const auto from = [](Wide x, int away) { return __shfl_xor_sync(kAllLanes, x, away); };
  for (int away = lane.lanes; away < kWarp; away *= 2)
    HONE_UNROLL for (int h = 0; h < kHeads; ++h) {
      const Wide other = from(made.largest[h], away), largest = joined(Larger{}, made.largest[h], other);
      const Wide factor = exp2_of(made.largest[h] - origin_of(largest)), theirs = exp2_of(other - origin_of(largest));
      made.largest[h] = largest;
      made.sum[h] = made.sum[h] * factor + from(made.sum[h], away) * theirs;
      HONE_UNROLL for (int p = 0; p < made.y[h].kPacks; ++p)
        HONE_UNROLL for (int c = 0; c < kCount; ++c) {
          Wide& y = made.y[h].at[p].at[c];
          y = y * factor + from(y, away) * theirs;
        }
    }
}

// Softmaxes over parts of the entries: of each its largest, its sum and `size` values.
struct Parts {
  const Wide *largest, *sum, *y;
  int count, size;
};
struct OneValue {
  Wide largest, sum, y;
};
// In their order; kAtOnce of them are read together.
template <int kAtOnce>
HONE_DEVICE OneValue join(const Parts& parts, int column) {
  OneValue all = {-infinity(Wide()), 0, 0};
  for (int first = 0; first < parts.count; first += kAtOnce) {
    Wide largest[kAtOnce];
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      largest[i] = first + i < parts.count ? parts.largest[first + i] : -infinity(Wide());
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i) all.largest = joined(Larger{}, all.largest, largest[i]);
  }
  for (int first = 0; first < parts.count; first += kAtOnce) {
    OneValue read[kAtOnce] = {};
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      if (const int part = first + i; part < parts.count)
        read[i] = {parts.largest[part], parts.sum[part], parts.y[static_cast<Int>(part) * parts.size + column]};
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= parts.count) break;
      const Wide factor = exp2_of(read[i].largest - origin_of(all.largest));
      all.sum += read[i].sum * factor;
      all.y += read[i].y * factor;
    }
  }
  return all;
}

// What a head gives: its sink, if there is one, is one more score, whose value is 0. null: there is none.
HONE_DEVICE Value value_of(const OneValue& all, const Value* sink) {
  const Wide score = sink ? widened(*sink) * static_cast<Wide>(kLog2OfE) : -infinity(Wide());
  return rounded<Value>(all.y / (all.sum + exp2_of(score - origin_of(all.largest))));
}
HONE_DEVICE const Value* sink_of(const Value* sinks, Int head) { return sinks ? sinks + head : nullptr; }

// Where a block's results go: those of its first head, others lie further on.
struct Results {
  const Value* sinks;  // null: there are none
  Value* y;            // null: the row has several parts
  Wide *largest, *sum, *parts;
  Int apart;  // from one head's parts to those of the next
};

// A head's result of the block's entries, from those of its warps.
template <int kCount>
HONE_DEVICE void write_head(const Decoding& a, const Results& to, const Lane& lane, int head, Wide own_largest,
                            Wide own_sum, const OwnPacks<kCount, Wide>& own) {
  __shared__ Wide largest[kDecodeWarps], sum[kDecodeWarps], y[kDecodeWarps * kMostSize];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, place = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // the head before has been read
  if (place == 0) largest[warp] = own_largest, sum[warp] = own_sum;
  HONE_UNROLL for (int p = 0; p < own.kPacks; ++p) {
    const int pack = lane.first + p * lane.lanes;
    if (place >= lane.lanes || pack >= lane.packs) continue;
    HONE_UNROLL for (int c = 0; c < kCount; ++c) y[warp * a.size + pack * kCount + c] = own.at[p].at[c];
  }
  __syncthreads();
  for (int column = threadIdx.x; column < a.size; column += blockDim.x) {
    const OneValue all = join<kDecodeWarps>({largest, sum, y, kDecodeWarps, a.size}, column);
    if (to.y) {
      to.y[head * a.size + column] = value_of(all, sink_of(to.sinks, head));
      continue;
    }
    to.parts[head * to.apart * a.size + column] = all.y;
    if (column == 0) to.largest[head * to.apart] = all.largest, to.sum[head * to.apart] = all.sum;
  }
}

template <int kCount, int kHeads>
HONE_DEVICE void decode_part(const Decoding& a, const Results& to) {
  const Lane lane = lane_of(a.size / kCount);
  Attended<kCount, kHeads> made = {};
  HONE_UNROLL for (int h = 0; h < kHeads; ++h) made.largest[h] = -infinity(Wide());
  attend(a, lane, made);
  join_warp(lane, made);
  HONE_UNROLL for (int h = 0; h < kHeads; ++h)
    if (h < a.heads) write_head(a, to, lane, h, made.largest[h], made.sum[h], made.y[h]);
}

// Of at most kHeads.
template <int kCount, int kHeads>
HONE_DEVICE void decode_heads(const Decoding& a, const Results& to) {
  constexpr int kHalf = kHeads / 2;
  if constexpr (kHeads > 1)
    if (a.heads <= kHalf) return decode_heads<kCount, kHalf>(a, to);
  decode_part<kCount, kHeads>(a, to);
}

// A row's entries [begin, end), and in how many parts of at least so many they are cut. That depends on their number
// and the heads' size alone: a row's bits do not on the rows beside it.
struct RowParts {
  Int begin, end, count;
};
HONE_DEVICE RowParts parts_of(Int held, Int window, int least) {
  const Int end = held + 1, begin = window > 0 && end > window ? end - window : 0;
  const Int count = (end - begin + least - 1) / least;
  return {begin, end, count < kMostParts ? count : kMostParts};
}

#include "ops/cuda/kernels/decode_cores-inl.h"

// A token of each row that is not in the cache yet, and by which angles its heads, and the queries, are to be turned. k
// null: it is there, and the queries are turned.
struct NewToken {
  const Value *k, *v;
  const Wide *cos, *sin;
  const Int* angles;  // of each row
};

// Where everything lies, as decode() has it.
struct Caches {
  const Value* q;
  Value *k, *v, *y;
  Wide *largest, *sum, *parts;
  const Int* held;
  Int window, row_apart, group_apart, entry_apart;
  int groups, shared, size, least;
  Wide scale, soft_cap;
  const Value* sinks;  // of a row's heads; null: there are none
};

// What find_part() found.
struct OwnPart {
  int row, group;
  Int newest;  // entry of the row
  bool has_newest;
};

// The angles of the block's row.
struct Turns {
  Wide cos[kMostSize / 2], sin[kMostSize / 2];
};
// By so many threads, which wait for one another then.
HONE_DEVICE void fill_turns(const Caches& in, const NewToken& token, const OwnPart& own, int threads, Turns& turns) {
  const int half = in.size / 2;
  const Int first = load_early(token.angles + own.row) * half;
  for (int at = threadIdx.x; at < half; at += threads)
    turns.cos[at] = load_early(token.cos + first + at), turns.sin[at] = load_early(token.sin + first + at);
}
// Every thread of the block comes here.
HONE_DEVICE const Turns& load_turns(const Caches& in, const NewToken& token, const OwnPart& own) {
  __shared__ Turns turns;
  if (!token.k) return turns;
  fill_turns(in, token, own, blockDim.x, turns);
  __syncthreads();
  return turns;
}

// visit(i, head, pair) for the pairs of heads' values that a lane has on their way together, of which it is the i-th.
constexpr int kHeadsAtOnce = 4, kPairsAtOnce = 2;  // of a warp, and of a lane of each
template <class Visit>
HONE_DEVICE void each_pair(int first_head, int heads, int warps, int first_pair, int half, Visit&& visit) {
  HONE_UNROLL for (int h = 0; h < kHeadsAtOnce; ++h)
    HONE_UNROLL for (int p = 0; p < kPairsAtOnce; ++p)
      if (first_head + h * warps < heads && first_pair + p * kWarp < half)
        visit(h * kPairsAtOnce + p, first_head + h * warps, first_pair + p * kWarp);
}

// A part's queries as they came, and its key/value head's newest entry.
struct NewHeads {
  const Value *q, *k, *v;
};
// Turned, one behind another at `made`, by so many warps: the queries and, if it is of the part, the newest entry,
// which goes to the cache, too, where blocks of other heads of that part write the same.
HONE_DEVICE void turn_new(const Caches& in, const NewHeads& from, const OwnPart& own, const Turns& turns,
                          const Decoding& a, int warps, Value* made) {
  const int half = in.size / 2, key = a.heads;  // key and value are behind the queries
  const int heads = own.has_newest ? a.heads + 2 : a.heads;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const Int to = own.row * in.row_apart + own.group * in.group_apart + own.newest * in.entry_apart;
  for (int first_head = warp; first_head < heads; first_head += kHeadsAtOnce * warps)
    for (int first_pair = lane; first_pair < half; first_pair += kPairsAtOnce * kWarp) {
      Value first[kHeadsAtOnce * kPairsAtOnce] = {}, second[kHeadsAtOnce * kPairsAtOnce] = {};
      each_pair(first_head, heads, warps, first_pair, half, [&](int i, int head, int at) {
        const Value* const x = head < key ? from.q + head * in.size : head == key ? from.k : from.v;
        first[i] = x[at], second[i] = x[at + half];
      });
      each_pair(first_head, heads, warps, first_pair, half, [&](int i, int head, int at) {
        if (head <= key) rotate_pair(first[i], second[i], turns.cos[at], turns.sin[at]);
        made[head * in.size + at] = first[i], made[head * in.size + at + half] = second[i];
        if (head < key) return;
        Value* const entry = (head == key ? in.k : in.v) + to;
        entry[at] = first[i], entry[at + half] = second[i];
      });
    }
}

// In the block's room. Every thread of the block comes here.
HONE_DEVICE void take_new(const Caches& in, const NewToken& token, const OwnPart& own, const Turns& turns,
                          Decoding& a) {
  using Packed = Pack<Value, Widest<Value>::kCount>;
  constexpr int kMostBytes = 4096 + 2 * kMostSize * sizeof(Value);  // of the heads that go together, and of the entry
  if (!token.k) return;
  __shared__ Packed room[kMostBytes / sizeof(Packed)];
  Value* const made = room[0].at;
  const Int from = (static_cast<Int>(own.row) * in.groups + own.group) * in.size;
  turn_new(in, {a.q, token.k + from, token.v + from}, own, turns, a, block_warps(), made);
  __syncthreads();
  a.q = made, a.new_k = made + a.heads * in.size, a.new_v = a.new_k + in.size;
}

// Part `part` of `across` of a row, of the heads that go together with number `heads` among all rows'.
struct Task {
  int part, across, heads;
};
HONE_DEVICE int row_of(const Caches& in, int together, const Task& task) {
  return task.heads / ((in.shared + together - 1) / together) / in.groups;
}
// Of heads that go `together`, of a row that holds entries as far as `newest`: false, the row has fewer parts.
HONE_DEVICE bool find_part(const Caches& in, int together, const Task& task, Int newest, OwnPart& own, Decoding& a,
                           Results& to) {
  const int cuts = (in.shared + together - 1) / together, part = task.part, cut = task.heads % cuts,
            group = task.heads / cuts % in.groups, row = row_of(in, together, task);
  const RowParts row_has = parts_of(newest, in.window, in.least);
  if (part >= row_has.count) return false;
  const Int each = (row_has.end - row_has.begin + row_has.count - 1) / row_has.count;
  const Int begin = row_has.begin + part * each;
  const int first = cut * together;
  const bool is_last = part + 1 == row_has.count;
  const Int head = (static_cast<Int>(row) * in.groups + group) * in.shared + first, of_part = head * task.across + part,
            cache = row * in.row_apart + group * in.group_apart;
  a = {in.q + head * in.size,
       in.k + cache,
       in.v + cache,
       in.entry_apart,
       in.size,
       in.shared - first < together ? in.shared - first : together,
       begin,
       is_last ? row_has.end : begin + each,
       in.scale,
       in.soft_cap,
       is_last ? newest : begin + each,
       in.k + cache + newest * in.entry_apart,
       in.v + cache + newest * in.entry_apart};
  own = {row, group, newest, is_last};
  to = {sink_of(in.sinks, static_cast<Int>(group) * in.shared + first),
        row_has.count == 1 ? in.y + head * in.size : nullptr,
        in.largest + of_part,
        in.sum + of_part,
        in.parts + of_part * in.size,
        task.across};
  return true;
}

// The block's.
HONE_DEVICE bool find_own_part(const Caches& in, int together, OwnPart& own, Decoding& a, Results& to) {
  const Task task = {static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), static_cast<int>(blockIdx.y)};
  return find_part(in, together, task, load_early(in.held + row_of(in, together, task)), own, a, to);
}
