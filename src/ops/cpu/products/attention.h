// Kernels of ops::attention: blocks of queries of one query head against the keys of one key/value head of one
// document.
//
// A document's keys and queries are cut into blocks from its start: of kAttentionBlock forward, backward of what the
// kernels say. Callers pack the key blocks once (for all queries and all query heads that share them), in any order and
// by any thread, then attend. What is computed for a block does not depend on who computes it. Rooms are raw memory
// aligned to 64 bytes.
#pragma once

#include "ops/cpu/products/head_rows.h"

namespace hone::ops::cpu {

inline constexpr std::int64_t kAttentionBlock = 128;

// Dropout of shares (ops/dropout_words.h) if rate > 0. Words of the query head's queries and of the keys, both readable
// up to the next multiple of kAttentionBlock.
struct AttentionDropout {
  double rate = 0;
  const std::uint32_t *queries = nullptr, *keys = nullptr;
};

// Query i stands at key i + keys - queries; it sees this key, (window > 0) the window - 1 before it, else all before,
// and the `ahead` keys after it.
struct AttentionShape {
  std::int64_t queries = 0, keys = 0, size = 0, window = 0;
  double scale = 1;
  AttentionDropout dropout{};
  std::int64_t ahead = 0;
  double soft_cap = 0;
};

template <class T>
struct AttentionForward {
  std::int64_t (*key_room)(const AttentionShape& shape);  // bytes, for all key blocks
  std::int64_t (*work_room)(const AttentionShape& shape);
  void (*pack_keys)(const AttentionShape& shape, HeadRows<const T> k, HeadRows<const T> v, std::int64_t block,
                    void* key_room, void* work_room);
  // Writes y and lse (the logarithm of the sum of e^score, one per query) of one block of queries.
  void (*attend)(const AttentionShape& shape, HeadRows<const T> q, std::int64_t block, const void* key_room,
                 void* work_room, HeadRows<T> y, Wide<T>* lse);
};
HONE_TILE_KERNELS(AttentionForward, attention_forward)

// What the forward pass left of one query head, and the gradient of its result.
template <class T>
struct AttentionOutput {
  HeadRows<const T> q, y, dy;
  const Wide<T>* lse = nullptr;
};

struct AttentionPair {
  const void* key_room = nullptr;
  std::int64_t key_block = 0;
  void* query_room = nullptr;
  std::int64_t query_block = 0;
  void* work_room = nullptr;
};

// Gradients of one query head's scores with one key/value head; shape.queries == shape.keys. Callers pack all blocks,
// then go through every pair of a block of keys and a block of queries that sees it: add_to_keys, then add_to_queries
// by the same thread. The sums of a block of keys are in the work room: one block at a time, its query heads one after
// the other, their blocks of queries in ascending order. Those of a block of queries are in the query room: blocks of
// keys are added to it in ascending order. fresh: the sums start here.
template <class T>
struct AttentionBackward {
  std::int64_t (*key_room)(const AttentionShape& shape);
  std::int64_t (*query_room)(const AttentionShape& shape);  // of one query head
  std::int64_t (*work_room)(const AttentionShape& shape);
  void (*pack_keys)(const AttentionShape& shape, HeadRows<const T> k, HeadRows<const T> v, std::int64_t block,
                    void* key_room, void* work_room);
  void (*pack_queries)(const AttentionShape& shape, const AttentionOutput<T>& out, std::int64_t block, void* query_room,
                       void* work_room);
  void (*add_to_keys)(const AttentionShape& shape, const AttentionPair& pair, bool fresh);
  void (*add_to_queries)(const AttentionShape& shape, const AttentionPair& pair, bool fresh);
  void (*finish_keys)(const AttentionShape& shape, std::int64_t block, const void* work_room, HeadRows<T> dk,
                      HeadRows<T> dv);
  void (*finish_queries)(const AttentionShape& shape, std::int64_t block, const void* query_room, void* work_room,
                         HeadRows<T> dq);
  std::int64_t block = kAttentionBlock;  // rows of one
};
HONE_TILE_KERNELS(AttentionBackward, attention_backward)

}  // namespace hone::ops::cpu
