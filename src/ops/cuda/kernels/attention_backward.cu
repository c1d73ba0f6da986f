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
// A group of four warps has 64 own tokens, and several groups go through the other ones together, by blocks of 64 that
// are copied ahead. Rows of 64 values, or twice that, are filled up with zeros; so are blocks behind a document's end.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kSide = 64, kSquarePacks = kSide * 8;  // of a square of values in the room
constexpr int kBlocks = 3;                           // that are read, or wait to be, or are on their way

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

// Rows of tokens' heads in memory.
template <class T>
struct Heads {
  const T* at;
  Int token, head;  // from one to the next
};
template <class T>
struct BackwardCall {
  Heads<T> own[2], other[2];
  const float* described;
  const int* ends;  // where documents begin, and the last one's end
  int documents;
  Int tokens;
  int heads, each, shared;  // own ones; other ones for each, or own ones for each other
  int packs;                // of a row
  float scale;
  int back, ahead;  // so many tokens an own one sees of others before and behind its place
  T* to[2];
};

// A block's own tokens: [first, first + lines) of a document's, and the others that any of them sees.
struct OwnLines {
  int begin, count;  // of the document
  int first, head;
  int from, to;
};
template <class T>
HONE_DEVICE OwnLines own_lines(const BackwardCall<T>& a, int lines, bool last_first) {
  OwnLines own = {};
  const int tiles = static_cast<int>(gridDim.x) / a.heads, at = static_cast<int>(blockIdx.x) / a.heads;
  const int tile = last_first ? tiles - 1 - at : at;
  own.head = static_cast<int>(blockIdx.x) % a.heads;
  const int document = group_of(tile, a.ends, a.documents, lines);
  own.begin = a.ends[document], own.count = a.ends[document + 1] - own.begin;
  own.first = (tile - own.begin / lines - document) * lines;
  own.from = own.first > a.back ? (own.first - a.back) / kSide * kSide : 0;
  own.to = own.first + lines + a.ahead;
  own.to = own.to < own.count ? own.to : own.count;
  return own;
}

// Squares of `lines` rows, `count` of which there are, of one head: one behind another, those of 64 rows together.
template <int kSquares, class T>
HONE_DEVICE void copy_rows(Pack<T, 8>* to, const T* from, Int pitch, int lines, int count, int packs) {
  constexpr int kInRow = 8 * kSquares;
  for (int place = static_cast<int>(threadIdx.x); place < lines * kInRow; place += static_cast<int>(blockDim.x)) {
    const int row = place / kInRow, pack = place % kInRow, square = row / kSide * kSquares + pack / 8;
    const bool there = row < count && pack < packs;
    copy_ahead(to + square * kSquarePacks + place_in_rows(row % kSide, pack % 8),
               there ? from + row * pitch + pack * 8 : from, there);
  }
}

// A thread's scores or slopes of 64 own tokens and 64 others.
struct Square {
  float at[32];
};
// As a left factor, by 16 others.
struct SquareWords {
  unsigned at[kSide / 16][4];
};
template <class T>
HONE_DEVICE void narrow(T, const Square& x, SquareWords& to) {
  HONE_UNROLL for (int i = 0; i < kSide / 16; ++i)
    HONE_UNROLL for (int w = 0; w < 4; ++w) to.at[i][w] = both(T{}, x.at[8 * i + 2 * w], x.at[8 * i + 2 * w + 1]);
}

// made = own other^T, of heads of kSquares squares; a group of its own.
template <int kSquares, class T>
HONE_DEVICE void ask_for_scores(T, Square& made, const Pack<T, 8>* own, const Pack<T, 8>* other) {
  const unsigned left = place_of_matrix(shared_address(own)), right = place_of_matrix(shared_address(other));
  HONE_UNROLL for (int s = 0; s < kSquares; ++s)
    HONE_UNROLL for (int depth = 0; depth < kSide; depth += 16) {
      const unsigned at = static_cast<unsigned>(s * kSquarePacks) + bytes_to_depth(depth) / 16;
      if (s == 0 && depth == 0)
        group_multiply_first(T{}, made.at, matrix_at(left + at), matrix_at(right + at));
      else
        group_multiply_lines(T{}, made.at, matrix_at(left + at), matrix_at(right + at));
    }
  commit_group();
}
// sum += left other; a group of its own.
template <int kSquares, class T>
HONE_DEVICE void ask_for_sum(T, Square (&sum)[kSquares], const SquareWords& left, const Pack<T, 8>* other) {
  const unsigned right = place_of_matrix(shared_address(other));
  HONE_UNROLL for (int s = 0; s < kSquares; ++s)
    HONE_UNROLL for (int i = 0; i < kSide / 16; ++i)
      group_multiply_turned(
          T{}, sum[s].at, left.at[i],
          matrix_at(right + static_cast<unsigned>(s * kSquarePacks) + bytes_to_depth_turned(16 * i) / 16));
  commit_group();
}

// Of such a product, before it is asked for and behind the wait for it.
template <int kSquares>
HONE_DEVICE void hold_all(SquareWords& left, Square (&sum)[kSquares]) {
  HONE_UNROLL for (int i = 0; i < kSide / 16; ++i) hold(left.at[i]);
  HONE_UNROLL for (int s = 0; s < kSquares; ++s) hold(sum[s].at);
}

// Which of a square's pairs see each other: own tokens from `own`, others from `other` on, both within the document.
struct Sight {
  int own, other, back, ahead, count;
};
HONE_DEVICE bool sees_nothing(const Sight& a) {
  return a.own >= a.count || a.other + kSide - 1 < a.own - a.back || a.other > a.own + kSide - 1 + a.ahead;
}
HONE_DEVICE bool sees_all(const Sight& a) {
  return a.other >= a.own + kSide - 1 - a.back && a.other + kSide - 1 <= a.own + a.ahead &&
         a.other + kSide <= a.count;
}
HONE_DEVICE bool sees(const Sight& a, int row, int column) {
  const int own = a.own + row, other = a.other + column;
  return other >= own - a.back && other <= own + a.ahead && other < a.count;
}

// A thread's place in its group's square.
struct OwnPlace {
  int row, column;
};
HONE_DEVICE OwnPlace own_place() {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  return {static_cast<int>(threadIdx.x) / kWarp % 4 * 16 + lane / 4, lane % 4 * 2};
}

// Exponents and means of the queries of a thread's sums: of its two rows, or, where keys are own, of columns, which the
// room has.
struct Described {
  float exponent[2], mean[2];  // of rows
  const float* room;
};
template <bool kOfKeys>
HONE_DEVICE void weigh(Square& scores, const Described& queries, const Sight& sight, float scale) {
  const OwnPlace place = own_place();
  HONE_UNROLL for (int quad = 0; quad < 8; ++quad) {
    Pack<float, 4> pair = {};
    if (kOfKeys) pair = load<4>(queries.room + 2 * (8 * quad + place.column), 0);
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      float& x = scores.at[4 * quad + i];
      x = quick_exp2(x * scale - (kOfKeys ? pair.at[i % 2 * 2] : queries.exponent[i / 2]));
    }
  }
  if (sees_all(sight)) return;
  HONE_UNROLL for (int i = 0; i < 32; ++i)
    if (!sees(sight, place.row + i / 2 % 2 * 8, i / 4 * 8 + place.column + i % 2)) scores.at[i] = 0;
}
template <bool kOfKeys>
HONE_DEVICE void slope(Square& slopes, const Square& weights, const Described& queries) {
  HONE_UNROLL for (int quad = 0; quad < 8; ++quad) {
    Pack<float, 4> pair = {};
    if (kOfKeys) pair = load<4>(queries.room + 2 * (8 * quad + own_place().column), 0);
    HONE_UNROLL for (int i = 0; i < 4; ++i) {
      const float mean = kOfKeys ? pair.at[i % 2 * 2 + 1] : queries.mean[i / 2];
      slopes.at[4 * quad + i] = weights.at[4 * quad + i] * (slopes.at[4 * quad + i] - mean);
    }
  }
}

template <int kSquares, class T>
HONE_DEVICE void write_rows(T, const Square (&sum)[kSquares], float scale, T* to, Int pitch, int rows, int packs) {
  const OwnPlace place = own_place();
  HONE_UNROLL for (int s = 0; s < kSquares; ++s)
    HONE_UNROLL for (int quad = 0; quad < 8; ++quad)
      HONE_UNROLL for (int half = 0; half < 2; ++half) {
        const int row = place.row + 8 * half, column = s * kSide + 8 * quad + place.column;
        if (row >= rows || column >= packs * 8) continue;
        Pack<T, 2> pair = {};
        HONE_UNROLL for (int c = 0; c < 2; ++c) pair.at[c] = rounded<T>(sum[s].at[4 * quad + 2 * half + c] * scale);
        store<2>(to + row * pitch + column, 0, pair);
      }
}

// The room: own tokens, then blocks of others, both of two matrices, then what is described of each block's queries.
template <int kSquares, int kGroups, class T>
struct BackwardRoom {
  static constexpr int kPacks = kSquares * kSquarePacks;  // of 64 rows
  Pack<T, 8>* at;
};
template <int kSquares, int kGroups, class T>
HONE_DEVICE Pack<T, 8>* own_rows(const BackwardRoom<kSquares, kGroups, T>& room, int which, int group) {
  return room.at + (which * kGroups + group) * room.kPacks;
}
template <int kSquares, int kGroups, class T>
HONE_DEVICE Pack<T, 8>* other_rows(const BackwardRoom<kSquares, kGroups, T>& room, int which, int place) {
  return room.at + (2 * kGroups + 2 * place + which) * room.kPacks;
}
template <int kSquares, int kGroups, class T>
HONE_DEVICE float* described_in(const BackwardRoom<kSquares, kGroups, T>& room, int place) {
  return reinterpret_cast<float*>(room.at + (2 * kGroups + 2 * kBlocks) * room.kPacks) + place * 2 * kSide;
}

// Where a block is of those that are gone through: of each other head from the first token on.
struct Step {
  int head, token, place;  // in the room
};
HONE_DEVICE Step next_of(const Step& step, const OwnLines& own) {
  const int token = step.token + kSide, place = step.place + 1;
  const bool over = token >= own.to;
  return {step.head + (over ? 1 : 0), over ? own.from : token, place < kBlocks ? place : 0};
}

// What a thread copies of each block: one pack of some rows, kApart from one another, of both matrices.
template <int kSquares, class T>
struct Copying {
  static constexpr int kThreads = 256, kInRow = 8 * kSquares, kApart = kThreads / kInRow;
  const T* from[2];
  int row, place;
  bool any;  // of its packs are there
};
template <int kSquares, class T>
HONE_DEVICE Copying<kSquares, T> begin_copying(const BackwardCall<T>& a, const OwnLines& own, const Step& step) {
  using Plan = Copying<kSquares, T>;
  const int thread = static_cast<int>(threadIdx.x), row = thread / Plan::kInRow, pack = thread % Plan::kInRow;
  Plan made = {{}, row, pack / 8 * kSquarePacks + place_in_rows(row, pack % 8), pack < a.packs};
  HONE_UNROLL for (int which = 0; which < 2; ++which) {
    const Heads<T>& x = a.other[which];
    made.from[which] = x.at + (own.begin + step.token + row) * x.token + step.head * x.head + pack * 8;
  }
  return made;
}
// Rows behind the document's end become zeros.
template <bool kOfKeys, int kSquares, int kGroups, class T>
HONE_DEVICE void copy_block(const BackwardCall<T>& a, const BackwardRoom<kSquares, kGroups, T>& room,
                            const OwnLines& own, const Step& step, const Copying<kSquares, T>& copying) {
  constexpr int kApart = Copying<kSquares, T>::kApart;
  const int left = own.count - step.token, thread = static_cast<int>(threadIdx.x);
  if (thread < Copying<kSquares, T>::kThreads)
    HONE_UNROLL for (int which = 0; which < 2; ++which)
      HONE_UNROLL for (int i = 0; i < kSide / kApart; ++i)
        copy_ahead(other_rows(room, which, step.place) + copying.place + i * kApart * 8,
                   copying.from[which] + i * kApart * a.other[which].token,
                   copying.any && copying.row + i * kApart < left);
  const int token = thread - (kGroups > 2 ? Copying<kSquares, T>::kThreads : 0);  // who has less to copy
  if (kOfKeys && token >= 0 && token < kSide)
    copy_8_ahead(described_in(room, step.place) + 2 * token,
                 a.described + 2 * (step.head * a.tokens + own.begin + step.token + token), token < left);
}
template <int kSquares, class T>
HONE_DEVICE void advance(const BackwardCall<T>& a, const OwnLines& own, Step& step, Copying<kSquares, T>& copying) {
  const Step next = next_of(step, own);
  HONE_UNROLL for (int which = 0; which < 2; ++which)
    copying.from[which] += (next.token - step.token) * a.other[which].token +
                           (next.head - step.head) * a.other[which].head;
  step = next;
}

template <bool kOfKeys, int kSquares, int kGroups, class T>
HONE_DEVICE void backward_of(const BackwardCall<T>& a) {
  if constexpr (sizeof(T) == 2) {
    using Packed = Pack<T, 8>;
    HONE_SHARED_ROOM(Packed, whole_room);
    const BackwardRoom<kSquares, kGroups, T> room = {first_unit(whole_room)};
    const OwnLines own = own_lines(a, kGroups * kSide, !kOfKeys);
    if (own.first >= own.count) return;
    HONE_UNROLL for (int which = 0; which < 2; ++which) {
      const Heads<T>& x = a.own[which];
      copy_rows<kSquares>(own_rows(room, which, 0), x.at + (own.begin + own.first) * x.token + own.head * x.head,
                          x.token, kGroups * kSide, own.count - own.first, a.packs);
    }
    const int group = of_whole_warp(static_cast<int>(threadIdx.x) / (4 * kWarp));
    Sight sight = {own.first + group * kSide, 0, a.back, a.ahead, own.count};
    Described queries = {};
    if (!kOfKeys)
      HONE_UNROLL for (int half = 0; half < 2; ++half) {
        const int row = sight.own + own_place().row + 8 * half;
        if (row >= own.count) continue;
        const auto pair = load<2>(a.described, own.head * a.tokens + own.begin + row);
        queries.exponent[half] = pair.at[0], queries.mean[half] = pair.at[1];
      }
    const float scale = a.scale * static_cast<float>(kLog2OfE);
    Square sums[kSquares] = {}, of_weights[kSquares] = {};
    SquareWords weights, words;
    const int first_head = own.head / a.shared * a.each;
    Step step = {first_head, own.from, 0}, ahead = step;
    Copying<kSquares, T> copying = begin_copying<kSquares>(a, own, ahead);
    const auto ask_ahead = [&] {
      if (ahead.head < first_head + a.each) copy_block<kOfKeys>(a, room, own, ahead, copying);
      commit_copies();  // of nothing behind the end, so that the number of those on their way is always the same
      advance(a, own, ahead, copying);
    };
    for (int block = 0; block < kBlocks - 1; ++block) ask_ahead();
    for (; step.head < first_head + a.each; step = next_of(step, own)) {
      wait_for_copies<kBlocks - 2>();
      show_to_cores();
      __syncthreads();  // everybody's are there, and the last step's products are done
      sight.other = step.token;
      if (sees_nothing(sight)) {
        ask_ahead();
        continue;
      }
      Square scores, slopes;
      begin_group();
      ask_for_scores<kSquares>(T{}, scores, own_rows(room, 0, group), other_rows(room, 0, step.place));
      ask_for_scores<kSquares>(T{}, slopes, own_rows(room, 1, group), other_rows(room, 1, step.place));
      ask_ahead();
      wait_for_groups<1>();
      hold(scores.at);
      queries.room = described_in(room, step.place);
      weigh<kOfKeys>(scores, queries, sight, scale);
      if constexpr (kOfKeys) {
        narrow(T{}, scores, weights);
        hold_all(weights, of_weights);
        begin_group();
        ask_for_sum<kSquares>(T{}, of_weights, weights, other_rows(room, 1, step.place));
        wait_for_groups<1>();
      } else {
        wait_for_groups<0>();
      }
      hold(slopes.at);
      slope<kOfKeys>(slopes, scores, queries);
      narrow(T{}, slopes, words);
      hold_all(words, sums);
      begin_group();
      ask_for_sum<kSquares>(T{}, sums, words, other_rows(room, 0, step.place));
      wait_for_groups<0>();
      hold_all(words, sums);
      if constexpr (kOfKeys) hold_all(weights, of_weights);
    }
    const Int pitch = static_cast<Int>(a.heads) * a.packs * 8;
    const Int at = (own.begin + sight.own) * pitch + own.head * a.packs * 8;
    write_rows<kSquares>(T{}, sums, a.scale, a.to[0] + at, pitch, own.count - sight.own, a.packs);
    if constexpr (kOfKeys)
      write_rows<kSquares>(T{}, of_weights, 1, a.to[1] + at, pitch, own.count - sight.own, a.packs);
  }
}

// tokens x heads rows of y and its gradient; described: [heads, tokens, 2]. A grid of warps that have four rows each.
HONE_KERNEL describe_queries(const Value* y, const Value* dy, const float* lse, float* described, Int tokens,
                             int heads, int packs, Int lse_token, Int lse_head) {
  if constexpr (sizeof(Value) == 2) describe_query(y, dy, lse, described, tokens, heads, packs, lse_token, lse_head);
}

// strides: of own_0, own_1, other_0, other_1, each from a token to the next and from a head to the next. A grid of
// tiles of own tokens, as group_of() counts them, times heads, which go first.
#define HONE_BACKWARD(name, of_keys, squares, groups)                                                               \
  HONE_KERNEL_OF(groups * 128)                                                                                      \
  name(const Value* own_0, const Value* own_1, const Value* other_0, const Value* other_1, HONE_LIST(Int, 8) strides, \
              const float* described, const int* ends, int documents, Int tokens, int heads, int each, int shared,  \
              int packs, double scale, int back, int ahead, Value* to_0, Value* to_1) {                             \
    const BackwardCall<Value> call = {{{own_0, strides.at[0], strides.at[1]}, {own_1, strides.at[2], strides.at[3]}}, \
                                      {{other_0, strides.at[4], strides.at[5]},                                     \
                                       {other_1, strides.at[6], strides.at[7]}},                                    \
                                      described, ends, documents, tokens, heads, each, shared, packs,               \
                                      static_cast<float>(scale), back, ahead, {to_0, to_1}};                        \
    backward_of<of_keys, squares, groups>(call);                                                                    \
  }
HONE_BACKWARD(attention_of_keys_64, true, 1, 3)
HONE_BACKWARD(attention_of_keys_128, true, 2, 2)
HONE_BACKWARD(attention_of_queries_64, false, 1, 3)
HONE_BACKWARD(attention_of_queries_128, false, 2, 2)
