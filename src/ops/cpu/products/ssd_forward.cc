// A state space, forward; compiled once per instruction set.
#include "ops/cpu/products/ssd-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kFewTokens = 4;  // so many go one by one, straight through the state as it lies

template <class T>
struct ForwardRoom : SsdSizes<T> {
  using W = Wide<T>;
  ForwardRoom(const SsdShape& shape, void* room)
      : SsdSizes<T>(shape), pieces(room), chunk(*this, pieces), writing(*this, pieces) {
    weights = pieces.template take<W>(kChunk * kChunk);
    columns = pieces.template take<W>(kChunk * this->keys);
    read = pieces.template take<W>(kChunk * this->values);
    states = pieces.template take<W>(shape.heads * this->memory());
  }
  ForwardRoom(const ForwardRoom&) = delete;
  Pieces pieces;
  SsdChunk<T> chunk;
  SsdWriting<T> writing;
  W* weights;  // [t][s]
  W* columns;  // [size's place][row]
  W* read;     // [row][value's place]
  W* states;   // of each head [size's place][value's place]
};

template <class T>
std::int64_t forward_room(const SsdShape& shape) {
  return ForwardRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
class ForwardPass {
 public:
  using W = Wide<T>;
  using U = Units<W>;
  ForwardPass(const SsdShape& shape, const SsdRows<T>& rows, W* state, HeadRows<T> y, std::int64_t y_head, void* room)
      : rows_(rows), state_(state), y_(y), y_head_(y_head), x_(shape, room) {}

  void run() {
    if (state_) load_state();
    for (std::int64_t chunk = 0; chunk < x_.chunks; ++chunk) {
      x_.chunk.select(chunk);
      x_.chunk.read_b(rows_);
      x_.chunk.read_c(rows_);
      for (std::int64_t head = 0; head < x_.shape.heads; ++head) {
        W* state = x_.states + head * x_.memory();
        const W* before = chunk == 0 && !state_ ? nullptr : state;
        x_.writing.run(rows_, x_.chunk, head);
        read(before);
        store_read(head);
        if (chunk + 1 < x_.chunks || state_) x_.writing.take_in(x_.chunk, before, state, x_.columns);
      }
    }
    if (state_) store_state();
  }

 private:
  void read(const W* state) {
    const SsdChunk<T>& chunk = x_.chunk;
    const ChunkDecay<W>& gates = x_.writing.gates;
    each_share(gates, chunk.products, chunk.padded, x_.weights,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return products * share; });
    each_tile(chunk.padded, 0, x_.values / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (state) {
                  multiply<U>(chunk.c + row * x_.keys, x_.keys, state + vector * kLanes<W>, x_.values, x_.keys, x);
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
  }
  void store_read(std::int64_t head) {
    const W skip = rows_.skip[head];
    for (std::int64_t t = 0; t < x_.chunk.count; ++t) {
      const W *from = x_.read + t * x_.values, *own = x_.writing.x + t * x_.values;
      T* to = y_.data + head * y_head_ + (x_.chunk.first + t) * y_.stride;
      each_vector<W>(x_.shape.value_size, [&](std::int64_t i, auto part) {
        store(to + i, load(from + i, part) + load(own + i, part) * skip, part);
      });
    }
  }

  template <class Copy>
  void each_row_of_state(Copy&& copy) const {
    for (std::int64_t head = 0; head < x_.shape.heads; ++head)
      for (std::int64_t k = 0; k < x_.shape.key_size; ++k)
        copy(state_ + (head * x_.shape.key_size + k) * x_.shape.value_size,
             x_.states + head * x_.memory() + k * x_.values, x_.shape.value_size * sizeof(W));
  }
  void load_state() {
    std::memset(x_.states, 0, x_.shape.heads * x_.memory() * sizeof(W));
    each_row_of_state([](const W* state, W* own, std::size_t bytes) { std::memcpy(own, state, bytes); });
  }
  void store_state() {
    each_row_of_state([](W* state, const W* own, std::size_t bytes) { std::memcpy(state, own, bytes); });
  }

  const SsdRows<T>& rows_;
  W* state_;
  HeadRows<T> y_;
  std::int64_t y_head_;
  ForwardRoom<T> x_;
};

// One token of one head: the state takes it in, and gives what it reads.
template <class T>
void step(const ForwardRoom<T>& x, const SsdRows<T>& rows, std::int64_t t, std::int64_t head, Wide<T>* state, T* y) {
  using W = Wide<T>;
  const std::int64_t keys = x.shape.key_size, size = x.shape.value_size, gate = t * rows.gate_stride + head;
  W *own = x.writing.x, *sums = x.read;
  pack<T>({rows.x.data + head * rows.x_head, rows.x.stride}, t, 1, 1, size, x.values, own);
  const W decay = std::exp(rows.decay[gate]), weight = rows.step[gate], skip = rows.skip[head];
  each_vector<W>(size, [&](std::int64_t i, auto part) { store(sums + i, load(own + i, part) * skip, part); });
  for (std::int64_t k = 0; k < keys; ++k) {
    W* held = state + k * size;
    const W by = x.chunk.b[k] * weight, read = x.chunk.c[k];
    each_vector<W>(size, [&](std::int64_t i, auto part) {
      const Vec<W> now = load(held + i, part) * decay + load(own + i, part) * by;
      store(held + i, now, part);
      store(sums + i, load(sums + i, part) + now * read, part);
    });
  }
  each_vector<W>(size, [&](std::int64_t i, auto part) { store(y + i, load(sums + i, part), part); });
}

template <class T>
void run_forward(const SsdShape& shape, const SsdRows<T>& rows, Wide<T>* state, HeadRows<T> y, std::int64_t y_head,
                 void* room) {
  if (!state || shape.tokens > kFewTokens) return ForwardPass<T>(shape, rows, state, y, y_head, room).run();
  const ForwardRoom<T> x(shape, room);
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    pack<T>(rows.c, t, 1, 1, shape.key_size, x.keys, x.chunk.c);
    pack<T>(rows.b, t, 1, 1, shape.key_size, x.keys, x.chunk.b);
    for (std::int64_t head = 0; head < shape.heads; ++head)
      step<T>(x, rows, t, head, state + head * shape.key_size * shape.value_size,
              y.data + head * y_head + t * y.stride);
  }
}

}  // namespace

template <class T>
SsdForward<T> ssd_forward() {
  return {forward_room<T>, run_forward<T>};
}
HONE_INSTANTIATE_KERNELS(SsdForward, ssd_forward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
