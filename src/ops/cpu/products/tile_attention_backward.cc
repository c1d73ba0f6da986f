// Attention backward by AMX, a block of keys by a block of queries; the gradients are those of attention_backward.cc.
//
// Scores have a key per row and a query per lane. Shares and slopes of all of a block's pairs are made first, 32 x 32
// at a time, and kept as packed tiles: so the three products with them have long sums, which stay in tile registers.
#include "ops/cpu/products/tile_attention-inl.h"

#include <initializer_list>
#include <utility>

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kBlock = 256;  // three times 128 KB of shares and slopes: a good part of the L2 cache
constexpr std::int64_t kBlockGroups = kBlock / kSide;

Groups groups_of(std::int64_t rows, std::int64_t block) {
  return Groups{0, tile_steps(rows)}.within(block * kBlockGroups, (block + 1) * kBlockGroups);
}

struct KeyRoom : HeadSteps {
  KeyRoom(const AttentionShape& shape, void* room) : HeadSteps(shape.size), pieces(room) {
    for (char** x : {&keys, &values, &turned}) *x = pieces.take<char>(tile_steps(shape.keys) * group);
  }
  Pieces pieces;
  char *keys, *values;  // A, summed over the head
  char* turned;         // A of dq, of keys, summed over them
};

struct QueryRoom : HeadSteps {
  QueryRoom(const AttentionShape& shape, void* room) : HeadSteps(shape.size), pieces(room) {
    const std::int64_t groups = tile_steps(shape.queries);
    for (char** x : {&q_along, &dy_along, &q_across, &dy_across}) *x = pieces.take<char>(groups * group);
    for (float** x : {&lse, &drop}) *x = pieces.take<float>(groups * kSide);
    sums = pieces.take<float>(groups * group_sums);
  }
  Pieces pieces;
  char *q_along, *dy_along;    // B, summed over the head
  char *q_across, *dy_across;  // B, summed over queries
  float *lse, *drop;           // lse to base 2, and D
  float* sums;                 // of dq, per group and step [d][query]
};

struct WorkRoom : HeadSteps {
  WorkRoom(const AttentionShape& shape, void* room) : HeadSteps(shape.size), pieces(room) {
    for (char** x : {&shares, &slopes, &slopes_across}) *x = pieces.take<char>(kBlockGroups * kBlockGroups * kStep);
    for (float** x : {&dk, &dv}) *x = pieces.take<float>(kBlockGroups * group_sums);
    products = pieces.take<float>(4 * kSums);
    turned = pieces.take<float>(group_sums);
  }
  Pieces pieces;
  char *shares, *slopes;  // p and ds per [group of keys][of queries], A summed over queries
  char* slopes_across;    // ds per [group of queries][of keys], B summed over keys
  float *dk, *dv;         // sums
  float* products;        // twice k q and v dy
  float* turned;          // dq of a group
};

std::int64_t key_room(const AttentionShape& shape) { return KeyRoom(shape, nullptr).pieces.taken(); }
std::int64_t query_room(const AttentionShape& shape) { return QueryRoom(shape, nullptr).pieces.taken(); }
std::int64_t work_room(const AttentionShape& shape) { return WorkRoom(shape, nullptr).pieces.taken(); }

void pack_keys(const AttentionShape& shape, HeadRows<const bf16> k, HeadRows<const bf16> v, std::int64_t block,
               void* keys, void* /*work*/) {
  const KeyRoom room(shape, keys);
  const Groups groups = groups_of(shape.keys, block);
  for (std::int64_t g = groups.first; g < groups.end; ++g) {
    for (const auto& x : {k, v}) ask_for_group(x, shape.keys, g + 1, room);
    pack_group(k, shape.keys, g, room, room.keys + g * room.group, pack_lines);
    pack_group(v, shape.keys, g, room, room.values + g * room.group, pack_lines);
    pack_group(k, shape.keys, g, room, room.turned + g * room.group, pack_turned);
  }
}

void pack_queries(const AttentionShape& shape, const AttentionOutput<bf16>& out, std::int64_t block, void* queries,
                  void* /*work*/) {
  const QueryRoom room(shape, queries);
  const Groups groups = groups_of(shape.queries, block);
  for (std::int64_t g = groups.first; g < groups.end; ++g) {
    for (const auto& x : {out.q, out.y, out.dy}) ask_for_group(x, shape.queries, g + 1, room);
    pack_group(out.q, shape.queries, g, room, room.q_along + g * room.group, pack_along);
    pack_group(out.q, shape.queries, g, room, room.q_across + g * room.group, pack_pairs);
    pack_group(out.dy, shape.queries, g, room, room.dy_along + g * room.group, pack_along);
    pack_group(out.dy, shape.queries, g, room, room.dy_across + g * room.group, pack_pairs);
    for (std::int64_t i = g * kSide; i < (g + 1) * kSide; ++i) {
      const bool some = i < shape.queries;  // no share goes to queries that are not there
      room.lse[i] = some ? out.lse[i] * static_cast<float>(kLog2e) : INFINITY;
      const bf16 *y = out.y.data + i * out.y.stride, *dy = out.dy.data + i * out.dy.stride;
      const auto term = [&](std::int64_t d, auto part) { return load(y + d, part) * load(dy + d, part); };
      room.drop[i] = some ? sum_over<float>(shape.size, term) : 0;
    }
  }
}

// Rows of scores and of products of values with gradients that become shares and slopes.
template <bool kCapped, bool kDropped>
struct SlopeRows {
  ScoreScale<float> scale;
  LaneDropout<float> dropout;
  std::int64_t key = 0, query = 0;
  const float* products = nullptr;
  char *shares = nullptr, *slopes = nullptr, *across = nullptr;
  FloatVec lse[2] = {}, drop[2] = {};

  HONE_INLINE void make_two(std::int64_t first) const {
    __m512i ds[2];
    HONE_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int64_t row = first + i;
      FloatVec p[2], slope[2];
      HONE_UNROLL
      for (int v = 0; v < 2; ++v) {
        const float* at = products + row * kSide + v * 16;
        const FloatVec score = load_lanes<FloatVec>(at), turned = kCapped ? scale.turned(score) : score;
        p[v] = exp2_of<kExpDegree<bf16>>((kCapped ? scale.of_turned(turned) : scale.uncapped(score)) - lse[v]);
        FloatVec dp = load_lanes<FloatVec>(at + kSums);
        if (kDropped) dp = dropout.kept(dp, key + row, query + v * 16) * dropout.factor();
        slope[v] = p[v] * (dp - drop[v]);
        if (kCapped) slope[v] *= 1 - turned * turned;
        if (kDropped) p[v] = dropout.kept(p[v], key + row, query + v * 16);
      }
      ds[i] = (__m512i)_mm512_cvtne2ps_pbh((__m512)slope[1], (__m512)slope[0]);
      store_line(shares + row * kLine, (__m512i)_mm512_cvtne2ps_pbh((__m512)p[1], (__m512)p[0]));
      store_line(slopes + row * kLine, ds[i]);
    }
    store_pairs(ds[0], ds[1], across + first / 2 * kLine);
  }
};

// One block of keys with one block of queries.
class Pair {
 public:
  Pair(const AttentionShape& shape, const AttentionPair& pair)
      : mask_(shape),
        key_groups_(groups_of(shape.keys, pair.key_block)),
        query_groups_(groups_of(shape.queries, pair.query_block)),
        keys_(shape, const_cast<void*>(pair.key_room)),
        queries_(shape, pair.query_room),
        work_(shape, pair.work_room),
        dropout_(shape.dropout.rate, shape.dropout.queries, shape.dropout.keys),
        scale_(shape) {}

  void find_slopes() {
    if (scale_.capped())
      dropout_.on() ? find_slopes_as<true, true>() : find_slopes_as<true, false>();
    else
      dropout_.on() ? find_slopes_as<false, true>() : find_slopes_as<false, false>();
  }

  void add_to_keys(bool fresh) {
    for (std::int64_t k = key_groups_.first; k < key_groups_.end; ++k) {
      const Groups seeing = mask_.queries_of(k).within(query_groups_.first, query_groups_.end);
      if (seeing.count() == 0 && !fresh) continue;
      const std::int64_t tiles = kept_at(k, seeing.first), sums = (k - key_groups_.first) * work_.group_sums;
      for (std::int64_t s = 0; s < work_.steps; ++s) {
        const std::int64_t at_queries = seeing.first * work_.group + s * kStep;
        const auto add = [&](const char* a, const char* b, float* to) {
          add_block({a + tiles, kLine, kHalf, kStep}, b + at_queries, work_.group, seeing.count(), fresh,
                    to + sums + s * kSums);
        };
        add(work_.shares, queries_.dy_across, work_.dv);
        add(work_.slopes, queries_.q_across, work_.dk);
      }
    }
  }

  void add_to_queries(bool fresh) {
    for (std::int64_t q = query_groups_.first; q < query_groups_.end; ++q) {
      const Groups seen = mask_.keys_of(q).within(key_groups_.first, key_groups_.end);
      if (seen.count() == 0 && !fresh) continue;
      for (std::int64_t s = 0; s < work_.steps; ++s)
        add_block({keys_.turned + seen.first * keys_.group + s * kStep, kLine, kHalf, keys_.group},
                  work_.slopes_across + kept_across_at(seen.first, q), kStep, seen.count(), fresh,
                  queries_.sums + q * work_.group_sums + s * kSums);
    }
  }

 private:
  std::int64_t kept_at(std::int64_t keys, std::int64_t queries) const {
    return ((keys - key_groups_.first) * kBlockGroups + queries - query_groups_.first) * kStep;
  }
  std::int64_t kept_across_at(std::int64_t keys, std::int64_t queries) const {
    return ((queries - query_groups_.first) * kBlockGroups + keys - key_groups_.first) * kStep;
  }

  // Products of a pair of groups are made while the pair before is worked on, tile instruction by tile instruction
  // between its rows.
  template <bool kCapped, bool kDropped>
  [[gnu::noinline]] void find_slopes_as() {
    SlopeRows<kCapped, kDropped> last{scale_, dropout_};
    std::int64_t last_keys = -1, last_queries = -1, done = kSide;
    float *now = work_.products, *other = now + 2 * kSums;
    const std::int64_t products = 2 * 4 * work_.steps;
    const auto finish = [&] {
      for (; done < kSide; done += 2) last.make_two(done);
      if (last_keys < 0) return;
      const Band band = mask_.of_keys(last_queries, last_keys);
      if (!band.whole()) hide(band, last_keys, last_queries);
    };
    for (std::int64_t q = query_groups_.first; q < query_groups_.end; ++q) {
      const Groups seen = mask_.keys_of(q).within(key_groups_.first, key_groups_.end);
      for (std::int64_t k = seen.first; k < seen.end; ++k) {
        const std::int64_t at_keys = k * keys_.group, at_queries = q * keys_.group;
        const auto multiply = [&](const char* a, const char* b, std::int64_t before) HONE_LAMBDA {
          clear_sums();
          add_steps({a, kLine, kHalf, kStep}, b, kStep, work_.steps, [&](std::int64_t step, int product) HONE_LAMBDA {
            for (const std::int64_t part = before + 4 * step + product + 1; done * products < part * kSide; done += 2)
              last.make_two(done);
          });
        };
        multiply(keys_.keys + at_keys, queries_.q_along + at_queries, 0);
        store_sums(now);
        multiply(keys_.values + at_keys, queries_.dy_along + at_queries, 4 * work_.steps);
        finish();
        store_sums(now + kSums);
        last = slope_rows<kCapped, kDropped>(k, q, now);
        last_keys = k, last_queries = q, done = 0;
        std::swap(now, other);
      }
    }
    finish();
  }

  // Shares and slopes of pairs that do not see each other become 0.
  [[gnu::noinline]] void hide(const Band& band, std::int64_t keys, std::int64_t queries) const {
    char *const shares = work_.shares + kept_at(keys, queries), *const slopes = work_.slopes + kept_at(keys, queries),
                *const across = work_.slopes_across + kept_across_at(keys, queries);
    const auto hidden = [&](char* tiles, std::int64_t r) {
      const __m512i line = _mm512_maskz_mov_epi16(band.row(r), load_line(tiles + r * kLine));
      store_line(tiles + r * kLine, line);
      return line;
    };
    for (std::int64_t r = 0; r < kSide; r += 2) {
      hidden(shares, r), hidden(shares, r + 1);
      store_pairs(hidden(slopes, r), hidden(slopes, r + 1), across + r / 2 * kLine);
    }
  }

  template <bool kCapped, bool kDropped>
  HONE_INLINE SlopeRows<kCapped, kDropped> slope_rows(std::int64_t keys, std::int64_t queries,
                                                      const float* products) const {
    const std::int64_t query = queries * kSide;
    const auto two = [&](const float* x, FloatVec(&to)[2]) {
      to[0] = load_lanes<FloatVec>(x + query), to[1] = load_lanes<FloatVec>(x + query + 16);
    };
    SlopeRows<kCapped, kDropped> made{.scale = scale_,
                                      .dropout = dropout_,
                                      .key = keys * kSide,
                                      .query = query,
                                      .products = products,
                                      .shares = work_.shares + kept_at(keys, queries),
                                      .slopes = work_.slopes + kept_at(keys, queries),
                                      .across = work_.slopes_across + kept_across_at(keys, queries)};
    two(queries_.lse, made.lse), two(queries_.drop, made.drop);
    return made;
  }

  const GroupMask mask_;
  const Groups key_groups_, query_groups_;
  const KeyRoom keys_;
  const QueryRoom queries_;
  const WorkRoom work_;
  const LaneDropout<float> dropout_;
  const ScoreScale<float> scale_;
};

void add_to_keys(const AttentionShape& shape, const AttentionPair& blocks, bool fresh) {
  const TileRegisters tiles;
  Pair pair(shape, blocks);
  pair.find_slopes();
  pair.add_to_keys(fresh);
}
void add_to_queries(const AttentionShape& shape, const AttentionPair& blocks, bool fresh) {
  const TileRegisters tiles;
  Pair(shape, blocks).add_to_queries(fresh);
}

void finish_keys(const AttentionShape& shape, std::int64_t block, const void* work, HeadRows<bf16> dk,
                 HeadRows<bf16> dv) {
  const WorkRoom room(shape, const_cast<void*>(work));
  const auto scale = static_cast<float>(shape.scale),
             kept = LaneDropout<float>(shape.dropout.rate, nullptr, nullptr).factor();
  const std::int64_t first = block * kBlock, count = least(kBlock, shape.keys - first);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sums = i / kSide * room.group_sums, row = i % kSide;
    narrow_row(room.dk + sums, row, scale, room.size, dk.data + (first + i) * dk.stride);
    narrow_row(room.dv + sums, row, kept, room.size, dv.data + (first + i) * dv.stride);
  }
}

void finish_queries(const AttentionShape& shape, std::int64_t block, const void* queries, void* work,
                    HeadRows<bf16> dq) {
  const QueryRoom room(shape, const_cast<void*>(queries));
  const WorkRoom work_room(shape, work);
  const Groups groups = groups_of(shape.queries, block);
  for (std::int64_t g = groups.first; g < groups.end; ++g) {
    const float* sums = room.sums + g * room.group_sums;
    for (std::int64_t at = 0; at < room.group_sums; at += kSums)
      transpose(sums + at, kSide, kSide, kSide, work_room.turned + at, kSide);
    const std::int64_t count = least(kSide, shape.queries - g * kSide);
    for (std::int64_t r = 0; r < count; ++r)
      narrow_row(work_room.turned, r, static_cast<float>(shape.scale), room.size,
                 dq.data + (g * kSide + r) * dq.stride);
  }
}

}  // namespace

template <class T>
AttentionBackward<T> attention_backward() {
  return {key_room,    query_room,     work_room,   pack_keys,      pack_queries,
          add_to_keys, add_to_queries, finish_keys, finish_queries, kBlock};
}
HONE_INSTANTIATE_TILE_KERNELS(AttentionBackward, attention_backward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
