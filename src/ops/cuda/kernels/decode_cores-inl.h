// Attention of one new token by tensor cores, of values of 16 bits: a part of decode.cu, for each type of values once.
//
// Up to kTileHeads query heads that share entries are multiplied with kTileEntries of them at a time. Values go into a
// product in the order in which lanes read them, of all its factors.

constexpr int kTileHeads = 16, kTileEntries = 16;

struct Words {
  unsigned at[4];  // eight values
};
HONE_DEVICE Words words_of(const Pack<unsigned, 4>& read) {
  return {{read.at[0], read.at[1], read.at[2], read.at[3]}};
}
HONE_DEVICE Words words_of(const Value* from, int pack, bool there) {
  return there ? words_of(load<4>(reinterpret_cast<const unsigned*>(from), pack)) : Words{};
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
// A lane's places in a tile: fill(words, entry, pack, whether a value's) for each.
template <int kSize, class Fill>
HONE_DEVICE void each_place(CoreTile<kSize>& tile, Int first, Fill&& fill) {
  const CoreLane lane = core_lane();
  HONE_UNROLL for (int half = 0; half < 2; ++half)
    HONE_UNROLL for (int c = 0; c < kSize / 32; ++c)
      fill(tile.k[half][c], first + 8 * half + lane.group, 4 * c + lane.place, false);
  HONE_UNROLL for (int e = 0; e < 4; ++e)
    HONE_UNROLL for (int c = 0; c < kSize / 64; ++c)
      fill(tile.v[e][c], first + 2 * lane.place + e % 2 + e / 2 * 8, 8 * c + lane.group, true);
}
// Of the older entries; zeros where there are none, or no values.
template <int kSize>
HONE_DEVICE void load_tile(CoreTile<kSize>& tile, const Decoding& a, Int first) {
  const int packs = a.size / 8;
  each_place(tile, first, [&](Words& words, Int entry, int pack, bool is_value) {
    const auto* const from = reinterpret_cast<const unsigned*>((is_value ? a.v : a.k) + entry * a.stride);
    words = entry < a.older && pack < packs ? words_of(load_early(from, pack)) : Words{};
  });
}
// The newest one, if it is of the tile.
template <int kSize>
HONE_DEVICE void add_newest(CoreTile<kSize>& tile, const Decoding& a, Int first) {
  if (a.older == a.end || a.older >= first + kTileEntries) return;  // it is the last one
  const int packs = a.size / 8;
  each_place(tile, first, [&](Words& words, Int entry, int pack, bool is_value) {
    if (entry == a.older && pack < packs) words = words_of(is_value ? a.new_v : a.new_k, pack, true);
  });
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

// With the more warps fewer entries are one after another; so many, of their registers, leave room for blocks of the
// products before and after, which are there early, then.
template <int kSize>
struct CoreBlock {
  static constexpr int kWarps = kSize > 64 ? 4 : 8;
};
HONE_DEVICE Int first_of_warp(const Decoding& a) {
  return a.begin + static_cast<int>(threadIdx.x) / kWarp * kTileEntries;
}

template <int kSize>
HONE_DEVICE constexpr int tiles_apart() {
  return CoreBlock<kSize>::kWarps * kTileEntries;
}

template <int kSize>
HONE_DEVICE void load_queries(const Decoding& a, CoreQueries<kSize>& q) {
  const CoreLane lane = core_lane();
  HONE_UNROLL for (int row = 0; row < 2; ++row)
    HONE_UNROLL for (int c = 0; c < kSize / 32; ++c) {
      const int head = lane.group + 8 * row, pack = 4 * c + lane.place;
      q.at[row][c] = words_of(a.q + head * a.size, pack, head < a.heads && pack < a.size / 8);
    }
}
template <int kSize>
HONE_DEVICE CoreSums<kSize> no_sums() {
  CoreSums<kSize> made = {};
  made.largest[0] = made.largest[1] = -infinity(Wide());
  return made;
}
// A tile of older entries, and the newest one, if it is of it.
template <int kSize>
HONE_DEVICE void add_tile(const Decoding& a, const CoreQueries<kSize>& q, CoreTile<kSize>& tile, Int first,
                          CoreSums<kSize>& made) {
  float scores[2][4];
  add_newest(tile, a, first);
  score_tile(a, q, tile, first, scores);
  weigh(made, scores);
  add_values(made, tile, scores);
}
// Of the warp's tiles, of which the first one is there.
template <int kSize>
HONE_DEVICE void attend_by_cores(const Decoding& a, CoreTile<kSize>& tile, CoreSums<kSize>& made) {
  CoreQueries<kSize> q;
  load_queries(a, q);
  for (Int first = first_of_warp(a); first < a.end;) {
    add_tile(a, q, tile, first, made);
    first += tiles_apart<kSize>();
    if (first < a.end) load_tile(tile, a, first);
  }
}

// Where a head's column is kept, so that what a warp's lanes write at once lies in different banks: the four that share
// a head side by side, heads four values apart.
HONE_DEVICE int place_of_column(int column) {
  const int j = column / 64 * 8 + column % 8, pair = column % 64 / 8;
  return (2 * j + pair % 2) * 4 + pair / 2;
}

// What warps have added up, [heads, kWarps] and of each head and warp kApart values.
template <int kSize>
struct CoreRoom {
  static constexpr int kApart = kSize + 1;  // from one warp's values of a head to the next one's
  Wide *largest, *sum, *y;
};
template <int kSize>
HONE_DEVICE void keep_sums(const Decoding& a, CoreSums<kSize>& made, const CoreRoom<kSize>& room) {
  constexpr int kWarps = CoreBlock<kSize>::kWarps;
  const CoreLane lane = core_lane();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  HONE_UNROLL for (int row = 0; row < 2; ++row) {
    HONE_UNROLL for (int away = 1; away < 4; away *= 2)
      made.sum[row] += __shfl_xor_sync(kAllLanes, made.sum[row], away);
    const int head = lane.group + 8 * row, place = head * kWarps + warp;
    if (head >= a.heads) continue;
    if (lane.place == 0) room.largest[place] = made.largest[row], room.sum[place] = made.sum[row];
    HONE_UNROLL for (int j = 0; j < kSize / 8; ++j)
      HONE_UNROLL for (int c = 0; c < 2; ++c) {
        const int column = j / 8 * 64 + (2 * lane.place + c) * 8 + j % 8;
        if (column < a.size) room.y[place * room.kApart + place_of_column(column)] = made.y[j][2 * row + c];
      }
  }
}
// write(head, column, what all warps give) by so many warps.
template <int kSize, class Write>
HONE_DEVICE void join_warps(const Decoding& a, const CoreRoom<kSize>& room, int warps, Write&& write) {
  constexpr int kWarps = CoreBlock<kSize>::kWarps;
  for (int head = static_cast<int>(threadIdx.x) / kWarp; head < a.heads; head += warps) {
    const int first = head * kWarps;
    const Parts of_warps = {room.largest + first, room.sum + first, room.y + first * room.kApart, kWarps, room.kApart};
    HONE_UNROLL for (int i = 0; i < kSize / kWarp; ++i) {
      const int column = i * kWarp + static_cast<int>(threadIdx.x) % kWarp;
      if (column < a.size) write(head, column, join<kWarps>(of_warps, place_of_column(column)));
    }
  }
}

template <int kSize>
HONE_DEVICE void decode_by_cores(const Decoding& a, CoreTile<kSize>& tile, const Results& to) {
  constexpr int kWarps = CoreBlock<kSize>::kWarps;
  __shared__ Wide largest[kTileHeads * kWarps], sum[kTileHeads * kWarps];
  HONE_SHARED_ROOM(Wide, y);
  const CoreRoom<kSize> room = {largest, sum, y};
  CoreSums<kSize> made = no_sums<kSize>();
  attend_by_cores(a, tile, made);
  keep_sums(a, made, room);
  __syncthreads();
  join_warps(a, room, kWarps, [&](int head, int column, const OneValue& all) {
    if (to.y) {
      to.y[head * a.size + column] = value_of(all, sink_of(to.sinks, head));
      return;
    }
    to.parts[head * to.apart * a.size + column] = all.y;
    if (column == 0) to.largest[head * to.apart] = all.largest, to.sum[head * to.apart] = all.sum;
  });
}
