// A memory that each token corrects, forward; compiled once per instruction set.
#include "ops/cpu/products/gated_delta-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kFewTokens = 4;  // so many go one by one, straight through the memory as it lies

template <class T>
struct ForwardRoom : DeltaSizes<T> {
  using W = Wide<T>;
  ForwardRoom(const DeltaShape& shape, void* room)
      : DeltaSizes<T>(shape), pieces(room), chunk(*this, pieces), writing(*this, pieces) {
    weights = pieces.template take<W>(kChunk * kChunk);
    kept_columns = pieces.template take<W>(kChunk * this->keys);
    read = pieces.template take<W>(kChunk * this->values);
    memories = pieces.template take<W>(shape.group * this->memory());
  }
  ForwardRoom(const ForwardRoom&) = delete;
  Pieces pieces;
  DeltaChunk<T> chunk;
  DeltaWriting<T> writing;
  W* weights;       // [t][s]
  W* kept_columns;  // [key's place][row]
  W* read;          // [row][value's place]
  W* memories;      // of each head [key's place][value's place]
};

template <class T>
std::int64_t forward_room(const DeltaShape& shape) {
  return ForwardRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
class ForwardPass {
 public:
  using W = Wide<T>;
  using U = Units<W>;
  ForwardPass(const DeltaShape& shape, const DeltaRows<T>& rows, W* state, HeadRows<T> y, std::int64_t y_head,
              void* room)
      : rows_(rows), state_(state), y_(y), y_head_(y_head), x_(shape, room) {}

  void run() {
    if (state_) load_state();
    for (std::int64_t chunk = 0; chunk < x_.chunks; ++chunk) {
      x_.chunk.select(chunk);
      x_.chunk.read_keys(rows_);
      x_.chunk.read_queries(rows_);
      for (std::int64_t head = 0; head < x_.shape.group; ++head) {
        W* memory = x_.memories + head * x_.memory();
        const bool empty = chunk == 0 && !state_;
        x_.writing.run(rows_, x_.chunk, head, empty ? nullptr : memory);
        read(head, empty ? nullptr : memory);
        if (chunk + 1 < x_.chunks || state_) take_in(empty, memory);
      }
    }
    if (state_) store_state();
  }

 private:
  void read(std::int64_t head, const W* memory) {
    const DeltaChunk<T>& chunk = x_.chunk;
    const ChunkDecay<W>& gates = x_.writing.gates;
    each_share(gates, chunk.queries_keys, chunk.padded, x_.weights,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return products * share; });
    each_tile(chunk.padded, 0, x_.values / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (memory) {
                  multiply<U>(chunk.q + row * x_.keys, x_.keys, memory + vector * kLanes<W>, x_.values, x_.keys, x);
                  HONE_UNROLL
                  for (int r = 0; r < R; ++r) {
                    HONE_UNROLL
                    for (int i = 0; i < V; ++i) x[r][i] *= gates.seen[row + r];
                  }
                }
                multiply<U>(x_.weights + row * kChunk, kChunk, x_.writing.written + vector * kLanes<W>, x_.values,
                            row + R, x);
                store_tile(x, x_.read + row * x_.values + vector * kLanes<W>, x_.values);
              });
    for (std::int64_t t = 0; t < chunk.count; ++t) {
      const W* from = x_.read + t * x_.values;
      T* to = y_.data + head * y_head_ + (chunk.first + t) * y_.stride;
      each_vector<W>(x_.shape.value_size,
                     [&](std::int64_t i, auto part) { store(to + i, load(from + i, part), part); });
    }
  }

  void take_in(bool empty, W* memory) {
    const DeltaChunk<T>& chunk = x_.chunk;
    std::memcpy(x_.kept_columns, chunk.k_columns, kChunk * x_.keys * sizeof(W));
    scale_columns(x_.kept_columns, x_.keys, chunk.padded, x_.writing.gates.kept);
    take_in_values<W>(x_.sizes(), x_.kept_columns, x_.writing.written, chunk.padded, x_.writing.gates.decay,
                      empty ? nullptr : memory, memory);
  }

  template <class Copy>
  void each_row_of_state(Copy&& copy) const {
    for (std::int64_t head = 0; head < x_.shape.group; ++head)
      for (std::int64_t k = 0; k < x_.shape.key_size; ++k)
        copy(state_ + (head * x_.shape.key_size + k) * x_.shape.value_size,
             x_.memories + head * x_.memory() + k * x_.values, x_.shape.value_size * sizeof(W));
  }
  void load_state() {
    std::memset(x_.memories, 0, x_.shape.group * x_.memory() * sizeof(W));
    each_row_of_state([](const W* state, W* memory, std::size_t bytes) { std::memcpy(memory, state, bytes); });
  }
  void store_state() {
    each_row_of_state([](W* state, const W* memory, std::size_t bytes) { std::memcpy(state, memory, bytes); });
  }

  const DeltaRows<T>& rows_;
  W* state_;
  HeadRows<T> y_;
  std::int64_t y_head_;
  ForwardRoom<T> x_;
};

// One token of one head: the memory is corrected, and gives what it reads.
template <class T>
void step(const ForwardRoom<T>& x, const DeltaRows<T>& rows, std::int64_t t, std::int64_t head, Wide<T>* memory, T* y) {
  using W = Wide<T>;
  const std::int64_t keys = x.shape.key_size, size = x.shape.value_size, gate = t * rows.gate_stride + head;
  W *left = x.writing.above, *sums = x.read;
  pack<T>({rows.v.data + head * rows.value_head, rows.v.stride}, t, 1, 1, size, x.values, left);
  const W decay = std::exp(rows.decay[gate]), weight = rows.step[gate];
  for (std::int64_t k = 0; k < keys; ++k) {
    W* held = memory + k * size;
    const W key = x.chunk.k[k];
    each_vector<W>(size, [&](std::int64_t i, auto part) {
      const Vec<W> now = load(held + i, part) * decay;
      store(held + i, now, part);
      store(left + i, load(left + i, part) - now * key, part);
    });
  }
  for (std::int64_t i = 0; i < x.values; ++i) sums[i] = 0;
  for (std::int64_t k = 0; k < keys; ++k) {
    W* held = memory + k * size;
    const W key = x.chunk.k[k] * weight, query = x.chunk.q[k];
    each_vector<W>(size, [&](std::int64_t i, auto part) {
      const Vec<W> now = load(held + i, part) + load(left + i, part) * key;
      store(held + i, now, part);
      store(sums + i, load(sums + i, part) + now * query, part);
    });
  }
  each_vector<W>(size, [&](std::int64_t i, auto part) { store(y + i, load(sums + i, part), part); });
}

template <class T>
void run_forward(const DeltaShape& shape, const DeltaRows<T>& rows, Wide<T>* memory, HeadRows<T> y, std::int64_t y_head,
                 void* room) {
  using W = Wide<T>;
  if (!memory || shape.tokens > kFewTokens) return ForwardPass<T>(shape, rows, memory, y, y_head, room).run();
  const ForwardRoom<T> x(shape, room);
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    pack<T>(rows.q, t, 1, 1, shape.key_size, x.keys, x.chunk.q);
    pack<T>(rows.k, t, 1, 1, shape.key_size, x.keys, x.chunk.k);
    make_units<W>(x.chunk.q, 1, x.keys, x.scale, nullptr);
    make_units<W>(x.chunk.k, 1, x.keys, W(1), nullptr);
    for (std::int64_t head = 0; head < shape.group; ++head)
      step<T>(x, rows, t, head, memory + head * shape.key_size * shape.value_size,
              y.data + head * y_head + t * y.stride);
  }
}

}  // namespace

template <class T>
DeltaForward<T> delta_forward() {
  return {forward_room<T>, run_forward<T>};
}
HONE_INSTANTIATE_KERNELS(DeltaForward, delta_forward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
