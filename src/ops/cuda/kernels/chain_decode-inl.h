// Attention of one new token as a step of a chain: a part of chain.cu. As decode.cu's by tensor cores, of older entries
// that were copied ahead, and heads that come as words.

// Through what blocks give one another values, in this launch.
struct Exchange {
  Value* words;
  unsigned long long* parts;
  int turn;
};

// A task of a step: a part of the entries, of heads that go together.
struct DecodePart {
  Decoding a;
  OwnPart own;
  int first_head, part;
  Int count;  // parts that there are
};
HONE_DEVICE Caches caches_of(const DecodeStep& step, const Value* words) {
  Caches made = {};
  made.q = words ? words + step.q_word : nullptr, made.k = step.k, made.v = step.v;
  made.held = step.held, made.window = step.window;
  made.group_apart = step.group_apart, made.entry_apart = step.size;
  made.groups = step.groups, made.shared = step.shared, made.size = step.size, made.least = step.least;
  made.scale = step.scale, made.soft_cap = step.soft_cap, made.sinks = step.sinks;
  return made;
}
// What steps have in common, mostly, and is read once: the number of entries, and the angles, in the block's room.
struct Known {
  const Int* held = nullptr;
  Int newest = 0;
  const Int* angles = nullptr;
  const Wide* cos = nullptr;
};
HONE_DEVICE void know_entries(const DecodeStep& step, Known& known) {
  if (known.held != step.held) known.newest = load_early(known.held = step.held);
}
HONE_DEVICE Int parts_in(const DecodeStep& step, const Known& known) {
  return parts_of(known.newest, step.window, step.least).count;
}
// false: there are fewer parts.
HONE_DEVICE bool part_of(const DecodeStep& step, const Caches& in, const Known& known, int task, DecodePart& part) {
  Results unused;
  part.part = task % step.across, part.count = parts_in(step, known);
  const int heads = task / step.across, cuts = (step.shared + kTileHeads - 1) / kTileHeads;
  part.first_head = heads / cuts * step.shared + heads % cuts * kTileHeads;
  return find_part(in, kTileHeads, {part.part, step.across, heads}, known.newest, part.own, part.a, unused);
}

template <int kSize>
HONE_DEVICE CoreTile<kSize> tile_of_slot(const Decoding& a, const Value* slot, Int first) {
  CoreTile<kSize> tile;
  const int packs = a.size / 8;
  each_place(tile, first, [&](Words& words, Int entry, int pack, bool is_value) {
    const Value* const from = slot + (is_value ? kPieceValues : 0) + (entry - first) * a.size;
    words = words_of(from, pack, entry < a.older && pack < packs);
  });
  return tile;
}
template <int kSize>
HONE_DEVICE void attend_to_slots(const Decoding& a, Ring& ring, CoreSums<kSize>& made) {
  for (Int first = first_of_warp(a); first < a.end; first += tiles_apart<kSize>()) {
    CoreQueries<kSize> q;  // again for each tile: registers are what there is little of
    load_queries(a, q);
    CoreTile<kSize> tile = {};
    if (first < a.older) {
      tile = tile_of_slot<kSize>(a, arrived(ring), first);
      give_back(ring);
    }
    add_tile(a, q, tile, first, made);
  }
}

// What a step's task needs in the block's room, behind one another: heads as they came, as they are turned, and sums.
struct DecodeRoom {
  Value *given, *turned;
  Wide* sums;
};
HONE_DEVICE DecodeRoom decode_room(const ChainRoom& room, int size) {
  Value* const turned = room.rows + (kTileHeads + 2) * size;
  return {room.rows, turned, reinterpret_cast<Wide*>(turned + (kTileHeads + 2) * size)};
}

// The heads' values and, where the newest entry is of the part, that one's, behind them.
HONE_DEVICE void take_heads(const DecodeStep& step, const Value* words, const DecodePart& part, Value* to) {
  const int of_head = step.size / kWidest, heads = part.a.heads;
  const int all = (part.own.has_newest ? heads + 2 : heads) * of_head;
  const Value* const k = words + step.k_word + part.own.group * step.size;
  const Value* const v = words + step.v_word + part.own.group * step.size;
  for (int i = threadIdx.x; i < all; i += kComputing) {
    const int head = i / of_head, pack = i % of_head;
    PackedWords x[1];
    take_words<1>(head < heads ? part.a.q + head * step.size : head == heads ? k : v, pack, of_head, true, x);
    store<kWidest>(to, i, values_of(x[0]));
  }
}

// Of a head of one of several parts, one value beside the turn.
HONE_DEVICE unsigned long long in_turn(Wide x, int turn) {
  union {
    float value;
    unsigned bits;
  } both = {static_cast<float>(x)};
  return static_cast<unsigned long long>(static_cast<unsigned>(turn)) << 32 | both.bits;
}
HONE_DEVICE Wide await_part(const unsigned long long* from, int turn) {
  for (;;) {
    const unsigned long long x = load_part(from);
    union {
      unsigned bits;
      float value;
    } both = {static_cast<unsigned>(x)};
    if (static_cast<int>(x >> 32) == turn) return both.value;
    let_others_go_on();
  }
}
HONE_DEVICE unsigned long long* place_of_part(const DecodeStep& step, const Exchange& by, int head, int part) {
  return by.parts + step.parts_at + (static_cast<Int>(head) * step.across + part) * (step.size + 2);
}
HONE_DEVICE void write_value(const DecodeStep& step, const Exchange& by, int head, int column, const OneValue& all) {
  const int at = head * step.size + column;
  const Value y = value_of(all, sink_of(step.sinks, head));
  store_word(by.words + step.y_word + at, y);
  if (step.y) step.y[at] = y;
}

template <int kSize>
HONE_DEVICE void run_task(const DecodeStep& step, DecodePart& part, const Exchange& by, const ChainRoom& in_block,
                          Known& known, Ring& ring) {
  __shared__ Turns turns;
  Decoding& a = part.a;
  const Caches in = caches_of(step, by.words);
  const DecodeRoom room = decode_room(in_block, step.size);
  if (known.angles != step.angles || known.cos != step.cos) {
    known.angles = step.angles, known.cos = step.cos;
    fill_turns(in, {nullptr, nullptr, step.cos, step.sin, step.angles}, part.own, kComputing, turns);
  }
  take_heads(step, by.words, part, room.given);
  wait_for_computing();
  const Value* const k = room.given + a.heads * a.size;
  turn_new(in, {room.given, k, k + a.size}, part.own, turns, a, kChainWarps, room.turned);
  wait_for_computing();
  a.q = room.turned, a.new_k = room.turned + a.heads * a.size, a.new_v = a.new_k + a.size;
  constexpr int kWarps = CoreBlock<kSize>::kWarps;
  Wide* const sum = room.sums + a.heads * kWarps;
  const CoreRoom<kSize> sums = {room.sums, sum, sum + a.heads * kWarps};
  if (own_warp() < kWarps) {
    CoreSums<kSize> made = no_sums<kSize>();
    attend_to_slots(a, ring, made);
    keep_sums(a, made, sums);
  }
  wait_for_computing();
  join_warps(a, sums, kChainWarps, [&](int head, int column, const OneValue& all) {
    if (part.count == 1) return write_value(step, by, part.first_head + head, column, all);
    unsigned long long* const to = place_of_part(step, by, part.first_head + head, part.part);
    if (column == 0) store_part(to, in_turn(all.largest, by.turn)), store_part(to + 1, in_turn(all.sum, by.turn));
    store_part(to + 2 + column, in_turn(all.y, by.turn));
  });
  wait_for_computing();  // the room has been read
}

// Heads of several parts, which a block joins for each, as join() does.
HONE_DEVICE void join_parts_of(const DecodeStep& step, int count, const Exchange& by) {
  constexpr int kAtOnce = 8;
  __shared__ Wide largest[kMostParts], sum[kMostParts];
  for (int head = blockIdx.x; head < step.groups * step.shared; head += static_cast<int>(gridDim.x)) {
    const int own = static_cast<int>(threadIdx.x), column = own;
    if (own < count) {
      const unsigned long long* const from = place_of_part(step, by, head, own);
      largest[own] = await_part(from, by.turn), sum[own] = await_part(from + 1, by.turn);
    }
    wait_for_computing();
    if (column < step.size) {
      OneValue all = {-infinity(Wide()), 0, 0};
      for (int part = 0; part < count; ++part) all.largest = joined(Larger{}, all.largest, largest[part]);
      for (int first = 0; first < count; first += kAtOnce) {
        Wide y[kAtOnce];
        HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
          y[i] = first + i < count ? await_part(place_of_part(step, by, head, first + i) + 2 + column, by.turn) : 0;
        HONE_UNROLL for (int i = 0; i < kAtOnce; ++i) {
          if (first + i >= count) break;
          const Wide factor = exp2_of(largest[first + i] - origin_of(all.largest));
          all.sum += sum[first + i] * factor;
          all.y += y[i] * factor;
        }
      }
      write_value(step, by, head, column, all);
    }
    wait_for_computing();  // the parts' sums have been read
  }
}

template <int kSize>
HONE_DEVICE void run_decode(const DecodeStep& step, const Exchange& by, const ChainRoom& room, Known& known,
                            Ring& ring) {
  constexpr int kLineValues = kLineBytes / static_cast<int>(sizeof(Value));
  const Caches in = caches_of(step, by.words);
  know_entries(step, known);
  for (int task = blockIdx.x; task < step.across * step.down; task += static_cast<int>(gridDim.x)) {
    DecodePart part;
    if (!part_of(step, in, known, task, part)) continue;
    const int at = static_cast<int>(threadIdx.x) * kLineValues;
    if (at < part.a.heads * step.size) bring_nearer(by.words + step.y_word + part.first_head * step.size + at);
    run_task<kSize>(step, part, by, room, known, ring);
  }
  if (step.across == 1) return;
  if (const int count = static_cast<int>(parts_in(step, known)); count > 1) join_parts_of(step, count, by);
}
