// Attention of one new token per row against the row's cache, as flash-decoding has it: blocks share a row's entries in
// parts, which a second kernel joins in their order.
//
// An entry is read once for all the query heads that share it, by a few neighbours in a warp, each of which has some
// packs of its key and of its value. Exponents are of 2: what is missing of e is in the scale.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

constexpr int kDecodeWarps = 4, kMostSize = 256, kLeastEntries = 128, kMostParts = 64;

// What a block has to go by: entries [begin, end) of one row and key/value head, and the queries that it attends with.
struct Decoding {
  const Value *q, *k, *v;
  Int stride;  // between entries
  int size, heads;
  Int begin, end;
  Wide scale, soft_cap;
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

// Where a block's results go: those of its first head, others lie further on.
struct Results {
  Value* y;  // null: the row has several parts
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
      to.y[head * a.size + column] = rounded<Value>(all.y / all.sum);
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

// A row's entries [begin, end), and in how many parts they are cut. That depends on their number alone: a row's bits do
// not on the rows beside it.
struct RowParts {
  Int begin, end, count;
};
HONE_DEVICE RowParts parts_of(Int held, Int window) {
  const Int end = held + 1, begin = window > 0 && end > window ? end - window : 0;
  const Int count = (end - begin + kLeastEntries - 1) / kLeastEntries;
  return {begin, end, count < kMostParts ? count : kMostParts};
}

// By tensor cores, of values of 16 bits: up to kTileHeads query heads that share entries are multiplied with
// kTileEntries of them at a time. Values go into a product in the order in which lanes read them, of all its factors.

constexpr int kTileHeads = 16, kTileEntries = 16;

struct Words {
  unsigned at[4];  // eight values
};
HONE_DEVICE Words words_of(const Value* from, int pack, bool there) {
  if (!there) return {};
  const Pack<unsigned, 4> read = load<4>(reinterpret_cast<const unsigned*>(from), pack);
  return {{read.at[0], read.at[1], read.at[2], read.at[3]}};
}
// A lane's place in a tile, as multiply_add() has it: of four lanes, and which of them.
struct CoreLane {
  int group, place;
};
HONE_DEVICE CoreLane core_lane() {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return {lane / 4, lane % 4};
}

// Of a warp's heads (rows `group` and `group` + 8 are a lane's): softmaxes so far and the values that they weigh, 2
// `place` and the next pack of eight of each 64.
template <int kSize>
struct CoreSums {
  Wide largest[2], sum[2];
  float y[kSize / 8][4];
};

template <int kSize>
struct CoreTile {
  Words k[2][kSize / 32], v[4][kSize / 64];
};
// Zeros where there are no entries, or no values.
template <int kSize>
HONE_DEVICE void load_tile(CoreTile<kSize>& tile, const Decoding& a, Int first) {
  const CoreLane lane = core_lane();
  const int packs = a.size / 8;
  HONE_UNROLL for (int half = 0; half < 2; ++half) {
    const Int entry = first + 8 * half + lane.group;
    HONE_UNROLL for (int c = 0; c < kSize / 32; ++c) {
      const int pack = 4 * c + lane.place;
      tile.k[half][c] = words_of(a.k + entry * a.stride, pack, entry < a.end && pack < packs);
    }
  }
  HONE_UNROLL for (int e = 0; e < 4; ++e) {
    const Int entry = first + 2 * lane.place + e % 2 + e / 2 * 8;
    HONE_UNROLL for (int c = 0; c < kSize / 64; ++c) {
      const int pack = 8 * c + lane.group;
      tile.v[e][c] = words_of(a.v + entry * a.stride, pack, entry < a.end && pack < packs);
    }
  }
}

template <int kSize>
struct CoreQueries {
  Words at[2][kSize / 32];  // of rows `group` and `group` + 8
};

// The scores of a tile's entries, in exponents of 2; -infinity where there are none.
template <int kSize>
HONE_DEVICE void score_tile(const Decoding& a, const CoreQueries<kSize>& q, const CoreTile<kSize>& tile, Int first,
                            float (&scores)[2][4]) {
  HONE_UNROLL for (int half = 0; half < 2; ++half) {
    HONE_UNROLL for (int i = 0; i < 4; ++i) scores[half][i] = 0;
    HONE_UNROLL for (int c = 0; c < kSize / 32; ++c)
      HONE_UNROLL for (int s = 0; s < 4; s += 2) {
        const unsigned left[4] = {q.at[0][c].at[s], q.at[1][c].at[s], q.at[0][c].at[s + 1], q.at[1][c].at[s + 1]};
        multiply_add(Value{}, scores[half], left, tile.k[half][c].at[s], tile.k[half][c].at[s + 1]);
      }
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      float& score = scores[half][i];
      if (a.soft_cap > 0)
        score = tanh_of(score * (a.scale / a.soft_cap)) * (a.soft_cap * static_cast<float>(kLog2OfE));
      else
        score *= a.scale * static_cast<float>(kLog2OfE);
      if (first + 8 * half + 2 * core_lane().place + i % 2 >= a.end) score = -infinity(0.0f);
    }
  }
}

// Scores become weights; what was added before is made relative to what is the largest now.
template <int kSize>
HONE_DEVICE void weigh(CoreSums<kSize>& made, float (&scores)[2][4]) {
  HONE_UNROLL for (int row = 0; row < 2; ++row) {
    float largest = made.largest[row];
    HONE_UNROLL for (int i = 0; i < 4; ++i) largest = joined(Larger{}, largest, scores[i / 2][2 * row + i % 2]);
    HONE_UNROLL for (int away = 1; away < 4; away *= 2)
      largest = joined(Larger{}, largest, __shfl_xor_sync(kAllLanes, largest, away));
    const float origin = origin_of(largest), factor = exp2_of(made.largest[row] - origin);
    made.largest[row] = largest;
    made.sum[row] *= factor;
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      float& weight = scores[i / 2][2 * row + i % 2];
      made.sum[row] += weight = exp2_of(weight - origin);
    }
    HONE_UNROLL for (int j = 0; j < kSize / 8; ++j)
      HONE_UNROLL for (int c = 0; c < 2; ++c) made.y[j][2 * row + c] *= factor;
  }
}

// The lower, or the higher, values of two words.
HONE_DEVICE unsigned lower(unsigned first, unsigned second) { return (first & 0xffffu) | second << 16; }
HONE_DEVICE unsigned higher(unsigned first, unsigned second) { return first >> 16 | (second & 0xffff0000u); }

template <int kSize>
HONE_DEVICE void add_values(CoreSums<kSize>& made, const CoreTile<kSize>& tile, const float (&weights)[2][4]) {
  unsigned left[4];
  HONE_UNROLL for (int i = 0; i < 4; ++i)
    left[i] = both(Value{}, weights[i / 2][i % 2 * 2], weights[i / 2][i % 2 * 2 + 1]);
  HONE_UNROLL for (int c = 0; c < kSize / 64; ++c)
    HONE_UNROLL for (int w = 0; w < 4; ++w) {
      const unsigned of[4] = {tile.v[0][c].at[w], tile.v[1][c].at[w], tile.v[2][c].at[w], tile.v[3][c].at[w]};
      multiply_add(Value{}, made.y[8 * c + 2 * w], left, lower(of[0], of[1]), lower(of[2], of[3]));
      multiply_add(Value{}, made.y[8 * c + 2 * w + 1], left, higher(of[0], of[1]), higher(of[2], of[3]));
    }
}

template <int kSize>
struct CoreStep {
  static constexpr int kTogether = kSize > 64 ? 1 : 2;  // tiles whose loads are on their way together
  static constexpr int kEntries = kTogether * kTileEntries;
};
// What the warp reads first comes nearer, while there is no query yet.
template <int kSize>
HONE_DEVICE void ask_for_first(const Decoding& a) {
  constexpr int kLineValues = kLineBytes / sizeof(Value);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lines = (a.size + kLineValues - 1) / kLineValues;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < CoreStep<kSize>::kEntries * lines; i += kWarp) {
    const Int entry = a.begin + warp * CoreStep<kSize>::kEntries + i / lines;
    if (entry >= a.end) continue;
    bring_nearer(a.k + entry * a.stride + i % lines * kLineValues);
    bring_nearer(a.v + entry * a.stride + i % lines * kLineValues);
  }
}

// Of the warp's tiles.
template <int kSize>
HONE_DEVICE void attend_by_cores(const Decoding& a, CoreSums<kSize>& made) {
  constexpr int kTogether = CoreStep<kSize>::kTogether, kStep = CoreStep<kSize>::kEntries;
  const CoreLane lane = core_lane();
  CoreQueries<kSize> q;
  HONE_UNROLL for (int row = 0; row < 2; ++row)
    HONE_UNROLL for (int c = 0; c < kSize / 32; ++c) {
      const int head = lane.group + 8 * row, pack = 4 * c + lane.place;
      q.at[row][c] = words_of(a.q + head * a.size, pack, head < a.heads && pack < a.size / 8);
    }
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (Int first = a.begin + warp * kStep; first < a.end; first += kDecodeWarps * kStep) {
    CoreTile<kSize> tiles[kTogether];
    HONE_UNROLL for (int i = 0; i < kTogether; ++i) load_tile(tiles[i], a, first + i * kTileEntries);
    HONE_UNROLL for (int i = 0; i < kTogether; ++i) {
      float scores[2][4];
      score_tile(a, q, tiles[i], first + i * kTileEntries, scores);
      weigh(made, scores);
      add_values(made, tiles[i], scores);
    }
  }
}

// Where a head's column is kept, so that what a warp's lanes write at once lies in different banks: the four that share
// a head side by side, heads four values apart.
HONE_DEVICE int place_of_column(int column) {
  const int j = column / 64 * 8 + column % 8, pair = column % 64 / 8;
  return (2 * j + pair % 2) * 4 + pair / 2;
}

template <int kSize>
HONE_DEVICE void decode_by_cores(const Decoding& a, const Results& to) {
  constexpr int kApart = kSize + 1;  // from one warp's values of a head to the next one's
  __shared__ Wide largest[kTileHeads * kDecodeWarps], sum[kTileHeads * kDecodeWarps],
      y[kTileHeads * kDecodeWarps * kApart];
  CoreSums<kSize> made = {};
  made.largest[0] = made.largest[1] = -infinity(Wide());
  attend_by_cores(a, made);
  const CoreLane lane = core_lane();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  HONE_UNROLL for (int row = 0; row < 2; ++row) {
    HONE_UNROLL for (int away = 1; away < 4; away *= 2)
      made.sum[row] += __shfl_xor_sync(kAllLanes, made.sum[row], away);
    const int head = lane.group + 8 * row, place = head * kDecodeWarps + warp;
    if (head >= a.heads) continue;
    if (lane.place == 0) largest[place] = made.largest[row], sum[place] = made.sum[row];
    HONE_UNROLL for (int j = 0; j < kSize / 8; ++j)
      HONE_UNROLL for (int c = 0; c < 2; ++c) {
        const int column = j / 8 * 64 + (2 * lane.place + c) * 8 + j % 8;
        if (column < a.size) y[place * kApart + place_of_column(column)] = made.y[j][2 * row + c];
      }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < a.heads * a.size; i += blockDim.x) {
    const int head = i / a.size, column = i % a.size, first = head * kDecodeWarps;
    const OneValue all = join<kDecodeWarps>({largest + first, sum + first, y + first * kApart, kDecodeWarps, kApart},
                                            place_of_column(column));
    if (to.y) {
      to.y[i] = rounded<Value>(all.y / all.sum);
      continue;
    }
    to.parts[head * to.apart * a.size + column] = all.y;
    if (column == 0) to.largest[head * to.apart] = all.largest, to.sum[head * to.apart] = all.sum;
  }
}

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
  int groups, shared, size;
  Wide scale, soft_cap;
};

// A head's values `at` and `half` behind it.
HONE_DEVICE void rotate_values(const Value* from, Value* to, int at, int half, Wide cos, Wide sin) {
  Value first = from[at], second = from[at + half];
  rotate_pair(first, second, cos, sin);
  to[at] = first, to[at + half] = second;
}

// What find_part() found.
struct OwnPart {
  int row, group;
  Int newest;  // entry of the row
  bool has_newest;
};

// The block's queries, turned, and the newest entry, if it is of the block's part. Blocks of other heads of that part
// write the same there.
HONE_DEVICE void take_new(const Caches& in, const NewToken& token, const OwnPart& own, Decoding& a) {
  using Packed = Pack<Value, Widest<Value>::kCount>;
  constexpr int kMostBytes = 4096;  // of the heads that go together
  if (!token.k) return;
  __shared__ Packed room[kMostBytes / sizeof(Packed)];
  Value* const queries = room[0].at;
  const int half = in.size / 2;
  const Wide *cos = token.cos + token.angles[own.row] * half, *sin = token.sin + token.angles[own.row] * half;
  for (int i = threadIdx.x; i < a.heads * half; i += blockDim.x) {
    const int first = i / half * in.size, at = i % half;
    rotate_values(a.q + first, queries + first, at, half, cos[at], sin[at]);
  }
  if (own.has_newest) {
    const Int from = (static_cast<Int>(own.row) * in.groups + own.group) * in.size;
    const Int to = own.row * in.row_apart + own.group * in.group_apart + own.newest * in.entry_apart;
    for (int at = threadIdx.x; at < half; at += blockDim.x)
      rotate_values(token.k + from, in.k + to, at, half, cos[at], sin[at]);
    for (int at = threadIdx.x; at < in.size; at += blockDim.x) in.v[to + at] = token.v[from + at];
  }
  __syncthreads();
  a.q = queries;
}

// Of a block whose heads go `together`: false, it has nothing to do.
HONE_DEVICE bool find_part(const Caches& in, int together, OwnPart& own, Decoding& a, Results& to) {
  const int cuts = (in.shared + together - 1) / together, part = blockIdx.x, cut = blockIdx.y % cuts,
            group = blockIdx.y / cuts % in.groups, row = blockIdx.y / cuts / in.groups;
  const RowParts row_has = parts_of(in.held[row], in.window);
  if (part >= row_has.count) return false;
  const Int each = (row_has.end - row_has.begin + row_has.count - 1) / row_has.count;
  const Int begin = row_has.begin + part * each;
  const int first = cut * together;
  const Int head = (static_cast<Int>(row) * in.groups + group) * in.shared + first, of_part = head * gridDim.x + part,
            cache = row * in.row_apart + group * in.group_apart;
  a = {in.q + head * in.size,
       in.k + cache,
       in.v + cache,
       in.entry_apart,
       in.size,
       in.shared - first < together ? in.shared - first : together,
       begin,
       part + 1 < row_has.count ? begin + each : row_has.end,
       in.scale,
       in.soft_cap};
  own = {row, group, in.held[row], part + 1 == row_has.count};
  to = {row_has.count == 1 ? in.y + head * in.size : nullptr, in.largest + of_part, in.sum + of_part,
        in.parts + of_part * in.size, gridDim.x};
  return true;
}

template <int kSize, class T>
HONE_DEVICE void decode_caches(T, const Caches& in, const NewToken& token) {
  if constexpr (sizeof(T) == 2) {
    Decoding a;
    Results to;
    OwnPart own;
    if (!find_part(in, kTileHeads, own, a, to)) return;
    ask_for_first<kSize>(a);
    take_new(in, token, own, a);
    decode_by_cores<kSize>(a, to);
  }
}
template <int kCount>
HONE_DEVICE void decode_plainly(const Caches& in, const NewToken& token) {
  Decoding a;
  Results to;
  OwnPart own;
  if (!find_part(in, kCount, own, a, to)) return;
  take_new(in, token, own, a);
  decode_heads<kCount, kCount>(a, to);
}

// q, y: [rows, groups, shared, size]; k, v: entries of rows and groups, the key/value heads, that lie so far apart; the
// newest one of a row is entry held; largest, sum, parts: [rows, groups, shared, gridDim.x (, size)]. A block is a part
// of a row's entries (x) and those of its heads (y) that go together: as many as values in an access. new_k and the
// like: NewToken; [rows, groups, size].
#define HONE_DECODE(name, body)                                                                                        \
  HONE_KERNEL_OF(kDecodeWarps* kWarp)                                                                                  \
  name(const Value* q, Value* k, Value* v, Value* y, Wide* largest, Wide* sum, Wide* parts, const Int* held,           \
       Int window, Int row_apart, Int group_apart, Int entry_apart, int groups, int shared, int size, double scale,    \
       double soft_cap, const Value* new_k, const Value* new_v, const Wide* cos, const Wide* sin, const Int* angles,   \
       int wide) {                                                                                                     \
    let_next_begin();                                                                                                  \
    wait_for_before();                                                                                                 \
    const Caches in = {q, k, v, y, largest, sum, parts, held, window, row_apart, group_apart, entry_apart, groups,     \
                       shared, size, static_cast<Wide>(scale), static_cast<Wide>(soft_cap)};                           \
    const NewToken token = {new_k, new_v, cos, sin, angles};                                                           \
    static_cast<void>(wide); /* tensor cores take whole packs alone */                                                 \
    body;                                                                                                              \
  }
HONE_DECODE(decode, wide ? decode_plainly<Widest<Value>::kCount>(in, token) : decode_plainly<1>(in, token))
// The same by tensor cores: of 16 bits, up to so many values of a head, in whole packs; kTileHeads heads go together.
HONE_DECODE(decode_64, decode_caches<64>(Value{}, in, token))
HONE_DECODE(decode_128, decode_caches<128>(Value{}, in, token))

// A block per query head of a row; most: parts that there is room for.
HONE_KERNEL_OF(kMostSize)
join_parts(Value* y, const Wide* largest, const Wide* sum, const Wide* parts, const Int* held, Int window,
           int heads, int size, int most) {
  let_next_begin();
  wait_for_before();
  const Int head = blockIdx.x, at = head * most;
  const int count = static_cast<int>(parts_of(held[head / heads], window).count), column = threadIdx.x;
  if (count == 1 || column >= size) return;
  const OneValue all = join<16>({largest + at, sum + at, parts + at * size, count, size}, column);
  y[head * size + column] = rounded<Value>(all.y / all.sum);
}
