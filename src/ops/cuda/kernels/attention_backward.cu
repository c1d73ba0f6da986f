// Gradients of attention within documents, the same bits every time, by what tensor cores of GPUs of 9.0 read
// themselves.
//
// Blocks that add to the same gradient would do so in an order that timing decides, or wait for one another. So one
// kernel has keys and goes through the queries that see them, and another has queries and goes through the keys that
// they see: scores and their slopes are computed twice, and each gradient is one block's sum in registers, with no
// memory for parts. What a block has is called its own, what it goes through the other; seen so, both do the same:
//
//   weights = exp2(own_0 other_0^T scale log2(e) - exponent)       slopes = weights * (own_1 other_1^T - mean)
//   of own_0: slopes other_0 scale                                 of own_1, where keys are own: weights other_1
//
// with own_0, own_1 keys and values or queries and their outputs' gradients. A query's exponent is that of its
// softmax's sum, its mean what its weights give of own_1 other_1^T, which is its output times that one's gradient.
//
// Two groups of four warps have 64 own tokens each and go through the other ones, by blocks of 64. A third group copies
// these ahead; gates say what has come and what has been read, so that no group waits for another one's step. A group
// asks for the next block's scores before it makes slopes of this one's, and for its sums without waiting for them:
// tensor cores have two products to make while threads compute weights, and one or two while they compute slopes. Rows
// of 64 values, or twice that, are filled up with zeros; so are blocks behind a document's end.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/squares.h"
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kOwnLines = kGroups * kSide;

// exponents[h][n], means[h][n] of queries side by side. A warp takes four rows of a head's values at a time.
template <class T>
HONE_DEVICE void describe_query(const T* y, const T* dy, const float* lse, float* described, Int tokens, int heads,
                                int packs, Int lse_token, Int lse_head) {
  constexpr int kLanes = 8;
  const Int row = (static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  const bool there = row < tokens * heads;
  float mean = 0;
  for (int pack = static_cast<int>(threadIdx.x) % kLanes; there && pack < packs; pack += kLanes) {
    const auto a = load<8>(y + row * packs * 8, pack), b = load<8>(dy + row * packs * 8, pack);
    HONE_UNROLL for (int c = 0; c < 8; ++c) mean += widened(a.at[c]) * widened(b.at[c]);
  }
  for (int away = kLanes / 2; away > 0; away /= 2) mean += __shfl_xor_sync(kAllLanes, mean, away);
  if (!there || threadIdx.x % kLanes != 0) return;
  const Int token = row / heads, head = row % heads;
  const Pack<float, 2> made = {{lse[token * lse_token + head * lse_head] * static_cast<float>(kLog2OfE), mean}};
  store<2>(described, head * tokens + token, made);
}

template <class T>
struct BackwardCall {
  Tiles tiles;
  Heads<T> own[2], other[2];
  const float* described;
  Int tokens;
  int packs;  // of a row
  float scale;
  Kept kept;
  T* to[2];
  Int pitch;  // from a token to the next
};

template <class T>
HONE_DEVICE void narrow(T, const Square& x, SquareWords& to) {
  HONE_UNROLL for (int i = 0; i < kSide / 16; ++i)
    HONE_UNROLL for (int w = 0; w < 4; ++w) to.at[i][w] = both(T{}, x.at[8 * i + 2 * w], x.at[8 * i + 2 * w + 1]);
}

HONE_DEVICE int count_steps(const OwnLines& own, int heads) { return (own.to - own.from + kSide - 1) / kSide * heads; }

// A group's own rows of one matrix, of heads of kSquares squares, as left factors: in the room, or in registers, by 16
// values as SquareWords.
template <int kSquares, bool kHeld>
struct OwnRows {
  unsigned place;
};
template <int kSquares>
struct OwnRows<kSquares, true> {
  unsigned at[kSquares * kSide / 16][4];
};
template <bool kFirst, int kSquares, class T>
HONE_DEVICE void multiply_own(T, Square& made, const OwnRows<kSquares, true>& own, int i, unsigned, unsigned right) {
  if constexpr (kFirst)
    group_multiply_first(T{}, made.at, own.at[i], matrix_at(right));
  else
    group_multiply<false>(T{}, made.at, own.at[i], matrix_at(right));
}
template <bool kFirst, int kSquares, class T>
HONE_DEVICE void multiply_own(T, Square& made, const OwnRows<kSquares, false>& own, int, unsigned at, unsigned right) {
  if constexpr (kFirst)
    group_multiply_first(T{}, made.at, matrix_at(own.place + at), matrix_at(right));
  else
    group_multiply_lines(T{}, made.at, matrix_at(own.place + at), matrix_at(right));
}
// made = own other^T; a group of products of its own.
template <int kSquares, bool kHeld, class T>
HONE_DEVICE void ask_for_scores(T, Square& made, const OwnRows<kSquares, kHeld>& own, const Pack<T, 8>* other) {
  const unsigned right = place_of_matrix(shared_address(other));
  begin_group();
  multiply_own<true>(T{}, made, own, 0, 0, right);
  HONE_UNROLL for (int i = 1; i < kSquares * kSide / 16; ++i) {
    const unsigned at = static_cast<unsigned>(i / 4 * kSquarePacks) + bytes_to_depth(i % 4 * 16) / 16;
    multiply_own<false>(T{}, made, own, i, at, right + at);
  }
  commit_group();
}
// Which of a square's pairs see each other: own tokens from `own`, others from `other` on, both within the document.
struct Sight {
  int own, other, back, ahead, count;
};
HONE_DEVICE bool sees_all(const Sight& a) {
  return a.other >= a.own + kSide - 1 - a.back && a.other + kSide - 1 <= a.own + a.ahead &&
         a.other + kSide <= a.count && a.own + kSide <= a.count;
}
HONE_DEVICE bool sees(const Sight& a, int row, int column) {
  const int own = a.own + row, other = a.other + column;
  return other >= own - a.back && other <= own + a.ahead && other < a.count && own < a.count;
}

// Exponents and means of the queries of a thread's sums: of its two rows, or, where keys are own, of columns. These the
// room has, exponents and then means of 64, so that a thread's come four at a time.
struct Described {
  float exponent[2], mean[2];  // of rows
};
HONE_DEVICE int described_place(int column) {
  return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}
HONE_DEVICE Pack<float, 4> described_columns(const float* room, int two_quads) {
  return load<4>(room + 16 * two_quads + 2 * own_place().column, 0);
}
template <bool kOfKeys>
HONE_DEVICE void weigh(Square& weights, const Square& scores, const Described& rows, const float* room,
                       const Sight& sight, float scale) {
  HONE_UNROLL for (int two = 0; two < 4; ++two) {
    Pack<float, 4> columns = {};
    if (kOfKeys) columns = described_columns(room, two);
    HONE_UNROLL for (int i = 8 * two; i < 8 * two + 8; ++i)
      weights.at[i] = quick_exp2(scores.at[i] * scale -
                                 (kOfKeys ? columns.at[i / 4 % 2 * 2 + i % 2] : rows.exponent[i / 2 % 2]));
  }
  if (sees_all(sight)) return;
  const OwnPlace place = own_place();
  HONE_UNROLL for (int i = 0; i < 32; ++i)
    if (!sees(sight, place.row + i / 2 % 2 * 8, i / 4 * 8 + place.column + i % 2)) weights.at[i] = 0;
}
template <bool kOfKeys>
HONE_DEVICE void slope(Square& slopes, const Square& weights, const Described& rows, const float* room) {
  HONE_UNROLL for (int two = 0; two < 4; ++two) {
    Pack<float, 4> columns = {};
    if (kOfKeys) columns = described_columns(room + kSide, two);
    HONE_UNROLL for (int i = 8 * two; i < 8 * two + 8; ++i)
      slopes.at[i] = weights.at[i] *
                     (slopes.at[i] - (kOfKeys ? columns.at[i / 4 % 2 * 2 + i % 2] : rows.mean[i / 2 % 2]));
  }
}
// What weights were narrowed to, for slopes to be of the very weights that gradients of values have.
template <class T>
HONE_DEVICE void widen(T, const SquareWords& words, Square& to) {
  HONE_UNROLL for (int i = 0; i < 32; ++i) {
    const unsigned word = words.at[i / 8][i / 2 % 4];
    to.at[i] = widened(T{static_cast<unsigned short>(i % 2 == 0 ? word : word >> 16)});
  }
}

// The room: own rows of matrices that registers do not hold, then blocks of others, of both matrices, then what is
// described of each block's queries, then gates. kHeld: own matrices in registers, the first ones. kBlocks: blocks that
// are read, wait to be or are on their way.
template <bool kOfQueryKeys, int kOfSquares, int kOwnHeld, int kOfBlocks, class T>
struct BackwardRoom {
  static constexpr bool kOfKeys = kOfQueryKeys;
  static constexpr int kSquares = kOfSquares, kHeld = kOwnHeld, kBlocks = kOfBlocks;
  static constexpr int kPacks = kSquares * kSquarePacks;  // of 64 rows
  static constexpr int kOwn = (2 - kHeld) * kGroups;      // of such
  using Type = T;
  Pack<T, 8>* at;
  unsigned gates;
};
template <class Room>
HONE_DEVICE auto* own_rows(const Room& room, int which, int group) {
  return room.at + ((which - Room::kHeld) * kGroups + group) * Room::kPacks;
}
template <class Room>
HONE_DEVICE auto* other_rows(const Room& room, int which, const Turn& turn) {
  return room.at + (Room::kOwn + 2 * turn.block + which) * Room::kPacks;
}
template <class Room>
HONE_DEVICE float* described_in(const Room& room, const Turn& turn) {
  return reinterpret_cast<float*>(room.at + (Room::kOwn + 2 * Room::kBlocks) * Room::kPacks) + turn.block * 2 * kSide;
}
// Of a group: its own rows are there.
template <class Room>
HONE_DEVICE unsigned own_gate(const Room& room, int group) {
  return room.gates + static_cast<unsigned>(8 * (2 * Room::kBlocks + group));
}
template <class Room>
HONE_DEVICE void make_gates(const Room& room) {
  if (threadIdx.x == 0) {
    make_gates_of_blocks(room);
    for (int group = 0; group < kGroups; ++group) make_gate(own_gate(room, group), kGroupThreads);
  }
  __syncthreads();
}

// What the copying group does.
template <class Room, class T>
HONE_DEVICE void copy_others(const BackwardCall<T>& a, const Room& room, const OwnLines& own) {
  const Copying<Room::kSquares> copying = begin_copying<Room::kSquares>();
  const int column = static_cast<int>(threadIdx.x) % kSide, which_described = static_cast<int>(threadIdx.x) / kSide % 2;
  Turn turn = {};
  for (int time = 0; time < a.tiles.times; ++time)
    for (int head = own.other_head; head < own.other_head + a.tiles.each; ++head)
      for (int token = own.from; token < own.to; token += kSide) {
        pass(read_gate(room, turn), 1 - turn.odd);
        const int left = own.count - token;
        HONE_UNROLL for (int which = 0; which < 2; ++which) {
          const Heads<T>& x = a.other[which];
          copy_rows(copying, other_rows(room, which, turn), first_pack(copying, x, own.begin + token, head), x.token,
                    left, a.packs);
        }
        if (Room::kOfKeys)
          copy_4_ahead(described_in(room, turn) + which_described * kSide + described_place(column),
                       a.described + 2 * (head * a.tokens + own.begin + token + column) + which_described,
                       column < left);
        arrive_with_copies(there_gate(room, turn));
        turn = next_of(room, turn);
      }
}

// A group's own rows of one head: `rows` of them are there.
template <class Room, class T>
HONE_DEVICE void bring_own(const Room&, OwnRows<Room::kSquares, true>& to, const Heads<T>& x, Int token, int head,
                           int rows, int packs, int, int) {
  const OwnPlace place = own_place();
  const T* from = x.at + (token + place.row) * x.token + head * x.head + place.column;
  HONE_UNROLL for (int i = 0; i < Room::kSquares * kSide / 16; ++i) {
    HONE_UNROLL for (int w = 0; w < 4; ++w) {
      const int below = w % 2, pack = 2 * i + w / 2;
      to.at[i][w] = 0;
      if (place.row + 8 * below < rows && pack < packs)
        to.at[i][w] = load<1>(reinterpret_cast<const unsigned*>(from + 8 * below * x.token + 8 * pack), 0).at[0];
    }
    hold(to.at[i]);
  }
}
template <class Room, class T>
HONE_DEVICE void bring_own(const Room& room, OwnRows<Room::kSquares, false>& to, const Heads<T>& x, Int token, int head,
                           int rows, int packs, int which, int group) {
  const Copying<Room::kSquares> copying = begin_copying<Room::kSquares>();
  Pack<T, 8>* at = own_rows(room, which, group);
  copy_rows(copying, at, first_pack(copying, x, token, head), x.token, rows, packs);
  to.place = place_of_matrix(shared_address(at));
}

// What a group of threads has in registers. Between two steps it has the next block's scores; in flight are its sums'
// products. words: slopes as a left factor, and weights, which have no registers of their own where sums are wide.
template <class Room>
struct Group {
  static constexpr int kSquares = Room::kSquares;
  OwnRows<kSquares, (Room::kHeld > 0)> own_0;
  OwnRows<kSquares, (Room::kHeld > 1)> own_1;
  Described rows;
  Square sums[kSquares], of_weights[kSquares];
  Square scores, slopes;
  static constexpr int kWords = Room::kOfKeys && kSquares == 1 ? 2 : 1;
  SquareWords words[kWords];
  int kept;    // where squares of this document begin, of the head that the step is of
  int square;  // where slopes of the step before are to be kept; below 0: nowhere
};
template <class Room>
HONE_DEVICE int square_to_keep(const Kept& kept, const Group<Room>& x, const Sight& sight) {
  const bool wanted = kept.at && sight.own < sight.count && meet(sight.own, sight.other, sight.back, sight.ahead);
  return wanted ? x.kept + kept_place(kept, sight.other, sight.own) : -1;
}
// Slopes of the step before, when their products have read them.
template <class Room>
HONE_DEVICE void keep_slopes(const Kept& kept, const Group<Room>& x) {
  if constexpr (Room::kOfKeys)
    if (x.square >= 0) keep_square(x.words[0], words_of(kept, x.square));
}

template <class Room>
HONE_DEVICE void hold_sums(Group<Room>& x) {
  for (SquareWords& each : x.words) hold_words(each);
  HONE_UNROLL for (int s = 0; s < Room::kSquares; ++s) {
    hold(x.sums[s].at);
    if constexpr (Room::kOfKeys) hold(x.of_weights[s].at);
  }
}

// A step. Who waits for a product leaves in flight what was asked for behind it. From a step to the next one, these are
// sums alone, which nobody reads before the end: else the compiler would wait for every product at once.
template <bool kLast, class Room>
HONE_DEVICE void make_step(const Room& room, Group<Room>& x, const Kept& kept, const Sight& sight, float scale,
                           const Turn& turn, const Turn& before, bool first) {
  using T = typename Room::Type;
  constexpr int kOfNext = kLast ? 0 : 1, kWords = Group<Room>::kWords;
  const Turn next = next_of(room, turn);
  const float* described = described_in(room, turn);
  Square weights;
  SquareWords& narrow_weights = x.words[kWords - 1];
  ask_for_scores(T{}, x.slopes, x.own_1, other_rows(room, 1, turn));
  if constexpr (!kLast) {
    pass(there_gate(room, next), next.odd);
    show_to_cores();
  }
  if constexpr (Room::kOfKeys && kWords == 1) {  // slopes of the step before have been read
    wait_for_groups<1>();
    hold_words(x.words[0]);
    keep_slopes(kept, x);
  }
  weigh<Room::kOfKeys>(weights, x.scores, x.rows, described, sight, scale);
  if constexpr (Room::kOfKeys) {
    narrow(T{}, weights, narrow_weights);
    ask_for_sum(T{}, x.of_weights, narrow_weights, other_rows(room, 1, turn));
  } else {
    hold(weights.at);
  }
  if constexpr (!kLast) ask_for_scores(T{}, x.scores, x.own_0, other_rows(room, 0, next));
  wait_for_groups<kOfNext + (kWords == 2 ? 1 : 0)>();  // of weights
  hold(x.slopes.at);
  hold_words(x.words[0]);
  if (!first) say_read(room, before);
  if constexpr (kWords == 2) keep_slopes(kept, x);
  if constexpr (Room::kOfKeys) widen(T{}, narrow_weights, weights);
  slope<Room::kOfKeys>(x.slopes, weights, x.rows, described);
  narrow(T{}, x.slopes, x.words[0]);
  ask_for_sum(T{}, x.sums, x.words[0], other_rows(room, 0, turn));
  if constexpr (!kLast) {
    wait_for_groups<1>();
    hold(x.scores.at);
    if constexpr (kWords == 2) hold_words(narrow_weights);
  }
}

// Where a group's sums go that are complete.
template <class Room, class T>
HONE_DEVICE void write_sums(const BackwardCall<T>& a, const Group<Room>& x, Int token, int head, int rows) {
  const Int at = token * a.pitch + head * a.packs * 8;
  write_rows<Room::kSquares>(T{}, x.sums, a.scale, a.to[0] + at, a.pitch, rows, a.packs);
  if constexpr (Room::kOfKeys) write_rows<Room::kSquares>(T{}, x.of_weights, 1, a.to[1] + at, a.pitch, rows, a.packs);
}
template <class Room, class T>
HONE_DEVICE void bring_own(const BackwardCall<T>& a, const Room& room, Group<Room>& x, Int token, int head, int rows,
                           int group, int& times) {
  if constexpr (Room::kHeld < 2) {  // rows of the head before have been read
    arrive(own_gate(room, group));
    pass(own_gate(room, group), times++ % 2);
  }
  bring_own(room, x.own_0, a.own[0], token, head, rows, a.packs, 0, group);
  bring_own(room, x.own_1, a.own[1], token, head, rows, a.packs, 1, group);
  if constexpr (Room::kHeld < 2) {
    arrive_with_copies(own_gate(room, group));
    pass(own_gate(room, group), times++ % 2);
    show_to_cores();
  }
  if constexpr (!Room::kOfKeys)
    HONE_UNROLL for (int half = 0; half < 2; ++half) {
      const int row = own_place().row + 8 * half;
      Pack<float, 2> pair = {};
      if (row < rows) pair = load<2>(a.described, head * a.tokens + token + row);
      x.rows.exponent[half] = pair.at[0], x.rows.mean[half] = pair.at[1];
    }
}

// What the other groups do.
template <class Room, class T>
HONE_DEVICE void sum_up(const BackwardCall<T>& a, const Room& room, const OwnLines& own, int group) {
  const float scale = a.scale * static_cast<float>(kLog2OfE);
  const int first = own.first + group * kSide, rows = own.count - first, steps = count_steps(own, a.tiles.each);
  const Int token = own.begin + first;
  Turn turn = {}, before = {};
  int times = 0;
  for (int head = own.head; head < own.head + a.tiles.times; ++head) {
    Group<Room> x = {};
    bring_own(a, room, x, token, head, rows, group, times);
    x.square = -1;
    x.kept = own.other_head * a.kept.in_head + first_kept(a.kept, own);
    Sight sight = {first, own.from, a.tiles.back, a.tiles.ahead, own.count};
    const auto go_on = [&] {
      before = turn, turn = next_of(room, turn);
      if constexpr (Room::kOfKeys) x.square = square_to_keep(a.kept, x, sight);
      const bool same = sight.other + kSide < own.to;
      sight.other = same ? sight.other + kSide : own.from;
      x.kept += same ? 0 : a.kept.in_head;
    };
    hold_sums(x);
    pass(there_gate(room, turn), turn.odd);
    show_to_cores();
    ask_for_scores(T{}, x.scores, x.own_0, other_rows(room, 0, turn));
    wait_for_groups<0>();
    hold(x.scores.at);
    for (int step = 0; step < steps - 1; ++step, go_on())
      make_step<false>(room, x, a.kept, sight, scale, turn, before, step == 0);
    make_step<true>(room, x, a.kept, sight, scale, turn, before, steps == 1);
    wait_for_groups<0>();
    hold_sums(x);
    say_read(room, turn);
    go_on();
    keep_slopes(a.kept, x);
    write_sums(a, x, token, head, rows);
  }
}

template <bool kOfKeys, int kSquares, int kHeld, int kBlocks, class T>
HONE_DEVICE void backward_of(const BackwardCall<T>& a) {
  if constexpr (sizeof(T) == 2) {
    using Packed = Pack<T, 8>;
    HONE_SHARED_ROOM(Packed, whole_room);
    using Room = BackwardRoom<kOfKeys, kSquares, kHeld, kBlocks, T>;
    Packed* const at = first_unit(whole_room);
    const Room room = {at, shared_address(at + (Room::kOwn + 2 * kBlocks) * Room::kPacks) + kBlocks * 8 * kSide};
    const OwnLines own = own_lines<kOwnLines>(a.tiles, !kOfKeys);
    if (own.first >= own.count) return;
    make_gates(room);
    const int group = of_whole_warp(static_cast<int>(threadIdx.x) / kGroupThreads);
    if (group == kGroups) {
      keep_registers<24>();
      copy_others(a, room, own);
    } else {
      take_registers<240>();
      sum_up(a, room, own, group);
    }
  }
}

// tokens x heads rows of y and its gradient; described: [heads, tokens, 2]. A grid of warps that have four rows each.
HONE_KERNEL describe_queries(const Value* y, const Value* dy, const float* lse, float* described, Int tokens, int heads,
                             int packs, Int lse_token, Int lse_head) {
  if constexpr (sizeof(Value) == 2) describe_query(y, dy, lse, described, tokens, heads, packs, lse_token, lse_head);
}

// strides: of own_0, own_1, other_0, other_1, each from a token to the next and from a head to the next. kept: where
// slopes go, or null; of so many squares of a head and of a row, by a triangle or not, as squares.h has it. A grid of
// tiles of own tokens, as group_of() counts them, times heads / times, which go first.
#define HONE_BACKWARD(name, of_keys, squares, held, blocks)                                                            \
  HONE_KERNEL_ALONE((kGroups + 1) * kGroupThreads)                                                                     \
  name(const Value* own_0, const Value* own_1, const Value* other_0, const Value* other_1, HONE_LIST(Int, 8) strides,  \
       const float* described, const int* ends, int documents, Int tokens, int heads, int each, int shared, int times, \
       int packs, double scale, int back, int ahead, unsigned* kept, int in_head, int in_row, int triangle,            \
       Value* to_0, Value* to_1, Int pitch) {                                                                          \
    const BackwardCall<Value> call = {                                                                                 \
        {ends, documents, heads, each, shared, times, back, ahead},                                                    \
        {{own_0, strides.at[0], strides.at[1]}, {own_1, strides.at[2], strides.at[3]}},                                \
        {{other_0, strides.at[4], strides.at[5]}, {other_1, strides.at[6], strides.at[7]}},                            \
        described,                                                                                                     \
        tokens,                                                                                                        \
        packs,                                                                                                         \
        static_cast<float>(scale),                                                                                     \
        {kept, in_head, in_row, triangle != 0, (ahead + kSide - 1) / kSide},                                           \
        {to_0, to_1},                                                                                                  \
        pitch};                                                                                                        \
    backward_of<of_keys, squares, held, blocks>(call);                                                                 \
  }
HONE_BACKWARD(attention_of_keys_64, true, 1, 2, 6)
HONE_BACKWARD(attention_of_keys_128, true, 2, 0, 4)
HONE_BACKWARD(attention_of_queries_64, false, 1, 2, 6)
HONE_BACKWARD(attention_of_queries_128, false, 2, 1, 4)
